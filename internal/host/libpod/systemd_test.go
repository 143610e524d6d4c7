//go:build e2e && bed_systemd

package libpod_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/containers/podman/v5/pkg/bindings/containers"

	"github.com/podtask/podtask/internal/host/libpod"
)

// Rules that need cgroup v2 and the systemd cgroup manager.
func init() {
	conformance = append(conformance, onSystemd...)
}

// inSlice gives the pod a slice.
func inSlice(k *task) {
	k.pod.CgroupParent = "podtask" + k.id + ".slice"
	k.t.Cleanup(func() { // a slice is its maker's to remove, after the pod
		ctx, cancel := afterwards()
		defer cancel()
		if err := k.RemovePod(ctx, k.pod.Name, k.id); err != nil {
			k.t.Error(err)
		}
		if out, err := exec.Command("systemctl", "--user", "stop", k.pod.CgroupParent).CombinedOutput(); err != nil {
			k.t.Errorf("clean up: %v: %s", err, out)
		}
	})
}

// wantInSlice fails the test unless processes are in the pod's slice.
func wantInSlice(k *task, pids ...int) {
	k.t.Helper()
	for _, pid := range pids {
		path, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if err != nil || !strings.Contains(string(path), "/"+k.pod.CgroupParent+"/") {
			k.t.Errorf("process %d is in %s, %v", pid, path, err)
		}
	}
}

// inJournal waits until an entry of the user's journal has text.
func inJournal(k *task, text string, matches ...string) {
	k.t.Helper()
	for ctx := within(k.t); ; {
		out, err := exec.CommandContext(ctx, "journalctl", append([]string{"--user", "--quiet", "--output=cat"}, matches...)...).CombinedOutput()
		if err == nil && strings.Contains(string(out), text) {
			return
		}
		if ctx.Err() != nil {
			k.t.Fatalf("%q is not in the journal: %v: %s", text, err, out)
		}
	}
}

var onSystemd = []conformanceRule{
	{"the pod lies inside the slice it was given", func(k *task) {
		inSlice(k)
		pid := k.up().InfraPID
		wantInSlice(k, pid, k.see(k.run(k.spec("a", "wait"))).PID)
	}},
	{"a container of a pod without infra container lies inside the slice that it was given", func(k *task) {
		inSlice(k)
		k.pod.NoInfra = true
		if _, err := k.CreatePod(within(k.t), k.pod); err != nil {
			k.t.Fatal(err)
		}
		s := k.spec("a", "wait")
		s.Own, s.CgroupParent = &libpod.OwnNetwork{}, k.pod.CgroupParent
		wantInSlice(k, k.see(k.run(s)).PID)
	}},
	{"a forced removal keeps what a program wrote last, and starts no clean-up of conmon", func(k *task) {
		k.up()
		name := k.run(k.spec("a", "stubborn", "half a line"))
		k.ready(name)
		id := k.see(name).ID
		if err := k.RemovePod(within(k.t), k.pod.Name, k.id); err != nil {
			k.t.Fatal(err)
		}
		inJournal(k, "half a line", "CONTAINER_ID_FULL="+id)
		inJournal(k, id[:20]+" <error>: Failed to fork", "SYSLOG_IDENTIFIER=conmon")
	}},
	{"a paused container can be stopped and removed", func(k *task) {
		k.up()
		conn, err := raw(within(k.t))
		if err != nil {
			k.t.Fatal(err)
		}
		paused := func(name string) string {
			k.ready(k.run(k.spec(name, "wait")))
			if err := containers.Pause(conn, k.spec(name).Name, nil); err != nil {
				k.t.Fatal(err)
			}
			return k.spec(name).Name
		}
		stopped, removed := paused("a"), paused("b")
		if o := k.see(stopped); o.Status != libpod.Running || !o.Paused {
			k.t.Errorf("paused: %+v", o)
		}
		if err := k.StopContainer(within(k.t), stopped, time.Minute); err != nil {
			k.t.Fatal(err)
		}
		if o := k.see(stopped); o.Status != libpod.Exited || o.ExitCode != 0 {
			k.t.Errorf("stopped: %+v", o)
		}
		if err := k.RemoveContainer(within(k.t), removed, k.id); err != nil {
			k.t.Fatal(err)
		}
		if o := k.see(removed); o.Status != libpod.Absent {
			k.t.Errorf("removed: %+v", o)
		}
	}},
}
