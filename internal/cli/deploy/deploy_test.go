package deploy

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/connect/sshhost"
	"github.com/urfave/cli/v2"
)

// deployWith runs a command line with programs that write down how they are called. The one whose arguments contain failing fails.
func deployWith(t *testing.T, host command.ChosenHost, failing string, args ...string) (calls []string, out string, err error) {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\necho \"${0##*/} $*\" >>" + dir + "/calls\ncase \"$*\" in *" + failing + "*) exit 3;; esac\n"
	if failing == "" {
		script = "#!/bin/sh\necho \"${0##*/} $*\" >>" + dir + "/calls\n"
	}
	for _, name := range []string{"podman", "podtask"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	var stdout, stderr bytes.Buffer
	d := deployer{
		in: strings.NewReader(""), out: &stdout, errOut: &stderr, environ: os.Environ,
		executable: func() (string, error) { return filepath.Join(dir, "podtask"), nil },
		findHost:   func(*cli.Context) (command.ChosenHost, error) { return host, nil },
		now:        func() time.Time { return time.Date(2026, 11, 28, 16, 15, 2, 0, time.UTC) },
	}
	cmd := Command(&command.Program{})
	cmd.Action = d.run
	cmd.HideHelp, cmd.HideHelpCommand = true, true
	app := &cli.App{Name: "podtask", HideHelp: true, HideHelpCommand: true, Commands: []*cli.Command{cmd}, ExitErrHandler: func(*cli.Context, error) {}, Writer: &stderr, ErrWriter: &stderr}
	err = app.RunContext(t.Context(), append([]string{"podtask", "deploy"}, args...))
	text, _ := os.ReadFile(filepath.Join(dir, "calls"))
	for line := range strings.Lines(string(text)) {
		calls = append(calls, strings.TrimSpace(line))
	}
	return calls, stdout.String(), err
}

func TestSteps(t *testing.T) { //nolint:paralleltest // it sets PATH
	box := command.ChosenHost{Host: sshhost.Host{Name: "box"}, Word: "ssh://box"}
	const image = "localhost/web:20261128-161502"
	for name, test := range map[string]struct {
		host command.ChosenHost
		args []string
		want []string
	}{
		"here": {args: []string{"web"}, want: []string{"podtask --host local service inspect web", "podman build --tag " + image + " -- .", "podtask --host local service update web --image " + image + " --wait"}},
		"another host": {host: box, args: []string{"--container", "app", "--timeout", "5m", "web", "app"}, want: []string{
			"podtask --host ssh://box service inspect web", "podman build --tag " + image + " -- app", "podtask --host ssh://box push " + image,
			"podtask --host ssh://box service update web --image app=" + image + " --wait --timeout 5m",
		}},
		"a registry": {host: box, args: []string{"--registry", "registry.example.com/web", "--tag", "7", "--build-arg", "A=1", "-f", "x", "web"}, want: []string{
			"podtask --host ssh://box service inspect web", "podman build --tag registry.example.com/web:7 --file x --build-arg A=1 -- .", "podman push -- registry.example.com/web:7",
			"podtask --host ssh://box service update web --image registry.example.com/web:7 --wait",
		}},
	} {
		calls, out, err := deployWith(t, test.host, "", test.args...)
		if err != nil || strings.Join(calls, "\n") != strings.Join(test.want, "\n") || !strings.Contains(test.want[1], strings.TrimSpace(out)) {
			t.Errorf("%s: %v\n%s\n%s", name, err, strings.Join(calls, "\n"), out)
		}
	}
}

func TestAFailedStepEndsADeployment(t *testing.T) { //nolint:paralleltest // it sets PATH
	calls, out, err := deployWith(t, command.ChosenHost{}, "inspect", "web")
	if status := command.ExitStatus(0); !errors.As(err, &status) || status != 3 || len(calls) != 1 || out != "" {
		t.Errorf("%v, %q, %q", err, calls, out)
	}
	for _, args := range [][]string{{}, {"a", "b", "c"}, {"--registry", "x:1/y:2", "web"}, {"--registry", "nginx", "web"}, {"--tag", "a b", "web"}, {"we b"}, {"--registry", "registry.example.com/web", "--", "--help"}} {
		if calls, _, err := deployWith(t, command.ChosenHost{}, "", args...); !errors.As(err, new(*command.UsageError)) || len(calls) != 0 {
			t.Errorf("%q: %v, %q", args, err, calls)
		}
	}
}
