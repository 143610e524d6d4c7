package service

import (
	"flag"
	"fmt"
	"io"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/pkg/api"
	"github.com/urfave/cli/v2"
)

// Settings returns what flags of `podtask service create` say; count is nil without --count.
func Settings(p *command.Program, words []string) (count *int, s api.ServiceSettings, err error) {
	app := &cli.App{DisableSliceFlagSeparator: true}
	set := flag.NewFlagSet("service create", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	for _, f := range SettingsFlags() {
		if err := f.Apply(set); err != nil {
			return nil, s, err
		}
	}
	if err := set.Parse(words); err != nil {
		return nil, s, err
	}
	if set.NArg() > 0 {
		return nil, s, fmt.Errorf("%q is no flag of podtask service create", set.Arg(0))
	}
	c := cli.NewContext(app, set, nil)
	c.Command = &cli.Command{Name: "create", HelpName: "service create"}
	k := serviceCall{serviceOptions: serviceOptions{environ: p.CallerEnviron, getenv: p.Getenv, registry: newRegistry(p)}, c: c}
	s, err = k.settings(api.DeploymentConfiguration{})
	return intFlag(c, "count"), s, err
}
