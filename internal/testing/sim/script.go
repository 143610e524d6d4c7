package sim

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Play runs a script and returns it with what the core did below each command.
// Lines that begin with a space are output of an earlier run and are left out;
// empty ones and those that begin with # are kept. The commands:
//
//	container NAME [, CLAUSE]...  defines one; clauses are: optional · image REF ·
//	                              after NAME CONDITION · check INTERVAL TIMEOUT RETRIES [START-PERIOD] · cpu UNITS ·
//	                              start timeout D · stop timeout D ·
//	                              restart PERIOD [BACK-OFF [MAX]] · ignoring CODE... ·
//	                              unhealthy restart · first at-once ·
//	                              startup|readiness|liveness PERIOD TIMEOUT FAILURES [DELAY [SUCCESSES]] ·
//	                              post-start|pre-stop [sleep D]
//	until last · deadline D       the task ends with its last container; after that time
//	apart                         the containers share nothing, so there is no infra container
//	watch unhealthy · dependencies  the task is to be stopped then
//	pull BEHAVIOR                 sets the pull behavior
//	submit                        starts the task
//	works KIND [NAME]             the operation in flight works; NAME is none for the sandbox's
//	acts KIND [NAME]              it acts and does not answer yet
//	fail KIND [NAME] CLASS        it fails, not having acted
//	cancelled KIND [NAME]         it has been given up
//	again                         the last answer comes a second time
//	unhealthy NAME                its health check, or its hook, says no
//	exit NAME CODE                the container ends, and the driver tells
//	vanish NAME                   a user removes it, and the driver tells
//	pause · resume · meddle NAME  a user pauses, resumes or restarts it; the driver does not tell
//	cut off                       a user kills the infra container; the driver does not tell
//	notice [NAME]                 the driver tells that something may have happened
//	pass D                        time passes, and nothing happens
//	stop · kill · remove          a user asks
//	queued                        there is no room for the task yet
//	moves                         the queue moves
//	timer                         time passes to the next timer
//	settle                        all that takes no time happens and works
//	crash · reboot · restart      the owner or the machine dies; the next owner starts
//
// All properties are checked on the way. The error is a *Violation, or says
// which line is wrong.
func Play(script string) (out string, err error) {
	defer catch(&err)
	p := &player{task: taskdef.Task{Family: "story", Network: taskdef.NetworkBridge, IPCMode: taskdef.IPCTask}}
	for n, line := range strings.Split(strings.TrimRight(script, "\n"), "\n") {
		if strings.HasPrefix(line, " ") {
			continue
		}
		fmt.Fprintln(&p.out, line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := p.command(strings.Fields(line)); err != nil {
			return "", fmt.Errorf("line %d: %q: %w", n+1, line, err)
		}
	}
	return p.out.String(), nil
}

// player is a script in play.
type player struct {
	task    taskdef.Task
	options lifecycle.Options
	w       *World // nil before submit
	down    bool   // crashed and not restarted
	out     strings.Builder
	quiet   bool // nothing was written since the command
	clock   time.Time
}

func (p *player) command(words []string) error {
	p.quiet = true
	verb, rest := words[0], words[1:]
	switch {
	case verb == "container":
		return p.define(strings.Join(rest, " "))
	case verb == "pull" && len(rest) == 1:
		return p.options.Pull.UnmarshalText([]byte(rest[0]))
	case verb == "watch" && len(rest) == 1:
		p.task.Extensions.StopWhenUnhealthy = p.task.Extensions.StopWhenUnhealthy || rest[0] == "unhealthy"
		p.task.Extensions.WatchDependencies = p.task.Extensions.WatchDependencies || rest[0] == "dependencies"
		return nil
	case verb == "apart":
		p.task.IPCMode = taskdef.IPCDefault
		return nil
	case verb == "until":
		p.task.Extensions.UntilLast = true
		return nil
	case verb == "deadline" && len(rest) == 1:
		d, err := time.ParseDuration(rest[0])
		p.task.Extensions.Deadline = d
		return err
	case verb == "submit":
		return p.submit()
	case p.w == nil:
		return fmt.Errorf("nothing was submitted")
	case p.down && verb != "restart":
		return fmt.Errorf("the owner is dead: restart it")
	}
	if err := p.happen(verb, rest); err != nil {
		return err
	}
	if p.quiet {
		p.say("nothing follows")
	}
	return nil
}

func (p *player) happen(verb string, rest []string) error {
	w := p.w
	switch verb {
	case "works", "acts", "fail", "cancelled":
		return p.operation(verb, rest)
	case "again":
		if len(w.late) == 0 {
			return fmt.Errorf("there was no answer")
		}
		w.make(move{verb: doubled, arg: len(w.late) - 1})
	case "cut":
		if w.pod != lifecycle.SandboxReady {
			return fmt.Errorf("there is no infra container that runs")
		}
		w.make(move{verb: podEnds})
		p.quiet = false
	case "unhealthy", "exit", "vanish", "pause", "resume", "meddle", "notice":
		return p.container(verb, rest)
	case "pass":
		d, err := time.ParseDuration(strings.Join(rest, " "))
		if err != nil || d <= 0 {
			return fmt.Errorf("how long?")
		}
		w.now = w.now.Add(d)
		p.quiet = false
	case "stop", "kill", "remove":
		w.make(move{verb: request, arg: map[string]int{"stop": 0, "kill": 1, "remove": 2}[verb]})
	case "queued":
		if f := w.flightOf(sandbox); f == nil || f.kind != lifecycle.Admit || f.begun {
			return fmt.Errorf("no admission is requested")
		}
		w.make(move{queued, lifecycle.Admit, sandbox, 0})
	case "moves":
		if !w.state.Queued() {
			return fmt.Errorf("it is not queued")
		}
		w.make(move{verb: queueMoves})
	case "timer":
		if w.wake().IsZero() {
			return fmt.Errorf("no timer is set")
		}
		w.make(move{verb: timer})
	case "settle":
		for m, ok := prompt(w); ok; m, ok = prompt(w) {
			p.say("(" + strings.TrimSpace(words(w, m)) + ")")
			w.make(m)
		}
	case "crash", "reboot":
		die(w, 0)
		if verb == "reboot" {
			powerLoss(w)
		}
		p.down, p.quiet = true, false
	case "restart":
		p.down = false
		w.step(lifecycle.Restarted{})
	default:
		return fmt.Errorf("no such command")
	}
	return nil
}

func (p *player) submit() error {
	if err := p.task.Check(); err != nil {
		return err
	}
	many := 1000
	p.options.Logs = taskdef.LogsAuto
	p.w = blank(p.task, p.options, Budget{many, many, many, many, many, many, many, many, many, many, many, many, many})
	p.w.driver = newDriver(p.w.state)
	p.w.tell, p.clock = p.tell, epoch
	p.w.step(lifecycle.Restarted{})
	return nil
}

// operation lets something happen to the operation KIND [NAME] in flight.
func (p *player) operation(word string, rest []string) error {
	var kind lifecycle.Kind
	if len(rest) == 0 {
		return fmt.Errorf("which operation?")
	}
	if err := kind.UnmarshalText([]byte(rest[0])); err != nil {
		return err
	}
	slot, rest := sandbox, rest[1:]
	if len(rest) > 0 {
		if i, ok := p.task.Index(rest[0]); ok {
			slot, rest = i, rest[1:]
		}
	}
	f := p.w.flightOf(slot)
	if f == nil || f.kind != kind {
		return fmt.Errorf("no %s of %s is in flight", kind, p.w.name(slot))
	}
	m := move{map[string]verb{"works": works, "acts": acts, "cancelled": canceled, "fail": fails}[word], kind, slot, 0}
	if word == "fail" {
		var class lifecycle.Class
		if len(rest) != 1 {
			return fmt.Errorf("which class of failure?")
		}
		if err := class.UnmarshalText([]byte(rest[0])); err != nil {
			return err
		}
		m.arg = int(class)
	}
	if word == "cancelled" && !f.canceled {
		return fmt.Errorf("it was not cancelled")
	}
	p.w.make(m)
	if word == "acts" {
		p.quiet = false
	}
	return nil
}

// container lets something happen to a container.
func (p *player) container(word string, rest []string) error {
	if word == "notice" && len(rest) == 0 {
		p.w.make(move{verb: hint, slot: sandbox})
		return nil
	}
	if len(rest) == 0 {
		return fmt.Errorf("which container?")
	}
	i, ok := p.task.Index(rest[0])
	if !ok {
		return fmt.Errorf("no container %s", rest[0])
	}
	switch word {
	case "unhealthy":
		f := p.w.flightOf(i)
		if f == nil || !inside(f.kind) {
			return fmt.Errorf("no health check is in flight, and no hook")
		}
		p.w.make(move{unhealthy, f.kind, i, 0})
		return nil
	case "pause", "resume", "meddle":
		if p.w.truth[i].presence != lifecycle.Running || p.w.truth[i].paused != (word == "resume") {
			return fmt.Errorf("it does not run, or is paused, or is not")
		}
		p.w.make(move{verb: map[string]verb{"pause": pauses, "resume": resumes, "meddle": restarts}[word], slot: i})
		p.quiet = false
		return nil
	case "vanish":
		p.w.make(move{verb: vanishes, slot: i})
	case "exit":
		if len(rest) != 2 || p.w.truth[i].presence != lifecycle.Running {
			return fmt.Errorf("it does not run, or there is no exit code")
		}
		code, err := strconv.Atoi(rest[1])
		if err != nil {
			return err
		}
		p.w.make(move{verb: exits, slot: i, arg: code})
	}
	p.w.make(move{verb: hint, slot: i})
	return nil
}

func (p *player) say(line string) {
	p.quiet = false
	fmt.Fprintln(&p.out, "  "+line)
}

// tell writes down what a step did.
func (p *player) tell(before, after lifecycle.State, _ lifecycle.Event, effects []lifecycle.Effect) {
	w := p.w
	if w.now != p.clock {
		p.clock = w.now
		p.say("at " + w.now.Sub(epoch).Round(time.Millisecond).String())
	}
	if after.Goal != before.Goal {
		p.say(fmt.Sprintf("goal %s: %s: %s", after.Goal, after.Stop.Code, after.Stop.Reason))
	}
	for _, t := range newReports(&before, &after) {
		p.say("** " + transitionWords(t))
	}
	for _, e := range effects {
		p.say("-> " + effectWords(w, before, e))
	}
	if after.Settled() && !before.Settled() {
		p.say("settled")
	}
}

func transitionWords(t lifecycle.Transition) string {
	line := t.Container
	if line == "" {
		line = "task"
	}
	line += " " + t.Status
	if t.Digest != "" {
		line += " " + t.Digest
	}
	if t.ExitCode != nil {
		line += fmt.Sprintf(", exit code %d", *t.ExitCode)
	}
	if t.Reason != "" {
		line += ": " + t.Reason
	}
	return line
}

func effectWords(w *World, before lifecycle.State, e lifecycle.Effect) string {
	switch e := e.(type) {
	case lifecycle.CancelOp:
		if before.Sandbox.Op.ID == e.ID {
			return "cancel " + before.Sandbox.Op.Kind.String()
		}
		for i, c := range before.Containers {
			if c.Op.ID == e.ID {
				return fmt.Sprintf("cancel %s %s", c.Op.Kind, w.name(i))
			}
		}
	case lifecycle.AdmitTask:
		if e.Begun {
			return "admit, begun"
		}
		return "admit"
	case lifecycle.ReleaseTask:
		return "release"
	case lifecycle.CreateSandbox:
		return "prepare"
	case lifecycle.RunSandbox:
		return "launch"
	case lifecycle.InspectSandbox:
		return "inspect the infra container"
	case lifecycle.StopSandbox:
		return "halt"
	case lifecycle.RemoveSandbox:
		return "remove"
	case lifecycle.ResolveImage:
		return fmt.Sprintf("resolve %s: %s", w.name(e.Index), e.Ref)
	case lifecycle.PullImage:
		return strings.TrimSpace(fmt.Sprintf("pull %s: %s %s", w.name(e.Index), e.Ref, e.Digest))
	case lifecycle.CreateContainer:
		return "create " + w.name(e.Index)
	case lifecycle.StartContainer:
		if e.Restart > 0 {
			return fmt.Sprintf("start %s, restart %d", w.name(e.Index), e.Restart)
		}
		return "start " + w.name(e.Index)
	case lifecycle.StopContainer:
		return fmt.Sprintf("stop %s, grace %s", w.name(e.Index), e.Grace)
	case lifecycle.InspectContainer:
		return "inspect " + w.name(e.Index)
	case lifecycle.CheckHealth:
		if e.Probe != lifecycle.Readiness {
			return fmt.Sprintf("probe %s, %s", w.name(e.Index), e.Probe)
		}
		return "probe " + w.name(e.Index)
	case lifecycle.FlushLogs:
		return fmt.Sprintf("flush %s, at most %s", w.name(e.Index), e.Limit)
	case lifecycle.RunHook:
		return fmt.Sprintf("%s %s, at most %s", e.Hook, w.name(e.Index), e.Limit)
	}
	return fmt.Sprintf("%T %+v", e, e)
}
