package service

import (
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/podtask/podtask/pkg/api"
	"github.com/urfave/cli/v2"
)

// Settings returns what flags of `podtask service create` say, none of which reads the standard input; count is nil without --count.
func Settings(environ func() []string, words []string) (count *int, s api.ServiceSettings, err error) {
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
	k := serviceCall{serviceOptions: serviceOptions{environ: environ, registry: registry{in: strings.NewReader("")}}, c: c}
	s, err = k.settings(api.DeploymentConfiguration{})
	return intFlag(c, "count"), s, err
}
