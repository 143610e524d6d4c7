package service

import (
	"strings"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/pkg/api"
)

// Settings returns what flags of `podtask service create` say, none of which reads the standard input; count is nil without --count.
func Settings(environ func() []string, words []string) (count *int, s api.ServiceSettings, err error) {
	c, err := command.ParseWords("service create", SettingsFlags(), words)
	if err != nil {
		return nil, s, err
	}
	k := serviceCall{serviceOptions: serviceOptions{environ: environ, registry: registry{in: strings.NewReader("")}}, c: c}
	s, err = k.settings(api.DeploymentConfiguration{})
	return intFlag(c, "count"), s, err
}
