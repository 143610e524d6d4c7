package cli

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/part"
	"github.com/podtask/podtask/internal/cli/run"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/connect/sshhost"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

// The scripts call `podtask __complete`, so that completion is the same in all three shells.
var (
	//go:embed completion/podtask.bash
	bashCompletion string
	//go:embed completion/podtask.zsh
	zshCompletion string
	//go:embed completion/podtask.fish
	fishCompletion string
)

func completionCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "print a script that completes commands, flags, tasks and containers in a shell",
		ArgsUsage: "bash|zsh|fish",
		Description: `Examples:
  source <(podtask completion bash)
  podtask completion bash > ~/.local/share/bash-completion/completions/podtask
  podtask completion zsh > "${fpath[1]}/_podtask"
  podtask completion fish > ~/.config/fish/completions/podtask.fish`,
		Action: func(c *cli.Context) error {
			script := map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}[c.Args().First()]
			if script == "" || c.Args().Len() != 1 {
				return command.Usagef("completion", "completion takes one shell: bash, zsh or fish")
			}
			_, err := fmt.Fprint(p.Stdout, script)
			return err
		},
	}
}

// completeCommand prints the completions of the last of its arguments, which are the words behind
// podtask, one per line. It prints nothing where a file is expected.
func completeCommand(p *command.Program, build part.Build) *cli.Command {
	return &cli.Command{
		Name:   "__complete",
		Usage:  "print what a word may become; the scripts of `completion` ask it",
		Hidden: true,
		Action: command.WithMachine(p, newCompletion(build)),
	}
}

type completionOptions struct {
	build   part.Build
	out     io.Writer
	program *command.Program
	tasks   *record.Tasks
	owners  *connect.Connector
}

func newCompletion(build part.Build) func(*command.Machine) completionOptions {
	return func(m *command.Machine) completionOptions {
		return completionOptions{build: build, out: m.Program.Stdout, program: m.Program, tasks: m.Engine.Tasks, owners: m.Connector}
	}
}

// Run implements command.Runner.
func (o completionOptions) Run(_ context.Context, c *cli.Context) error {
	words := c.Args().Slice()
	if len(words) == 0 {
		words = []string{""}
	}
	for _, candidate := range o.candidates(c.App, words[:len(words)-1], words[len(words)-1]) {
		if _, err := fmt.Fprintln(o.out, candidate); err != nil {
			return err
		}
	}
	return nil
}

// candidates returns the completions of a word after other words.
func (o completionOptions) candidates(app *cli.App, before []string, word string) []string {
	var candidates []string
	path, arguments, flag := parseWords(app, before)
	commands, cmd := app.Commands, (*cli.Command)(nil)
	if len(path) > 0 {
		cmd = path[len(path)-1]
		commands = cmd.Subcommands
	}
	switch {
	case flag != nil && flag.Names()[0] == "host":
		candidates = o.contextNames(true)
	case flag != nil:
		candidates = valuesOf(o.build, flag)
	case strings.HasPrefix(word, "--") && strings.Contains(word, "="):
		candidates = attachedValues(o.build, app, cmd, word)
	case strings.HasPrefix(word, "-"):
		candidates = flagNames(app, cmd)
	case len(commands) > 0 && len(arguments) == 0:
		for _, c := range visible(commands) {
			candidates = append(candidates, c.Name)
		}
	case len(arguments) == 0 && len(fixedWords(cmd.ArgsUsage)) > 0:
		candidates = fixedWords(cmd.ArgsUsage)
	case cmd == nil:
	case path[0].Name == "explain":
		switch len(arguments) {
		case 0:
			candidates = run.ExplainedFormats(o.build.Formats())
		case 1:
			candidates = run.ExplainedMembers(arguments[0], o.build.Formats())
		}
	case path[0].Name == "context":
		if cmd.Name == "use" && len(arguments) == 0 || cmd.Name == "rm" {
			candidates = o.contextNames(cmd.Name == "use")
		}
	case o.onHost(before).Remote():
		candidates = o.fromHost(before, word)
	case path[0].Name == "service":
		if len(arguments) == 0 && cmd.Name != "create" && cmd.Name != "ls" {
			candidates = o.serviceNames(cmd.Name)
		}
	default:
		if found, ok := o.ofParts(path, arguments); ok {
			candidates = found
			break
		}
		if usage := strings.TrimPrefix(cmd.ArgsUsage, "["); strings.HasPrefix(usage, "TASK") {
			candidates = o.taskArguments(cmd, arguments)
			if len(arguments) == 0 && strings.HasPrefix(usage, "TASK|SERVICE") {
				candidates = append(candidates, o.serviceNames(cmd.Name)...)
			}
		}
	}
	return slices.DeleteFunc(candidates, func(c string) bool { return !strings.HasPrefix(c, word) })
}

// ofParts returns what a part says of an argument.
func (o completionOptions) ofParts(path []*cli.Command, arguments []string) (candidates []string, ok bool) {
	q := part.Completion{Arguments: arguments, Usage: path[len(path)-1].ArgsUsage, StateDir: o.owners.StateDir}
	for _, c := range path {
		q.Path = append(q.Path, c.Name)
	}
	for _, p := range o.build.Parts {
		if p.Complete != nil {
			if candidates, ok = p.Complete(q); ok {
				return candidates, true
			}
		}
	}
	return nil, false
}

// contextNames returns the names of contexts.
func (o completionOptions) contextNames(local bool) (names []string) {
	if local {
		names = append(names, sshhost.Local)
	}
	all, err := sshhost.LoadContexts(o.program.Getenv)
	if err != nil {
		return names
	}
	for _, c := range all.Contexts {
		names = append(names, c.Name)
	}
	return names
}

// onHost returns the host that words are a command line for.
func (o completionOptions) onHost(words []string) command.ChosenHost {
	flag := ""
	for i, w := range words {
		if value, ok := strings.CutPrefix(w, "--host="); ok {
			flag = value
		} else if w == "--host" && i+1 < len(words) {
			flag = words[i+1]
		}
	}
	h, err := o.program.FindHost(flag)
	if err != nil {
		return command.ChosenHost{}
	}
	return h
}

// hostLimit is the time for which a completion waits for another host.
const hostLimit = 2 * time.Second

// fromHost asks podtask on the host. What cannot be the name of a task or a service is left out.
func (o completionOptions) fromHost(before []string, word string) (names []string) {
	ctx, cancel := context.WithTimeout(context.Background(), hostLimit)
	defer cancel()
	link, err := sshhost.Dial(ctx, o.onHost(before).Host, sshhost.Options{Version: o.program.Version, Stderr: io.Discard})
	if err != nil {
		return nil
	}
	defer link.Close()
	var out strings.Builder
	args := slices.Concat([]string{"__complete", "--"}, withoutHost(before), []string{word})
	if code, err := link.Run(ctx, sshhost.Request{Args: args}, sshhost.Streams{Out: &out, Err: io.Discard}); err != nil || code != 0 {
		return nil
	}
	for name := range strings.Lines(out.String()) {
		if name = strings.TrimSpace(name); completedName.MatchString(name) {
			names = append(names, name)
		}
	}
	return names
}

// completedName matches names that are no words of a shell besides.
var completedName = lazy.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/=-]*$`)

// withoutHost returns words without --host.
func withoutHost(words []string) (rest []string) {
	for i := 0; i < len(words); i++ {
		switch {
		case words[i] == "--host":
			i++
		case !strings.HasPrefix(words[i], "--host="):
			rest = append(rest, words[i])
		}
	}
	return rest
}

// fixedWords returns the literal alternatives of a usage such as "bash|zsh|fish"; words in
// capitals are placeholders. Alternatives behind another argument are left out.
func fixedWords(usage string) (words []string) {
	if strings.HasPrefix(usage, "TASK ") {
		return nil
	}
	usage, _, _ = strings.Cut(strings.TrimPrefix(usage, "["), "]")
	for alternative := range strings.SplitSeq(usage, "|") {
		word, _, _ := strings.Cut(strings.TrimSpace(alternative), " ")
		if word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz") == "" {
			words = append(words, word)
		}
	}
	return words
}

// parseWords returns the command that words name, with the groups that contain it before it, its
// arguments, and the flag that the next word is the value of.
func parseWords(app *cli.App, words []string) (path []*cli.Command, arguments []string, flag cli.Flag) {
	a := arranger{app: app}
	for _, w := range words {
		dashes := len(w) - len(strings.TrimLeft(w, "-"))
		switch {
		case flag != nil:
			flag = nil
		case w == "--":
		case dashes > 0 && dashes < len(w):
			name, _, given := strings.Cut(w[dashes:], "=")
			if dashes == 1 && !given {
				name = name[len(name)-1:] // the last of -abc
			}
			f, _ := a.find(name, dashes == 1)
			if _, optional := f.(*command.OptionalFlag); f != nil && !given && !optional && takesValue(f) {
				flag = f
			}
		case a.expectsCommand():
			if err := a.addCommand(w); err != nil {
				return nil, []string{w}, nil
			}
		default:
			arguments = append(arguments, w)
		}
	}
	return a.path, arguments, flag
}

func flagNames(app *cli.App, cmd *cli.Command) (names []string) {
	flags := app.Flags
	if cmd != nil {
		flags = append(slices.Clone(cmd.Flags), flags...)
	}
	for _, f := range flags {
		if v, ok := f.(cli.VisibleFlag); ok && !v.IsVisible() {
			continue
		}
		name := "--" + f.Names()[0]
		if len(f.Names()[0]) > 1 && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// taskArguments returns the names of tasks, or IDs of those without a name; behind a task its
// containers if the command takes one.
func (o completionOptions) taskArguments(cmd *cli.Command, arguments []string) (candidates []string) {
	if len(arguments) > 0 && strings.Contains(cmd.ArgsUsage, "CONTAINER") {
		st, err := o.tasks.Find(arguments[0])
		if err != nil || len(arguments) > 1 {
			return nil
		}
		for _, c := range st.Task.Containers {
			candidates = append(candidates, c.Name)
		}
		return candidates
	}
	states, _ := o.tasks.States()
	for _, st := range slices.Backward(states) {
		name := st.DisplayName()
		unfit := cmd.Name == "stop" && st.Status() == lifecycle.StatusStopped
		if !unfit && !slices.Contains(arguments, name) && !slices.Contains(candidates, name) {
			candidates = append(candidates, name)
		}
	}
	return candidates
}

// serviceNames returns the services of the agent, in the form that a command of `service` takes.
func (o completionOptions) serviceNames(verb string) (names []string) {
	ctx, cancel := context.WithTimeout(context.Background(), completionLimit)
	defer cancel()
	c := o.owners.DialAgent(ctx)
	if c == nil {
		return nil
	}
	defer c.Close()
	all, err := c.Services(ctx)
	if err != nil {
		return nil
	}
	for _, s := range all {
		if verb == "scale" {
			s.ServiceName += "="
		}
		names = append(names, s.ServiceName)
	}
	return names
}

// completionLimit is the time for which a completion waits for the agent.
const completionLimit = 100 * time.Millisecond
