// Package part has the hook by which an optional part of podtask adds itself to the core: a value of type Part. The core
// calls the functions of the parts that it is given and knows no part by name; internal/parts lists them. A part may import
// the core; nothing but internal/parts imports a part.
package part

import (
	"context"
	"log/slog"
	"net/http"
	"slices"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/reason"
	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/define/members"
	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/serve"
	"github.com/podtask/podtask/pkg/api"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/urfave/cli/v2"
)

// Part is what an optional part adds. All members but Name may be empty. Nothing is called before it is needed, so
// that a part costs a command that does not use it nothing.
type Part struct {
	// Name is the part in one word, as in the table of internal/parts.
	Name string
	// Commands returns the part's commands. It is called for each command line and does nothing else.
	Commands func(p *command.Program) []Command
	// Routes returns where the commands work if another host is chosen, by their path, such as "aws env".
	Routes func() map[string]Route
	// Documents are the kinds of files that the part reads.
	Documents []command.Document
	// Convert returns a document, or the task definition that the part makes of it. It is called for each document that a
	// command reads as a task definition.
	Convert func(ctx context.Context, p *command.Program, doc define.Document) (define.Document, error)
	// Generate is `podtask generate TARGET SOURCE`, which writes files of other tools.
	Generate func(p *command.Program, c *cli.Context) error
	// Formats returns what becomes of the members of files that the part reads, for `podtask explain`.
	Formats func() []members.Format
	// FlagValues has the values of flags that take one of a few, by the name of the flag, for completion.
	FlagValues map[string][]string
	// Complete returns what the next argument of a command of the part may be; ok is false if the core knows.
	Complete func(q Completion) (candidates []string, ok bool)
	// Explain returns what the part says in `podtask why`.
	Explain func(m *command.Machine) Explainer
	// Beside returns what lists what the part has on this host besides tasks and services. It is called again and again, never
	// concurrently.
	Beside func(m *command.Machine) func(ctx context.Context) (console.Beside, error)
	// Task returns the ID of the task that a name of the part stands for in `podtask logs` and `podtask exec`, such as the latest
	// run of a schedule; found is false if the part does not know the name. stateDir is the directory of records.
	Task func(stateDir, name string) (id string, found bool)
	// BeforeCleanUp is called before tasks that ended long ago are removed. stateDir is the directory of records.
	BeforeCleanUp func(stateDir string, e *engine.Engine) error
	// Agent adds to an agent that starts. An error ends it.
	Agent func(a *Agent) error
}

// Command is a command with its place in the list of commands.
type Command struct {
	*cli.Command
	// Group is the title of a group in the help of the core; empty for a hidden command. The command follows the command
	// After there; if that is not in the group, it is the last one.
	Group, After string
	// Under, if not empty, is the command that this one is a command of: after the one that After names, else before all.
	Under string
}

// Completion is an argument of a command that is to be completed.
type Completion struct {
	// Path is the command with the groups that contain it, Arguments are the arguments before.
	Path, Arguments []string
	// Usage has the arguments of the command as its help shows them.
	Usage string
	// StateDir is the directory of records.
	StateDir string
}

// Explainer has the answers of a part to the question why something is as it is.
type Explainer struct {
	// Ref explains what a word means that names no task and no service; found is false if the part does not know it.
	Ref func(ctx context.Context, ref string) (a reason.Explanation, found bool, err error)
	// Task returns reasons of a task besides its own; nil for none.
	Task func(t api.Task) []api.Reason
	// Service explains a service in the same way.
	Service func(ctx context.Context, s api.Service) []api.Reason
}

// Agent is an agent that starts, for a part that adds to it.
type Agent struct {
	Log      *slog.Logger
	Settings *config.Settings
	Engine   *engine.Engine
	Backend  serve.AgentBackend
	// StateDir is the directory of records.
	StateDir string
	// Socket is the path of the agent's own socket.
	Socket string
	Getenv func(string) string
	// Collect adds metrics.
	Collect func(prometheus.Collector)
	// Handle adds a handler to the agent's socket; the pattern is that of http.ServeMux.
	Handle func(pattern string, h http.Handler)
	// Run makes the agent do something besides until it ends; an error ends the agent. The context ends with it.
	Run func(do func(ctx context.Context) error)
	// Listen makes the agent serve at a TCP address that the key of the configuration has; it does nothing without an address.
	Listen func(s command.TCPServer, key, address string) error
}

// Place is where a command works if a host is chosen.
type Place int

// The places.
const (
	OnHost  Place = iota // podtask of the other host runs it
	Here                 // it is about this machine; --host with it is an error, a context is not
	Special              // it connects to the host itself
	Refused              // it works on no other host
)

// Sender reads what a command reads of this machine, and returns the arguments for the host, and its input; nil for none.
type Sender func(ctx context.Context, flags, args []string) (there []string, input []byte, err error)

// Route says what becomes of a command if a host is chosen.
type Route struct {
	Place Place
	// Why is for Here and Refused: one sentence without a full stop.
	Why string
	// Definition is the number of arguments before a task definition, which is sent to the host, plus one; 0 for none.
	Definition int
	// Later: the tasks of the definition start when the command has ended, so no secret can come with it.
	Later bool
	// Output is a flag with a file that is written on this machine.
	Output string
	// Send returns what reads the files of this machine that the command of a path reads; nil for a command that reads none.
	Send func(p *command.Program, path string) Sender
	// Passes: the command executes another program, which parses the flags behind it.
	Passes bool
}

// ServerProcess explains why a command that serves this machine works here only.
const ServerProcess = "it is a process of the machine that it serves: a unit of systemd starts it there"

// Build is what a program is built of besides the core.
type Build struct {
	// Parts are those that are linked. Their order is that of what they add after the same command of the core.
	Parts []Part
	// Absent are the other ones.
	Absent []Absent
}

// Formats returns what becomes of the members of the files that the parts read.
func (b Build) Formats() (all []members.Format) {
	for _, p := range b.Parts {
		if p.Formats != nil {
			all = append(all, p.Formats()...)
		}
	}
	return all
}

// Documents returns the kinds of files that the parts read.
func (b Build) Documents() (all []command.Document) {
	for _, p := range b.Parts {
		all = append(all, p.Documents...)
	}
	return all
}

// Convert returns what the parts make of documents that are read as task definitions.
func (b Build) Convert() (all []func(ctx context.Context, p *command.Program, doc define.Document) (define.Document, error)) {
	for _, p := range b.Parts {
		if p.Convert != nil {
			all = append(all, p.Convert)
		}
	}
	return all
}

// Generate returns the function of the part that writes files of other tools; nil if none is linked.
func (b Build) Generate() func(p *command.Program, c *cli.Context) error {
	for _, p := range b.Parts {
		if p.Generate != nil {
			return p.Generate
		}
	}
	return nil
}

// Beside returns what lists what the parts have besides tasks and services.
func (b Build) Beside() (all []func(m *command.Machine) func(ctx context.Context) (console.Beside, error)) {
	for _, p := range b.Parts {
		if p.Beside != nil {
			all = append(all, p.Beside)
		}
	}
	return all
}

// BeforeCleanUp returns what the parts do before tasks that ended long ago are removed.
func (b Build) BeforeCleanUp() (all []func(stateDir string, e *engine.Engine) error) {
	for _, p := range b.Parts {
		if p.BeforeCleanUp != nil {
			all = append(all, p.BeforeCleanUp)
		}
	}
	return all
}

// Route returns where a command works, by its path; false if no part has it.
func (b Build) Route(path string) (Route, bool) {
	for _, p := range b.Parts {
		if p.Routes == nil {
			continue
		}
		if r, ok := p.Routes()[path]; ok {
			return r, true
		}
	}
	return Route{}, false
}

// Absent is a part that is not linked.
type Absent struct {
	Name string
	// Commands are those that the part adds, by their path.
	Commands []string
	// Settings are the keys of the configuration that only the part uses.
	Settings []string
}

// MissingCommand returns why a command is not in this build; empty if no part has it.
func (b Build) MissingCommand(path string) string {
	return b.missing(func(a Absent) bool { return slices.Contains(a.Commands, path) })
}

// MissingSetting returns why a key of the configuration does nothing in this build; empty if it does something.
func (b Build) MissingSetting(key string) string {
	return b.missing(func(a Absent) bool { return slices.Contains(a.Settings, key) })
}

func (b Build) missing(has func(Absent) bool) string {
	i := slices.IndexFunc(b.Absent, has)
	if i < 0 {
		return ""
	}
	return "not in this build: it is the core of podtask without the part " + b.Absent[i].Name + "; install the whole podtask"
}
