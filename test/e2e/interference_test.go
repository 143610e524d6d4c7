//go:build e2e

package e2e

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// interference is what a user does to a running task, and what comes of it.
type interference struct {
	name string
	// does are podman commands; APP, POD and INFRA stand for ids.
	does []string
	// alone: app has no other container beside it. joined: the containers share a network, which an
	// infra container holds.
	alone, joined bool
	// goesOn: the task stays RUNNING.
	goesOn bool
	// mayEnd: the task continues, unless the end of a container was seen; so codes and
	// what follows are of a task that does not. A container that Podman has just started again may get SIGTERM before its
	// program handles it: the runtime of Go then ends with 2 as process 1.
	mayEnd bool
	codes  string // of the containers of a task that stops, a pattern: Podman takes one after the other
	code   string // of the stop, a pattern
	errors string // name of the error of app if it has no exit code; empty for none
}

// What a user does to a task with Podman's own commands, and what becomes of it:
// docs/dev/interference.md, line by line.
func TestInterference(t *testing.T) {
	t.Parallel()
	for _, tt := range []interference{
		{name: "stop", does: []string{"stop APP"}, codes: "app=143 side=143", code: "EssentialContainerExited"},
		{name: "kill", does: []string{"kill APP"}, codes: "app=137 side=143", code: "EssentialContainerExited"},
		{name: "signal", joined: true, does: []string{"kill -s USR1 INFRA"}, goesOn: true},
		{name: "remove", does: []string{"rm -f APP"}, codes: "app(=(137|143))? side=143", code: "EssentialContainerExited", errors: "ContainerVanishedError"},
		{name: "kill infra", joined: true, does: []string{"kill INFRA"}, codes: "app=143 side=143", code: "InfrastructureHealth"},
		{name: "kill pod with the network", joined: true, does: []string{"pod kill POD"}, codes: "app=(137|143) side=(137|143)", code: "(EssentialContainerExited|InfrastructureHealth)"},
		{name: "kill pod of one", alone: true, does: []string{"pod kill POD"}, codes: "app=137", code: "EssentialContainerExited"},
		{name: "restart", does: []string{"restart APP"}, mayEnd: true, codes: "app=(143|2) side=143", code: "EssentialContainerExited"},
		{name: "stop pod", does: []string{"pod stop POD"}, codes: "app=143 side=143", code: "EssentialContainerExited"},
		{name: "kill pod", does: []string{"pod kill POD"}, codes: "app=137 side=(137|143)", code: "EssentialContainerExited"},
		{name: "restart pod", does: []string{"pod restart POD"}, mayEnd: true, codes: "app=(137|143|2) side=(137|143|2)", code: "EssentialContainerExited"},
		{name: "restart pod with the network", joined: true, mayEnd: true, does: []string{"pod restart POD"}, codes: "app=(137|143|2) side=(137|143|2)", code: "(EssentialContainerExited|InfrastructureHealth)"},
		{name: "restart pod of one", alone: true, mayEnd: true, does: []string{"pod restart POD"}, codes: "app=(137|143|2)", code: "EssentialContainerExited"},
		{name: "remove pod", does: []string{"pod rm -f POD"}, codes: "app(=(137|143))? side(=(137|143))?", code: "EssentialContainerExited", errors: "ContainerVanishedError"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.test(t)
		})
	}
}

// Podman's prune takes the stopped pods of everybody, whatever the filter says. So
// this and the next test run while no other does.
func TestPruneOfARunningTask(t *testing.T) {
	interference{does: []string{"system prune -f --filter label=podtask.family=FAMILY"}, goesOn: true}.test(t)
}

func (tt interference) test(t *testing.T) {
	t.Helper()
	b := newBox(t)
	containers := []ctr{
		{Name: "app", Command: words("write /tmp/up -- sleep forever"), StopTimeout: 5},
		{Name: "side", Command: words("sleep forever"), Essential: optional, StopTimeout: 5},
	}
	if tt.alone {
		containers = containers[:1]
	}
	definition := def{Containers: containers}
	if tt.joined {
		definition.Network = "awsvpc"
	}
	id := b.detach(b.write(definition))
	b.await("task RUNNING")
	b.up(id)
	refused := false // because podtask stops the task while Podman still executes the command
	for _, command := range tt.does {
		if err := tryMeddle(b.t, b.fill(id, command)); err != nil {
			if refused = tt.mayEnd; !refused {
				t.Fatal(err)
			}
			t.Log(err)
		}
	}
	if got := b.inspect(id); tt.goesOn && (got.Status != "RUNNING" || got.DesiredStatus != "RUNNING") {
		t.Errorf("%s, desired %s: %s", got.Status, got.DesiredStatus, got.StoppedReason)
	}
	if (tt.goesOn || tt.mayEnd) && !refused { // else the task has to stop by itself
		b.want(0, "stop", id)
	}
	b.want(0, "wait", id)
	got := b.inspect(id)
	tt.goesOn = tt.goesOn || tt.mayEnd && got.StopCode == "UserInitiated"
	if tt.mayEnd && got.StopCode != "UserInitiated" { // Podman may start the container after the task has stopped
		defer func() {
			b.want(0, "rm", id)
			if left := b.running(); left != "" {
				t.Errorf("after rm there runs: %s", left)
			}
		}()
	}
	switch app := got.Containers[0]; {
	case got.Status != "STOPPED" || b.running() != "" && !tt.mayEnd:
		t.Errorf("%s; there runs: %s", got.Status, b.running())
	case tt.goesOn:
	case !regexp.MustCompile("^" + tt.codes + ", " + tt.code + "$").MatchString(got.codes() + ", " + got.StopCode):
		t.Errorf("%s, %s: %s; want %s, %s", got.codes(), got.StopCode, got.StoppedReason, tt.codes, tt.code)
	case tt.errors != "" && !strings.HasPrefix(got.codes(), "app=") && (len(app.Errors) != 1 || app.Errors[0].Name != tt.errors):
		t.Errorf("errors %v, want %s", app.Errors, tt.errors)
	}
}

// meddle runs a podman command, which has to succeed.
func (b *box) meddle(command string) {
	b.t.Helper()
	if err := tryMeddle(b.t, command); err != nil {
		b.t.Fatal(err)
	}
}

// tryMeddle runs a podman command, and again while it fails because another test removes
// a container that Podman has just listed.
func tryMeddle(t *testing.T, command string) (err error) {
	t.Helper()
	eventually(t, "podman "+command, func() bool {
		out, failure := exec.Command("podman", words(command)...).CombinedOutput()
		if failure == nil || !strings.Contains(string(out), "no such container") {
			if err = failure; err != nil {
				err = fmt.Errorf("podman %s: %w: %s", command, failure, out)
			}
			return true
		}
		return false
	})
	return err
}

// fill puts ids into a podman command.
func (b *box) fill(id, command string) string {
	b.t.Helper()
	got := b.inspect(id)
	command = strings.NewReplacer("APP", got.Containers[0].RuntimeID, "POD", got.PodID, "FAMILY", b.family).Replace(command)
	if strings.Contains(command, "INFRA") {
		command = strings.ReplaceAll(command, "INFRA", b.podman("pod", "inspect", got.PodID, "--format", "{{.InfraContainerID}}"))
	}
	return command
}

// A container that a user has started again does not outlive its task.
func TestContainerThatIsStartedAgainByHand(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.detach("--wait=running", b.define(
		ctr{Name: "once", Command: words("sleep forever"), Essential: optional},
		ctr{Name: "app", Command: words("sleep forever"), StopTimeout: 5}))
	b.meddle(b.fill(id, "kill APP"))
	b.await("once STOPPED")
	b.meddle(b.fill(id, "start APP"))
	if got := b.running(); !strings.Contains(got, "-once") {
		t.Errorf("it does not run again: %s", got)
	}
	b.want(0, "stop", id)
	if got := b.inspect(id); got.codes() != "once=137 app=143" || b.running() != "" {
		t.Errorf("%s; there runs: %s", got.codes(), b.running())
	}
}

// A user's clean-up takes the containers of stopped tasks along, and their logs with
// them. What podtask has recorded stays, and the task can be removed.
func TestPruneOfAStoppedTask(t *testing.T) {
	b := newBox(t)
	id := b.detach(b.define(ctr{Name: "app", Command: words("print hello -- exit 3")}))
	b.want(0, "wait", id)
	b.meddle("system prune -f --filter label=podtask.family=" + b.family)
	if got := b.inspect(id); got.Status != "STOPPED" || got.codes() != "app=3" {
		t.Errorf("%s %s", got.Status, got.codes())
	}
	b.want(0, "rm", id)
}
