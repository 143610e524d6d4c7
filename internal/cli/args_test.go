package cli

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/parts"
)

func TestArrangePutsFlagsBeforeArguments(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, in, want string }{
		{"nothing", "", ""},
		{"flags behind arguments", "logs web -f", "logs --follow=true -- web"},
		{"flags on both sides", "logs -f web -t app", "logs --follow=true --timestamps=true -- web app"},
		{"a value behind arguments", "logs web --tail 5", "logs --tail=5 -- web"},
		{"a value that begins with a dash", "logs --tail -1 web", "logs --tail=-1 -- web"},
		{"-- ends the flags", "logs -- -f web", "logs -- -f web"},
		{"-- is an argument the second time", "logs -- --", "logs -- --"},
		{"a command line behind --", "exec web -it -- sh -c x", "exec --interactive=true --tty=true -- web -- sh -c x"},
		{"a command line without --", "exec -it web sh -c x", "exec --interactive=true --tty=true -- web sh -c x"},
		{"a container, flags and --", "exec web app -it -- sh -c x", "exec --interactive=true --tty=true -- web app -- sh -c x"},
		{"-- in a command line", "exec web sh -c x -- -y", "exec -- web sh -c x -- -y"},
		{"-- before the task", "exec -- web sh -c x", "exec -- web sh -c x"},
		{"a dash is an argument", "run -", "run -- -"},
		{"short flags in one word", "ps -aq", "ps --all=true --quiet=true --"},
		{"short flags with a value in one word", "run -deA=1 f", "run --detach=true --env=A=1 -- f"},
		{"short flags and a value after them", "run -de A=1 f", "run --detach=true --env=A=1 -- f"},
		{"a short flag and =", "run -e=A=1 f", "run --env=A=1 -- f"},
		{"a boolean's value", "run --rm=false f", "run --rm=false -- f"},
		{"a boolean takes no next word", "run --rm false", "run --rm=true -- false"},
		{"one name for each flag", "run -e A=1 --env B=2 f", "run --env=A=1 --env=B=2 -- f"},
		{"commas stay", "run -e A=1,2 f", "run --env=A=1,2 -- f"},
		{"an empty value", "run --name= f", "run --name= -- f"},
		{"an optional value left out", "run -d --wait f", "run --detach=true --wait=steady -- f"},
		{"an optional value given", "run -d --wait=healthy f", "run --detach=true --wait=healthy -- f"},
		{"the program's flags anywhere", "ps --log-level debug -a", "--log-level=debug ps --all=true --"},
		{"an alias of a command", "ls", "ps --"},
		{"help for a command", "help run", "run --help=true --"},
		{"help for the program", "help", "--help=true"},
		{"help with all commands", "help --all", "--help=all"},
		{"all help of the program", "--help --all", "--help=all --help=true"},
		{"all help of a command", "service create --help --all", "service create --help=true --"},
		{"all help of a command, before", "service create --all -h", "service create --help=true --"},
		{"help after a command", "run f -h", "run --help=true --"},
		{"a task called help", "inspect help", "inspect -- help"},
		{"a task called like a command", "logs logs", "logs -- logs"},
		{"a command of a group", "image ls -q", "image ls --quiet=true --"},
		{"flags before the command of a group", "--log-level debug service --count 2 create web -e A=1 f", "--log-level=debug service create --count=2 --env=A=1 -- web f"},
		{"flags of a command of a group end", "unit rm -f -- -f", "unit rm --force=true -- -f"},
		{"help for a group", "image --help", "image --help=true --"},
		{"help for a command of a group", "help image ls", "image ls --help=true --"},
		{"help behind a group", "image help ls", "image ls --help=true --"},
		{"-- before a command", "-- image -- ls", "image ls --"},
	}
	p := &command.Program{Stdout: io.Discard, Stderr: io.Discard}
	for _, tt := range tests {
		got, err := arrange(newApp(p, parts.Build()), parts.Build(), append([]string{"podtask"}, strings.Fields(tt.in)...))
		if diff := cmp.Diff(append([]string{"podtask"}, strings.Fields(tt.want)...), got); err != nil || diff != "" {
			t.Errorf("%s: %q: %v\n%s", tt.name, tt.in, err, diff)
		}
	}
}

func TestArrangeRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct{ in, what, do string }{
		{"stopp web", `unknown command "stopp": did you mean "stop"?`, "`podtask --help`"},
		{"image", "image needs a command: resolve, ls, pending or prune", "`podtask image --help`"},
		{"image --dry-run ls", "unknown flag --dry-run", "`podtask image ls --help`"},
		{"image ls --older-than 1h", "unknown flag --older-than", "`podtask image ls --help`"},
		{"image pull x", `image has no command "pull": it has resolve, ls, pending or prune`, "`podtask image --help`"},
		{"service creat x", `service has no command "creat": did you mean "create"?`, "`podtask service --help`"},
		{"service logs shop", "service has no command \"logs\": `podtask logs NAME` takes the name of a service too", "`podtask service --help`"},
		{"down", "unknown command \"down\": `podtask stop TASK` stops a task", "`podtask --help`"},
		{"help stopp", `unknown command "stopp": did you mean "stop"?`, "`podtask --help`"},
		{"logs --folow web", `unknown flag --folow: did you mean "--follow"?`, "`podtask logs --help`"},
		{"--log-lvel debug ps", `unknown flag --log-lvel: did you mean "--log-level"?`, "`podtask --help`"},
		{"ps -aZ", "unknown flag -aZ", "`podtask ps --help`"},
		{"exec web -c x", "unknown flag -c: the flags of the command to run follow it, or --", "`podtask exec --help`"},
		{"run --name", "flag --name needs a value", "`podtask run --help`"},
		{"run -e", "flag -e needs a value", "`podtask run --help`"},
		{"run --rm=perhaps f", `flag --rm is true or false, not "perhaps"`, "`podtask run --help`"},
		{"run -v /a:/b f", "unknown flag -v: --map-volume NAME=PATH says where", "`podtask run --help`"},
		{"run -it f", "unknown flag -it: a task has no terminal; `podtask exec", "`podtask run --help`"},
		{"run --restart always f", "unknown flag --restart: the definition says it, with restartPolicy", "`podtask run --help`"},
		{"service create web f --replicas 2", "unknown flag --replicas: --count N", "`podtask service create --help`"},
		{"kube play f", "unknown command \"kube\": `podtask run FILE` runs a Kubernetes manifest", "`podtask --help`"},
		{"logs -follow web", "unknown flag -follow", "`podtask logs --help`"},
	}
	p := &command.Program{Stdout: io.Discard, Stderr: io.Discard}
	for _, tt := range tests {
		_, err := arrange(newApp(p, parts.Build()), parts.Build(), append([]string{"podtask"}, strings.Fields(tt.in)...))
		var usage *command.UsageError
		if !errors.As(err, &usage) || !strings.HasPrefix(usage.What, tt.what) || !strings.Contains(usage.Do, tt.do) {
			t.Errorf("%q: %#v, want %q and %q", tt.in, err, tt.what, tt.do)
		}
	}
}

// A suggestion never removes or stops more than the line named.
func TestSuggestionsAreHarmless(t *testing.T) {
	t.Parallel()
	p := &command.Program{Stdout: io.Discard, Stderr: io.Discard}
	for _, line := range []string{"drai", "gcc", "rmm", "r", "image prun", "stop --al", "rm --forc web"} {
		_, err := arrange(newApp(p, parts.Build()), parts.Build(), append([]string{"podtask"}, strings.Fields(line)...))
		if err == nil || strings.Contains(err.Error(), "did you mean") {
			t.Errorf("%q: %v", line, err)
		}
	}
	for word := range commandHints {
		if newApp(p, parts.Build()).Command(word) != nil {
			t.Errorf("%q is a command, and has a hint", word)
		}
	}
}

// What arrange lets through, the library must understand and no argument may be
// lost or invented.
func FuzzArrange(f *testing.F) {
	for _, s := range []string{"exec web -it sh -c x -- y", "logs web -f", "run -deA=1 f -- -x", "ps -aq --filter a=b", "help run", "-- -- x", "run --wait=x - ="} {
		f.Add(s)
	}
	p := &command.Program{Stdout: io.Discard, Stderr: io.Discard}
	f.Fuzz(func(t *testing.T, line string) {
		in := append([]string{"podtask"}, strings.Fields(line)...)
		out, err := arrange(newApp(p, parts.Build()), parts.Build(), in)
		if err != nil {
			if !errors.As(err, new(*command.UsageError)) {
				t.Fatalf("%q: %v is no usage error", in, err)
			}
			return
		}
		again, err := arrange(newApp(p, parts.Build()), parts.Build(), out)
		if err != nil {
			t.Fatalf("%q became %q, which is refused: %v", in, out, err)
		}
		if diff := cmp.Diff(out, again); diff != "" {
			t.Fatalf("%q: a second time it is different:\n%s", in, diff)
		}
	})
}
