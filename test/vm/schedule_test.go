//go:build e2e && bed_vm

package vm

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Schedules run on through two ends of the machine. Their checks, in bootschedule_test.go, come first after a boot,
// because other tests count what runs.

// every is how often the schedules are due, so that times pass while the machine is off: "often" leaves out what it misses
// for more than a minute, "late" makes up for it.
var every = map[string]time.Duration{"often": 5 * time.Second, "late": 10 * time.Second}

// tallyFile is where each run of a schedule counts itself.
func tallyFile(schedule string) string { return filepath.Join(os.Getenv("HOME"), "runs", schedule) }

// scheduled is a run in the history of a schedule.
type scheduled struct {
	Due          time.Time
	Status, Task string
	Missed       int
	ExitCode     *int
}

// schedules creates a schedule that is due every few seconds, and one that makes up for missed times, and waits until
// the first has run.
func schedules(t *testing.T) {
	t.Helper()
	for name, flags := range map[string][]string{"often": nil, "late": {"--catch-up"}} {
		dir := filepath.Dir(tallyFile(name))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		job := box("job", "tally /runs/"+name+" 1", 0)
		data, err := json.Marshal(map[string]any{
			"family": name, "volumes": []any{map[string]any{"name": "runs", "host": map[string]any{"sourcePath": dir}}},
			"containerDefinitions": []any{map[string]any{
				"name": job.Name, "image": job.Image, "command": job.Command, "mountPoints": []any{map[string]any{"sourceVolume": "runs", "containerPath": "/runs"}},
			}},
		})
		path := filepath.Join(t.TempDir(), name+".json")
		if err == nil {
			err = os.WriteFile(path, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		podtask(t, "run", "--rm", path) // pulls the image: the registry is gone while no test runs
		_ = os.Remove(tallyFile(name))
		podtask(t, append([]string{"schedule", "create", name, path, "--at", fmt.Sprintf("*:*:0/%d", int(every[name].Seconds())), "--overlap=allow", "--pull=prefer-cached", "--limits=off"}, flags...)...)
	}
	for _, name := range []string{"often", "late"} {
		eventually(t, "a run of "+name, func() bool { return ended(t, name) > 0 })
	}
	must(t, "sync")
}

// history are the runs of a schedule, the newest first.
func history(t *testing.T, name string) (runs []scheduled) {
	t.Helper()
	if err := json.Unmarshal([]byte(podtask(t, "schedule", "history", name, "--format=json")), &runs); err != nil {
		t.Fatal(err)
	}
	return runs
}

// ended is how many runs of a schedule have succeeded.
func ended(t *testing.T, name string) (n int) {
	t.Helper()
	for _, r := range history(t, name) {
		if r.Status == "ended" && r.ExitCode != nil && *r.ExitCode == 0 {
			n++
		}
	}
	return n
}

// checkSchedules checks after a boot that schedules run again, that each time has one run or is counted as one without,
// and that no run was begun twice. It removes them.
func checkSchedules(t *testing.T) {
	t.Helper()
	booted := must(t, "uptime", "--since")
	boot, err := time.ParseInLocation(time.DateTime, booted, time.Local)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"often", "late"} {
		eventually(t, "a run of "+name+" after the boot", func() bool {
			for _, r := range history(t, name) {
				if r.Due.After(boot) && r.Status == "ended" && r.ExitCode != nil && *r.ExitCode == 0 {
					return true
				}
			}
			return false
		})
		podtask(t, "schedule", "pause", name)
	}
	eventually(t, "the end of all runs", func() bool {
		for _, name := range []string{"often", "late"} {
			for _, r := range history(t, name) {
				if r.Status == "running" || r.Status == "starting" {
					return false
				}
			}
		}
		return true
	})
	for _, name := range []string{"often", "late"} {
		checkHistory(t, name)
	}
	t.Logf("booted at %s", boot)
	podtask(t, "schedule", "rm", "--force", "often", "late")
	for _, name := range []string{"often", "late"} {
		ids := strings.Fields(podtask(t, "ps", "--all", "--quiet", "--no-trunc", "--filter", "family="+name))
		podtask(t, append([]string{"rm", "--force"}, ids...)...)
	}
}

// checkHistory checks that each time of a schedule has one run, or is counted as one without, and that no more ran.
func checkHistory(t *testing.T, name string) {
	t.Helper()
	runs, tasks, missed, without := history(t, name), map[string]bool{}, 0, 0
	for i, r := range runs {
		switch {
		case r.Task != "" && tasks[r.Task]:
			t.Errorf("%s: task %s is of two runs", name, r.Task)
		case r.Task != "":
			tasks[r.Task] = true
		}
		if without += r.Missed; r.Status == "missed" {
			missed++
		}
		if r.Status == "failed" || r.Status == "missed" && name == "late" {
			t.Errorf("%s: the run of %s is %s", name, r.Due, r.Status)
		}
		if i+1 == len(runs) {
			continue
		}
		// Nothing is lost: between two runs there are exactly the times that are counted.
		if between := int(r.Due.Sub(runs[i+1].Due)/every[name]) - 1; between != r.Missed {
			t.Errorf("%s: between %s and %s are %d times, and %d are counted as missed", name, runs[i+1].Due, r.Due, between, r.Missed)
		}
	}
	// Nothing ran twice. What a run that was cut off has counted may be lost.
	text, err := os.ReadFile(tallyFile(name))
	ran, _ := strconv.Atoi(string(text))
	if err != nil || ran > len(tasks) {
		t.Errorf("%s: %d runs were begun and %d have run: %v", name, len(tasks), ran, err)
	}
	t.Logf("%s: %d times in the history, %d of them missed, and %d more without a run; %d runs begun, %d counted, %d known to have succeeded", name, len(runs), missed, without, len(tasks), ran, ended(t, name))
}

func TestScheduleBeforeReboot(t *testing.T) { schedules(t) }

// The next end of the machine is a cut of its power.
func TestAfterRebootComesASchedule(t *testing.T) { schedules(t) }
