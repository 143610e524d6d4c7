//go:build e2e && bed_systemd

package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// schedules are the times of the schedules of this host, by name.
func (b *box) schedules() map[string]string {
	b.t.Helper()
	var rows []struct{ Name, At string }
	if err := json.Unmarshal([]byte(b.want(0, "schedule", "ls", "--format=json").out), &rows); err != nil {
		b.t.Fatal(err)
	}
	all := map[string]string{}
	for _, r := range rows {
		all[r.Name] = r.At
	}
	return all
}

// Schedules are members of a stack: they are made, changed, left and removed with it, and put back with it if a service fails.
func TestStackSchedules(t *testing.T) {
	b := newBox(t)
	agent := b.agent()
	file := func(at, word, check string) string {
		return b.stackFile("timed/stack.yaml", fmt.Sprintf(`name: %[1]s
members:
  db: {image: "%[2]s", command: [serve, "5432"], ports: [5432]}
  report: {image: "%[2]s", command: [get, "http://db:5432/", --, print, "report %[4]s"], at: "%[3]s", catch-up: true, after: {db: started}}
  web: {image: "%[2]s", command: [serve, "8080"], after: [report], env: {A: "%[4]s"}, healthcheck: {test: [CMD, /testbox, get, "http://127.0.0.1:8080%[5]s"], interval: 5s, retries: 1, start_period: 4s}}
`, b.family, b.testbox(), at, word, check))
	}
	name := b.family + "-report"
	is := func(want string) {
		t.Helper()
		if got := b.schedules()[name]; got != want {
			t.Errorf("the times are %q, not %q", got, want)
		}
	}
	var ran []string
	print := func(want string) {
		t.Helper()
		id := strings.TrimSpace(b.want(0, "schedule", "run", name).out)
		ran = append(ran, id)
		b.want(0, "wait", id)
		if out := b.want(0, "logs", id).out; !strings.Contains(out, want) {
			t.Errorf("it printed %q, not %q", out, want)
		}
	}
	if r := b.want(0, "stack", "up", file("Mon 03:00", "one", "/")); !strings.Contains(r.err, "+ report  schedule") {
		t.Errorf("the plan:\n%s", r.err)
	}
	is("Mon 03:00")
	print("report one")
	if out := b.want(0, "stack", "logs", b.family, "report").out; !strings.Contains(out, "report one") {
		t.Errorf("the logs of the stack: %s", out)
	}
	if m := b.members(b.family)["report"]; m.Kind != "schedule" || m.Status != "active" {
		t.Errorf("%+v", m)
	}
	if r := b.want(0, "stack", "up", file("Mon 03:00", "one", "/")); !strings.Contains(r.out, "up to date") {
		t.Errorf("a second up: %s%s", r.out, r.err)
	}
	b.want(125, "stack", "up", file("Tue 04:00", "two", "/no"))
	is("Mon 03:00")
	print("report one")
	b.want(0, "stack", "up", file("Tue 04:00", "two", "/"))
	is("Tue 04:00")
	print("report two")
	b.want(0, "stack", "rollback", b.family)
	is("Mon 03:00")
	if why := b.want(0, "stack", "why", b.family).out; !strings.Contains(why, "report: ") {
		t.Error(why)
	}
	b.want(0, "schedule", "rm", name) // somebody removes it, which leaves its tasks: up makes it again
	b.want(0, append([]string{"rm"}, ran...)...)
	if r := b.want(0, "stack", "up", file("Mon 03:00", "one", "/")); !strings.Contains(r.err, "+ report") {
		t.Errorf("the plan:\n%s", r.err)
	}
	is("Mon 03:00")
	print("report one")
	b.removeStack(b.family)
	if len(b.schedules()) > 0 {
		t.Errorf("left: %v", b.schedules())
	}
	if out, _ := exec.Command("systemctl", "--user", "list-timers", "--all").CombinedOutput(); strings.Contains(string(out), name) {
		t.Errorf("a timer is left: %s", out)
	}
	agent.end()
}

// A CronJob of manifests is a schedule of the stack, with the Secrets beside it.
func TestStackOfACronJob(t *testing.T) {
	b := newBox(t)
	agent := b.agent()
	b.stackFile("cron/all.yaml", fmt.Sprintf(`apiVersion: v1
kind: Secret
metadata: {name: words}
stringData: {greeting: hello-from-a-secret}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: tidy}
spec:
  schedule: "5 4 * * *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers:
          - name: tidy
            image: %s
            args: [env, GREETING]
            env: [{name: GREETING, valueFrom: {secretKeyRef: {name: words, key: greeting}}}]
`, b.testbox()))
	dir := filepath.Join(b.dir, "files", "cron")
	b.want(0, "stack", "up", "--name", b.family, dir)
	if got := b.schedules()[b.family+"-tidy"]; got != "5 4 * * *" {
		t.Errorf("the times are %q", got)
	}
	id := strings.TrimSpace(b.want(0, "schedule", "run", b.family+"-tidy").out)
	b.want(0, "wait", id)
	if out := b.want(0, "logs", id).out; !strings.Contains(out, "hello-from-a-secret") {
		t.Errorf("it printed %q", out)
	}
	b.removeStack(b.family)
	agent.end()
}
