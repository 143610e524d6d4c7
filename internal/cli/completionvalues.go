package cli

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/part"
	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/pkg/taskdef"
)

var conditions = []string{string(connect.UntilRunning), string(connect.UntilSteady), string(connect.UntilHealthy), string(connect.UntilStopped)}

// flagValues are the values of flags that take one of a few, by the flag's name. Those of settings are
// in their table.
var flagValues = map[string][]string{
	"protocol":    {"tcp", "udp"},
	"auto-update": {"registry"},
	"condition":   conditions,
	"wait":        conditions,
	"progress":    {"auto", "plain", "json", "none"},
	"strategy":    {"rolling", "blue-green", "linear", "canary"},
	"network":     {"bridge", "host", "none", "shared", "pasta", "slirp4netns"},
	"signal":      {"SIGTERM", "SIGKILL", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGSTOP", "SIGCONT", "SIGWINCH"},
	"target":      {string(taskdef.TargetFargate), string(taskdef.TargetEC2), string(taskdef.TargetExternal), string(taskdef.TargetManaged)},
}

// formats are all words that any --format knows; its help has those of a command.
var formats = []string{"table", "wide", "json", "yaml", "text", "github", "sarif", "dot", "mermaid", "otlp", "podstatus"}

// valuesOf returns the values of a flag that has a fixed set of them, and for a filter its keys, each with "=".
func valuesOf(build part.Build, f cli.Flag) (values []string) {
	for _, k := range config.Keys() {
		if slices.Contains(f.Names(), k.Name) {
			return k.Values
		}
	}
	usage := ""
	if d, ok := f.(cli.DocGenerationFlag); ok {
		usage = d.GetUsage()
	}
	words := strings.FieldsFunc(usage, func(c rune) bool { return strings.ContainsRune(" ,;:()`", c) })
	switch name := f.Names()[0]; name {
	case "format":
		return slices.DeleteFunc(slices.Clone(formats), func(v string) bool { return !slices.Contains(words, v) })
	case "filter":
		_, keys, _ := strings.Cut(usage, "keys are ")
		keys, _, _ = strings.Cut(keys, ";")
		for key := range strings.SplitSeq(keys, ", ") {
			if key != "" {
				values = append(values, key+"=")
			}
		}
		return values
	default:
		for _, p := range build.Parts {
			values = append(values, p.FlagValues[name]...)
		}
		return append(values, flagValues[name]...)
	}
}

// attachedValues completes a word such as --wait=h.
func attachedValues(build part.Build, app *cli.App, cmd *cli.Command, word string) (candidates []string) {
	name, _, _ := strings.Cut(strings.TrimPrefix(word, "--"), "=")
	flags := app.Flags
	if cmd != nil {
		flags = append(slices.Clone(cmd.Flags), flags...)
	}
	for _, f := range flags {
		if _, optional := f.(*command.OptionalFlag); slices.Contains(f.Names(), name) && (optional || takesValue(f)) {
			for _, v := range valuesOf(build, f) {
				candidates = append(candidates, "--"+name+"="+v)
			}
			return candidates
		}
	}
	return nil
}
