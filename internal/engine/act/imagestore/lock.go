package imagestore

import (
	"fmt"

	"github.com/podtask/podtask/internal/define/lockfile"
	"github.com/podtask/podtask/pkg/images"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Lock returns the entry of a lockfile for an image that a task names. Host is this one, in the entry of an image that no registry has.
func (o Origin) Lock(name string, task taskdef.Task, host string) (lockfile.Image, error) {
	i := lockfile.Image{Image: name, Reference: o.Reference, Digest: o.Digest()}
	if o.Built != nil {
		i.From, i.ID, i.OnlyHere = "local storage of "+host, o.Built.ID, lockfile.NoOtherMachine
		return i, nil
	}
	ref, err := images.ParseRef(o.Reference)
	if err != nil {
		return i, err
	}
	if i.From = ref.Registry(); i.Digest == "" {
		return i, fmt.Errorf("%s has a manifest of schema 1, which has no digest to lock: push it again with a tool of today", name)
	}
	i.Platforms = make(map[string]string)
	for _, v := range o.Description.Variants {
		i.Platforms[v.Platform.String()] = v.Digest
	}
	return i, o.Description.Check(Platform(task))
}
