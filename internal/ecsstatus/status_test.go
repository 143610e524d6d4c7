package ecsstatus_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/ecsstatus"
	"github.com/podtask/podtask/internal/state"
)

func TestWaits(t *testing.T) {
	t.Parallel()
	var s ecsstatus.Status
	begun := time.Unix(1000, 0)
	s.Wait(ecsstatus.WaitState, "b", "first", begun)
	s.Wait(ecsstatus.WaitAgent, "b", "x", begun)
	s.Wait(ecsstatus.WaitState, "a", "x", begun)
	before := s
	s.Wait(ecsstatus.WaitState, "b", "second", begun.Add(time.Hour))
	if w := s.Of("b"); len(w) != 2 || w[1].Text != "second" || !w[1].Since.Equal(begun) {
		t.Errorf("%+v", w)
	}
	if w := before.Of("b"); w[1].Text != "first" {
		t.Error("an earlier value has changed")
	}
	s.Done(ecsstatus.WaitState, "b")
	s.Done(ecsstatus.WaitValue, "b")
	if w := s.Waits; len(w) != 2 || w[0].Task != "a" || w[1].Kind != ecsstatus.WaitAgent {
		t.Errorf("%+v", w)
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	stateDir, runtimeDir := t.TempDir(), t.TempDir()
	if _, _, is := ecsstatus.Find(stateDir, runtimeDir); is {
		t.Error("a host without records is an instance")
	}
	if left, _ := os.ReadDir(stateDir); len(left) > 0 {
		t.Errorf("asking has left %v", left)
	}
	records, runtime := ecsstatus.Dirs(stateDir, runtimeDir)
	for _, dir := range []string{filepath.Join(records, "instance"), runtime} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, is := ecsstatus.Find(stateDir, runtimeDir); is {
		t.Error("empty records make an instance")
	}
	locks, err := state.OpenLocks(records, state.Holder{})
	if err != nil {
		t.Fatal(err)
	}
	lock, err := locks.Lock(ecsstatus.Key)
	if err != nil {
		t.Fatal(err)
	}
	if s, running, is := ecsstatus.Find(stateDir, runtimeDir); s != nil || !running || !is {
		t.Errorf("%+v, %t, %t", s, running, is)
	}
	text, _ := json.Marshal(ecsstatus.Status{PID: os.Getpid(), Cluster: "lab"})
	if err := os.WriteFile(ecsstatus.Path(runtime), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, _, _ := ecsstatus.Find(stateDir, runtimeDir); s == nil || s.Cluster != "lab" {
		t.Errorf("%+v", s)
	}
	other, _ := json.Marshal(ecsstatus.Status{PID: 1, Cluster: "lab"})
	if err := os.WriteFile(ecsstatus.Path(runtime), other, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, running, _ := ecsstatus.Find(stateDir, runtimeDir); s != nil || !running {
		t.Errorf("the status of a process before is %+v", s)
	}
	_ = lock.Unlock()
	if _, running, _ := ecsstatus.Find(stateDir, runtimeDir); running {
		t.Error("it runs without a process")
	}
	if err := os.WriteFile(ecsstatus.Path(runtime), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, _, _ := ecsstatus.Find(stateDir, runtimeDir); s != nil {
		t.Errorf("half a status is %+v", s)
	}
}
