package cli

import (
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/part"
)

// route says what becomes of a command if a host is chosen.
type route struct {
	place part.Place
	why   string // for part.Here and part.Refused: one sentence without a full stop
	// prepare adapts a command line that is to run on the host; nil: it is sent as it is.
	prepare func(*remoteCall) error
	// input reports whether the command reads its input; nil: it does not.
	input func(*remoteCall) bool
	// terminal reports whether the command has the terminal for itself; nil: it has not.
	terminal func(*remoteCall) bool
	// follows reports whether the command continues after a broken connection, by the positions in its output;
	// nil: it does not.
	follows func(*remoteCall) bool
	// stops: when its terminal is gone, the command ends something first, and is given the time.
	stops bool
	// later: the tasks of the definition start when the command has ended, so no secret can come with it.
	later bool
	// run replaces the run on the host, for a command that needs both sides.
	run func(*remoteCall) error
}

const (
	serverProcess = part.ServerProcess
	ownFiles      = "it reads and writes files of this machine only"
)

// routes has every command of the core. A test fails for one that is missing.
var routes = map[string]route{
	"run":      {prepare: runOnHost, input: readsDash, stops: true},
	"plan":     {prepare: planOnHost, input: readsDash},
	"validate": {prepare: sendDefinition(anyArgument), input: readsDash},
	"pull":     {prepare: sendDefinition(anyArgument), input: readsDash},

	"taskdef register":   {prepare: sendDefinition(anyArgument), input: readsDash, later: true},
	"taskdef ls":         {},
	"taskdef show":       {},
	"taskdef deregister": {},

	"service create":   {prepare: sendDefinition(1), input: readsDash, later: true},
	"service update":   {prepare: sendDefinition(1), input: readsDash, later: true},
	"service ls":       {},
	"service ps":       {},
	"service inspect":  {},
	"service events":   {},
	"service history":  {},
	"service scale":    {},
	"service rollback": {},
	"service continue": {},
	"service wake":     {},
	"service rm":       {},

	"ps":      {},
	"inspect": {},
	"why":     {},
	"logs":    {follows: followsLogs},
	"events":  {follows: followsEvents},
	"stats":   {},
	"port":    {},

	"exec":    {prepare: execOnHost, input: hasFlag("interactive"), terminal: hasFlag("tty")},
	"cp":      {run: runCopy},
	"stop":    {},
	"kill":    {},
	"restart": {},
	"pause":   {},
	"unpause": {},
	"update":  {},
	"rm":      {},
	"wait":    {},

	"image ls":      {},
	"image pending": {},
	"image prune":   {},
	"image resolve": {},
	"doctor":        {},
	"info":          {},
	"config":        {},
	"drain":         {},
	"gc":            {},
	"version":       {},

	"unit install": {prepare: sendUnits},
	"unit ls":      {},
	"unit print":   {},
	"unit rm":      {},
	"auto-update":  {},
	"generate":     {prepare: generateOnHost},

	"init":       {place: part.Here, why: ownFiles},
	"schema":     {place: part.Here, why: ownFiles},
	"explain":    {place: part.Here, why: ownFiles},
	"completion": {place: part.Here, why: ownFiles},
	"lock":       {place: part.Here, why: "it asks registries and writes a file of this machine; `podtask --host ssh://... run --locked` uses that file"},
	"__complete": {place: part.Special},

	"agent": {place: part.Here, why: serverProcess},

	"ingress serve":  {place: part.Here, why: serverProcess},
	"ingress status": {},
	"ingress ls":     {},
	"ingress logs":   {},
	"ingress trust":  {place: part.Here, why: "it changes which certificates this machine trusts"},

	"owner":      {place: part.Here, why: serverProcess},
	"exec-guard": {place: part.Here, why: serverProcess},
	"session":    {place: part.Here, why: serverProcess},

	"host setup":   {place: part.Here, why: "its argument names the host"},
	"push":         {place: part.Special},
	"port-forward": {place: part.Special},
	"image load":   {input: always},
	"image layers": {},

	"context add": {place: part.Here, why: "contexts are of this machine"},
	"context use": {place: part.Here, why: "contexts are of this machine"},
	"context ls":  {place: part.Here, why: "contexts are of this machine"},
	"context rm":  {place: part.Here, why: "contexts are of this machine"},
}

// routeOf returns the route of a command, by its path.
func routeOf(build part.Build, path string) (route, bool) {
	if r, ok := routes[path]; ok {
		return r, true
	}
	r, ok := build.Route(path)
	if !ok {
		return route{}, false
	}
	made := route{place: r.Place, why: r.Why, later: r.Later}
	switch {
	case r.Definition > 0:
		made.prepare, made.input = sendDefinition(r.Definition-1), readsDash
	case r.Send != nil:
		made.prepare = sendRead(r.Send)
	case r.Output != "":
		made.prepare = writeOutputHere(r.Output)
	}
	return made, true
}

func always(*remoteCall) bool { return true }

// hasFlag reports whether a boolean flag is set.
func hasFlag(name string) func(*remoteCall) bool {
	return func(r *remoteCall) bool { return slices.Contains(r.values(name), "true") }
}

// readsDash: a definition is on stdin.
func readsDash(r *remoteCall) bool { return slices.Contains(r.line.args, "-") }

// execOnHost sends the variables of exec. Without a command it is a shell, on the terminal of this machine.
func execOnHost(r *remoteCall) error {
	if len(r.line.args) == 1 && command.IsTerminal(r.p.Stdin) && command.IsTerminal(r.p.Stdout) {
		r.line.local = append(r.line.local, lineFlag{"interactive", "true"}, lineFlag{"tty", "true"})
	}
	return sendVariables(r)
}

// runOnHost sends the definition of a run. The main process of a service does not run elsewhere.
func runOnHost(r *remoteCall) error {
	if len(r.values("notify")) > 0 {
		return r.refusal("--notify is for the main process of a service, which runs on the machine of its systemd: `podtask unit install` installs a unit there")
	}
	return sendDefinition(0)(r)
}

// lineParts is an arranged command line in its parts.
type lineParts struct {
	global []lineFlag
	path   []string
	local  []lineFlag
	args   []string
}

// lineFlag is a flag with its value.
type lineFlag struct{ name, value string }

// splitLine splits what arrange returns.
func splitLine(arranged []string) (l lineParts) {
	words := arranged[1:]
	for i, w := range words {
		switch name, value, _ := strings.Cut(strings.TrimPrefix(w, "--"), "="); {
		case w == "--":
			l.args = slices.Clone(words[i+1:])
			return l
		case !strings.HasPrefix(w, "--"):
			l.path = append(l.path, w)
		case len(l.path) == 0:
			l.global = append(l.global, lineFlag{name, value})
		default:
			l.local = append(l.local, lineFlag{name, value})
		}
	}
	return l
}

// words returns the line as it is written behind "podtask".
func (l lineParts) words() (words []string) {
	for _, f := range l.global {
		words = append(words, "--"+f.name+"="+f.value)
	}
	words = append(words, l.path...)
	for _, f := range l.local {
		words = append(words, "--"+f.name+"="+f.value)
	}
	if len(l.args) > 0 {
		words = append(append(words, "--"), l.args...)
	}
	return words
}
