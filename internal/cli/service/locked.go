package service

import (
	"context"
	"fmt"

	"github.com/podtask/podtask/internal/cli/command"
)

// lockedImages returns the images of the lockfile that --locked names, by the image as the definition has it; nil
// without --locked. It is called before anything is registered.
func (k serviceCall) lockedImages(ctx context.Context, args []string) (map[string]string, error) {
	if locked := k.c.String("locked"); locked == "" || locked == "false" {
		return nil, nil
	}
	name := k.family
	if len(args) > 1 {
		name = args[1]
	}
	if name == "" {
		return nil, command.Usagef(command.Path(k.c), "--locked needs the definition that the lock is of: give a FILE or --family FAMILY[:REV]")
	}
	d, err := k.definition(k.c, name)
	if err != nil {
		return nil, err
	}
	if d.Changes.Adjustments, err = command.ParseAdjustments(k.c); err != nil {
		return nil, err
	}
	_, f, err := d.Read()
	if err != nil {
		return nil, err
	}
	if !f.Runnable(k.errOut) {
		return nil, command.ExitStatus(command.ExitOwnFailure)
	}
	for _, i := range f.Lock.File.Images {
		if i.Local() && i.Digest == "" {
			return nil, fmt.Errorf("%s: %s has an ID and no digest, by which a service cannot name it: push it to a registry and name that", f.Lock.Path, i.Image)
		}
	}
	return f.Lock.Images, f.Lock.CheckBuilt(ctx, k.images)
}
