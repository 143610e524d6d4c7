package enginetest

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// The paths in images of what containers run.
const (
	// Program is the testbox.
	Program = "/testbox"
	// NotExecutable is a file that is there and cannot be executed.
	NotExecutable = "/notexec"
)

// line is one line of output.
type line struct {
	stderr bool
	at     time.Time
	text   string
}

// process is a running testbox: its arguments are steps, separated by "--". Of
// the real one's, these are known: exit, term, sleep, print, eprint, lines, env,
// write, cat, remove, exists, wait, serve. A process has no thread; advance
// carries it to a moment.
type process struct {
	steps [][]string
	// at is the time at which the next step begins, or when the process ended.
	at      time.Time
	env     []string
	files   *disk // shared with the container's other processes
	emit    func(line)
	onTerm  int // exit code for SIGTERM; negative: ignored
	serving bool
	waited  bool // the file of a wait step was not there

	ended bool
	code  int
}

const exitTerm, exitKill = 143, 137

func newProcess(args, env []string, files *disk, at time.Time, emit func(line)) *process {
	p := &process{at: at, env: env, files: files, emit: emit, onTerm: exitTerm}
	for len(args) > 0 {
		end := slices.Index(args, "--")
		if end < 0 {
			end = len(args)
		}
		p.steps = append(p.steps, args[:end])
		args = args[min(end+1, len(args)):]
	}
	return p
}

// advance does the steps that begin until now.
func (p *process) advance(now time.Time) {
	for !p.ended && !p.at.After(now) {
		if len(p.steps) == 0 {
			if p.serving {
				return
			}
			p.end(0, p.at)
			return
		}
		if !p.step(p.steps[0], now) {
			return
		}
		if !p.ended {
			p.steps = p.steps[1:]
		}
	}
}

// due is the time at which something next happens by itself; zero for never.
func (p *process) due() time.Time {
	blocked := len(p.steps) == 0 && p.serving || len(p.steps) > 0 && (p.steps[0][0] == "wait" || slices.Equal(p.steps[0], forever))
	if p.ended || blocked {
		return time.Time{}
	}
	return p.at
}

var forever = []string{"sleep", "forever"}

func (p *process) end(code int, at time.Time) { p.ended, p.code, p.at = true, code, at }

// step does one step and reports whether the next one may begin.
func (p *process) step(words []string, now time.Time) bool {
	if len(words) == 0 {
		p.fail("an empty step")
		return false
	}
	verb, args := words[0], words[1:]
	text := strings.Join(args, " ")
	switch verb {
	case "print", "eprint":
		p.say(verb == "eprint", text)
		return true
	case "write":
		if len(args) > 0 && p.files.write(args[0], strings.Join(args[1:], " ")) {
			return true
		}
		p.fail("write: it cannot be written")
		return false
	case "serve":
		p.serving = true
		return true
	}
	if len(args) != 1 {
		p.fail(verb + ": wrong number of arguments")
		return false
	}
	return p.unary(verb, args[0], now)
}

// unary does the steps that have one argument.
func (p *process) unary(verb, arg string, now time.Time) bool {
	number, bad := strconv.Atoi(arg)
	content, there := p.files.read(arg)
	switch {
	case verb == "exit" && bad == nil:
		p.end(number&0xff, p.at)
	case verb == "term" && arg == "ignore":
		p.onTerm = -1
	case verb == "term" && bad == nil:
		p.onTerm = number
	case verb == "lines" && bad == nil:
		for n := range number {
			p.say(false, "line "+strconv.Itoa(n+1))
		}
	case verb == "env" && p.lookup(arg) != "":
		p.say(false, p.lookup(arg))
	case verb == "exists" && there:
	case verb == "cat" && there:
		p.say(false, content)
	case verb == "remove" && there && p.files.remove(arg):
	case verb == "wait" && there:
		if p.waited {
			p.at = now // it noticed just now
		}
		p.waited = false
	case verb == "wait":
		p.waited = true
		return false
	case verb == "sleep" && arg == "forever":
		return false
	case verb == "sleep":
		d, err := time.ParseDuration(arg)
		if err != nil {
			p.fail(err.Error())
			return false
		}
		p.at = p.at.Add(max(d, 0))
	default:
		p.fail(verb + ": cannot be done with " + arg)
		return false
	}
	return !p.ended
}

func (p *process) fail(why string) {
	p.say(true, "testbox: "+why)
	p.end(1, p.at)
}

func (p *process) say(stderr bool, text string) {
	p.emit(line{stderr: stderr, at: p.at, text: text})
}

// lookup returns the last NAME=value of the environment.
func (p *process) lookup(name string) string {
	for _, kv := range slices.Backward(p.env) {
		if strings.HasPrefix(kv, name+"=") {
			return kv
		}
	}
	return ""
}
