//go:build e2e

package e2e

import (
	"encoding/json"
	"strings"
	"testing"
)

// finding is a line of doctor.
type finding struct{ Check, Level, Text, Fix string }

// examined is what doctor says, with the exit code it must have.
func (b *box) examined(code int) map[string]finding {
	b.t.Helper()
	var all []finding
	out := b.want(code, "doctor", "--format", "json").out
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		b.t.Fatalf("doctor: %v in %s", err, out)
	}
	found := map[string]finding{}
	for _, f := range all {
		found[f.Check] = f
	}
	return found
}

// Tasks run in this bed, so nothing may be called a failure.
func TestDoctorFindsNoFailureWhereTasksRun(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	for check, f := range b.examined(0) {
		t.Logf("%s %s: %s; %s", f.Level, check, f.Text, f.Fix)
		if f.Level == "fail" {
			t.Errorf("%s fails: %s", check, f.Text)
		}
	}
	version := strings.TrimPrefix(b.podman("--version"), "podman version ")
	if r := b.want(0, "info", "--format", "{{.Podman.Version}} {{.Health}}"); !strings.HasPrefix(r.out, strings.TrimSpace(version)+" ") {
		t.Errorf("info says %q of Podman %s", r.out, version)
	}
}

// Doctor works where no record can be kept, and says so.
func TestDoctorWithoutRecords(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	good := b.env
	b.env = append(b.env, "PODTASK_STATE_DIR=/proc/podtask")
	if f := b.examined(1)["records"]; f.Level != "fail" || !strings.Contains(f.Text, "/proc/podtask") {
		t.Errorf("it says %+v", f)
	}
	b.env = good
	if f := b.examined(0)["records"]; f.Level != "ok" {
		t.Errorf("it says %+v", f)
	}
}

// What doctor says of a broken host, run says too when it cannot work because of it.
func TestRunRefusesInDoctorsWords(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	good := b.env
	path := b.hello(b.testbox())
	b.env = append(b.env, "XDG_RUNTIME_DIR=", "PATH="+t.TempDir())
	f := b.examined(1)["runtime-dir"]
	if f.Level != "fail" || f.Fix == "" {
		t.Fatalf("without XDG_RUNTIME_DIR doctor says %+v", f)
	}
	if r := b.want(125, "run", path); !strings.Contains(r.err, f.Text) || !strings.Contains(r.err, f.Fix) {
		t.Errorf("run does not say %q: %s", f.Text, r.err)
	}
	b.env = append(good, "CONTAINER_HOST=unix://"+t.TempDir()+"/none.sock")
	if f := b.examined(1)["socket"]; f.Level != "fail" || !strings.Contains(f.Fix, "CONTAINER_HOST") {
		t.Errorf("with a wrong CONTAINER_HOST doctor says %+v", f)
	}
	b.env = good
}

// Where the host has no slices Podman's numbers are shown, and where Podman has
// none either that is said.
func TestStatsOfATask(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.detach("--wait=running", "--limits=off", b.waiter())
	b.up(id)
	r := b.podtask("stats", "--no-stream", "--format", "json", id)
	if r.code != 0 {
		if !strings.Contains(r.err, "cgroup") {
			t.Errorf("code %d: %s", r.code, r.err)
		}
	} else {
		var got []struct {
			ID, Source string
			CPUUsec    uint64
			Containers []struct{ Name string }
		}
		if err := json.Unmarshal([]byte(r.out), &got); err != nil || len(got) != 1 || got[0].ID != id || got[0].CPUUsec == 0 || len(got[0].Containers) == 0 {
			t.Errorf("%v in %s", err, r.out)
		}
	}
	b.tell(id, "app", "/tmp/go")
	if got := b.want(0, "wait", id).out; got != "7\n" {
		t.Errorf("wait printed %q", got)
	}
}

// A task without a name is found by its family where something is only looked at. The clean-up of a unit of that name
// does not remove it.
func TestAFamilyIsNoName(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.detach("--wait=running", b.waiter())
	for _, look := range []string{"why", "inspect", "logs"} {
		b.want(0, look, b.family)
	}
	b.want(0, "rm", "--force", "--ignore", b.family)
	if r := b.want(125, "stop", b.family); !strings.Contains(r.err, id[:12]) {
		t.Errorf("stop says %s", r.err)
	}
	b.want(0, "run", "--rm", "--name", b.family, "--replace", b.hello(b.testbox()))
	if got := b.inspect(id).Status; got != "RUNNING" {
		t.Errorf("the task is %s", got)
	}
}
