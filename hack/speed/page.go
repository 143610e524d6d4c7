package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed page.md
var introduction string

// page measures everything and prints docs/speed.md, or measures the parts of which only names some, and prints their rows.
func page(ctx context.Context, share string, rounds, tasks int, only []string) error {
	l, err := newLab(ctx, share, 1, 3, 10)
	if err != nil {
		return err
	}
	defer l.close()
	l.write("short.json", task(1, "exit", "0"))
	registry, closeRegistry := l.registry()
	defer closeRegistry()
	notes := l.host() + ", load " + load() + ".\n"
	socket := l.path("podman.sock")
	_, stopService := l.background("podman", "system", "service", "--time", "0", "unix://"+socket)
	defer stopService()
	defer l.clean()
	l.await(socket)
	part := func(name string, measure func()) {
		if l.err == nil && (len(only) == 0 || slices.Contains(only, name)) {
			measure()
		}
	}
	part("starts", func() { l.starts(rounds, "no agent", map[int]float64{1: 0.95, 3: 0.75, 10: 0.65}, 1.35) })
	part("removals", func() { l.removals(rounds, "no agent", 1, 3, 10) })
	part("commands", func() { l.commands(rounds, "no agent") })
	part("compose", func() { l.compose(rounds) })
	part("first", func() { l.firstRuns(registry, min(rounds, 5), 1, 3, 10) })
	part("once", func() { l.once(rounds) })
	part("services", func() { l.services(rounds) })
	part("healthy", func() { l.healthy(min(rounds, 5)) })
	part("nerdctl", func() { l.nerdctl(rounds) })
	part("door", func() { l.door(min(rounds, 5)) })
	agent, stopAgent := l.background(filepath.Join(share, "podtask"), "agent")
	defer stopAgent()
	l.awaitAgent()
	part("starts", func() { l.starts(rounds, "agent", map[int]float64{1: 0.85, 3: 0.65, 10: 0.55}, 1.15) })
	part("removals", func() { l.removals(rounds, "agent", 1, 3, 10) })
	part("commands", func() { l.commands(rounds, "agent") })
	part("deployments", func() { l.deployments(rounds) })
	// Before many tasks, because an agent gives their memory back within minutes.
	part("resting", func() {
		l.resting(agent, tasks, stopService)
		l.exits()
		l.commands(rounds, fmt.Sprintf("agent with %d tasks", tasks))
		l.clean()
	})
	part("asleep", func() { l.asleep(agent, stopService) })
	part("many", func() { l.many(min(rounds, 5)) })
	part("hundreds", l.hundreds)
	if l.err != nil {
		return l.err
	}
	if len(only) > 0 {
		fmt.Printf("%sload at the end %s.\n\n%s", notes, load(), table(l.rows))
		return nil
	}
	fmt.Printf("%s\n%sload at the end %s.\n\n%s", introduction, notes, load(), table(l.rows))
	if found := above(l.rows); len(found) > 0 && os.Getenv("BENCH_STRICT") == "1" {
		return errors.New("above the goal: " + strings.Join(found, "; "))
	}
	return nil
}

// clean removes what a measurement that failed has left.
func (l *lab) clean() {
	ctx := context.WithoutCancel(l.ctx)
	_ = exec.CommandContext(ctx, "podman", "pod", "rm", "--force", "--ignore", "--time", "0", "bare").Run()
	podtask := filepath.Join(l.share, "podtask")
	if ids, err := exec.CommandContext(ctx, podtask, "ps", "-aq").Output(); err == nil && len(ids) > 0 {
		_ = exec.CommandContext(ctx, podtask, append([]string{"rm", "--force"}, strings.Fields(string(ids))...)...).Run()
	}
}

// pair records a measurement of podtask and one of its peer.
func (l *lab) pair(name string, goal float64, ours, theirs time.Duration) {
	what, peer, _ := strings.Cut(name, " / ")
	l.rows = append(l.rows, row{what, peer, goal, ms(ours), ms(theirs)})
}

// figure records a measurement that has a limit.
func (l *lab) figure(what string, limit, value float64) {
	l.rows = append(l.rows, row{what: what, goal: limit, ours: value})
}

func ms(d time.Duration) float64 { return math.Round(d.Seconds()*1e4) / 10 }

// pairs runs f rounds times and once more before, when caches are cold; counts is false then.
func (l *lab) pairs(rounds int, f func(counts bool)) {
	for i := range rounds + 1 {
		if l.err == nil {
			f(i > 0)
		}
	}
}

// starts measures the start and the removal of tasks. goals are those against kube play by the number of containers; bareGoal
// is that against the bare calls, of which none is in a task of one, because that has no infra container.
func (l *lab) starts(rounds int, how string, goals map[int]float64, bareGoal float64) {
	for _, n := range slices.Sorted(maps.Keys(goals)) {
		l.pairs(rounds, func(counts bool) {
			play := l.run("podman", "kube", "play", "--quiet", l.path(fmt.Sprintf("pod%d.yaml", n)))
			down := l.run("podman", "pod", "rm", "--force", "--time", "0", fmt.Sprintf("speed%d", n))
			start := l.start(fmt.Sprintf("task%d.json", n))
			remove := l.podtask("rm", "--force", start.out)
			var least sample
			if n > 1 {
				least = l.run(filepath.Join(l.share, "speed"), "bare", l.path("podman.sock"), "start", strconv.Itoa(n), image, "sleep", "forever")
				l.run("podman", "pod", "rm", "--force", "--time", "0", "bare")
			}
			if !counts {
				return
			}
			l.pair(fmt.Sprintf("start of %d, %s / podman kube play", n, how), goals[n], start.time, play.time)
			l.pair(fmt.Sprintf("processor time of a start of %d, %s / podman kube play", n, how), 0, start.cpu, play.cpu)
			l.pair(fmt.Sprintf("removal of a running task of %d, %s / podman pod rm -f", n, how), 0.8, remove.time, down.time)
			if n > 1 {
				l.pair(fmt.Sprintf("start of %d, %s / bare calls of the API", n, how), bareGoal, start.time, least.time)
				l.pair(fmt.Sprintf("start of %d with bare calls alone / podman kube play", n), 0, least.time, play.time)
				l.pair(fmt.Sprintf("processor time of a start of %d with bare calls alone / podman kube play", n), 0, least.cpu, play.cpu)
			}
		})
	}
}

// compose measures three containers against podman-compose, which has no agent.
func (l *lab) compose(rounds int) {
	if !l.installed("podman-compose") {
		return
	}
	l.pairs(rounds, func(counts bool) {
		up := l.run("podman-compose", "--file", l.path("compose3.yaml"), "up", "--detach")
		down := l.run("podman-compose", "--file", l.path("compose3.yaml"), "down", "--timeout", "0")
		start := l.start("task3.json")
		remove := l.podtask("rm", "--force", start.out)
		if counts {
			l.pair("start of 3, no agent / podman-compose up", 0, start.time, up.time)
			l.pair("removal of a running task of 3, no agent / podman-compose down", 0, remove.time, down.time)
		}
	})
}

func (l *lab) once(rounds int) {
	l.pairs(rounds, func(counts bool) {
		ours := l.podtask("run", "--rm", "--pull", "never", "--limits", "off", l.path("short.json"))
		theirs := l.run("podman", "run", "--rm", "--pull", "never", image, "exit", "0")
		if counts {
			l.pair("one-shot run --rm, no agent / podman run --rm", 1.3, ours.time, theirs.time)
		}
	})
}

// services measures the start of a service, which is ready when its container runs.
func (l *lab) services(rounds int) {
	home, err := os.UserHomeDir()
	l.try(err)
	generated := filepath.Join(home, ".config/systemd/user")
	unit := filepath.Join(home, ".config/containers/systemd/speedtask.task")
	kube := filepath.Join(home, ".config/containers/systemd/speedkube.kube")
	defer func() {
		l.run("systemctl", "--user", "stop", "speedtask-task", "speedkube")
		for _, file := range []string{unit, kube, filepath.Join(generated, "speedtask-task.service")} {
			l.try(os.Remove(file))
		}
		l.run("systemctl", "--user", "daemon-reload")
	}()
	l.try(os.MkdirAll(filepath.Dir(unit), 0o700))
	l.try(os.WriteFile(unit, fmt.Appendf(nil, "[Task]\nDefinition=%s\nPull=never\nLimits=off\nNotify=running\n", l.path("task1.json")), 0o600))
	l.try(os.WriteFile(kube, fmt.Appendf(nil, "[Kube]\nYaml=%s\n", l.path("pod1.yaml")), 0o600))
	l.podtask("generate", "--output", generated) // this program's, whatever generator there is
	l.run("systemctl", "--user", "daemon-reload")
	l.pairs(rounds, func(counts bool) {
		theirs := l.run("systemctl", "--user", "start", "speedkube")
		l.run("systemctl", "--user", "stop", "speedkube")
		ours := l.run("systemctl", "--user", "start", "speedtask-task")
		l.run("systemctl", "--user", "stop", "speedtask-task")
		if counts {
			l.pair("start of a service by a unit / Quadlet .kube", 1.1, ours.time, theirs.time)
		}
	})
}

// resting measures an agent whose tasks run and change nothing.
func (l *lab) resting(agent, tasks int, stopService func()) {
	for range tasks {
		l.start("task1.json")
	}
	l.pause(20 * time.Second) // Podman still works for the last start
	stopService()
	processes := strings.Fields(l.run("sh", "-c", fmt.Sprintf("echo %d; pgrep -U %d -f 'podman.* system service' || true", agent, os.Getuid())).out)
	before := l.ticks(processes)
	l.pause(30 * time.Second)
	used := float64(l.ticks(processes)-before) / 30 // of 100 a second
	l.figure(fmt.Sprintf("at rest, %d tasks: podtask and Podman's service, %% of a core", tasks), 0.2, used)
	for _, m := range []struct {
		field, name string
		limit       float64
	}{{"RssAnon", "memory of the agent itself", 20}, {"VmRSS", "memory of the agent with pages of its file", 60}} {
		kB := strings.Fields(l.run("sed", "-n", "s/^"+m.field+":\\s*\\([0-9]*\\) kB/\\1/p", fmt.Sprintf("/proc/%d/status", agent)).out)
		if l.err == nil {
			n, err := strconv.Atoi(strings.Join(kB, ""))
			l.try(err)
			l.figure(fmt.Sprintf("at rest, %d tasks: %s, MB", tasks, m.name), m.limit, float64(n/1024))
		}
	}
	for range 3 {
		l.figure(fmt.Sprintf("stats of %d tasks, ms", tasks), 300, ms(l.podtask("stats", "--no-stream", "--interval", "100ms").time))
		l.figure(fmt.Sprintf("ps of %d tasks, ms", tasks), 40, ms(l.podtask("ps").time))
		l.figure(fmt.Sprintf("completion of %d tasks, ms", tasks), 30, ms(l.podtask("__complete", "--", "logs", "").time))
	}
}

// ticks returns the clock ticks that processes have used.
func (l *lab) ticks(pids []string) (sum int) {
	for _, pid := range pids {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		l.try(err)
		_, after, _ := strings.Cut(string(stat), ") ")
		for i, field := range strings.Fields(after) {
			if i == 11 || i == 12 { // user and system
				n, err := strconv.Atoi(field)
				l.try(err)
				sum += n
			}
		}
	}
	return sum
}

// exits kills the containers of running tasks, one at a time, and compares with the time that podtask recorded. The first finds no service
// of Podman, because nothing has used it while the tasks rested.
func (l *lab) exits() {
	what, limit := "exit to STOPPED recorded after a rest, which starts Podman's service, ms", 0.0
	ids := strings.Fields(l.podtask("ps", "-q").out)
	var all []row
	for _, id := range ids[:min(len(ids), 100)] {
		container := l.run("podman", "ps", "-q", "--filter", "name="+id[:12]+"-c1").out
		pid := l.run("podman", "inspect", "--format", "{{.State.Pid}}", container).out
		if l.err != nil {
			return
		}
		begin := time.Now()
		l.run("kill", "-KILL", pid)
		// Its status is that of the task, which was killed.
		_ = exec.CommandContext(l.ctx, filepath.Join(l.share, "podtask"), "wait", id).Run()
		var document any
		l.try(json.Unmarshal([]byte(l.podtask("inspect", id).out), &document))
		at, err := time.Parse(time.RFC3339Nano, stopped(document))
		l.try(err)
		l.figure(what, limit, ms(at.Sub(begin)))
		what, limit = fmt.Sprintf("exit among %d tasks to STOPPED recorded, ms", len(ids)), 20
		all = append(all, l.rows[len(l.rows)-1])
	}
	if len(all) == 100 {
		l.figure(fmt.Sprintf("exit among %d tasks to STOPPED recorded, 99th percentile of 99, ms", len(ids)), 60, quantile(all[1:], row.value, 0.99))
	}
}

// stopped returns the time at which the container c1 was STOPPED, from the output of podtask inspect.
func stopped(document any) string {
	switch d := document.(type) {
	case []any:
		for _, item := range d {
			if at := stopped(item); at != "" {
				return at
			}
		}
	case map[string]any:
		if at, ok := d["at"].(string); ok && d["container"] == "c1" && d["status"] == "STOPPED" {
			return at
		}
		for _, key := range slices.Sorted(maps.Keys(d)) {
			if at := stopped(d[key]); at != "" {
				return at
			}
		}
	}
	return ""
}

// host describes the machine.
func (l *lab) host() string {
	facts := l.run("sh", "-c", `podman version --format '{{.Client.Version}}'; "$1" version | sed -n "s/^Version: *//p"
		sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1; uname -r; findmnt -no FSTYPE -T ~`, "sh", filepath.Join(l.share, "podtask"))
	f := append(strings.Split(facts.out, "\n"), "", "", "", "", "")
	return fmt.Sprintf("Podman %s, podtask %s, %d CPUs, %s, Linux %s, home on %s", f[0], f[1], runtime.NumCPU(), f[2], f[3], f[4])
}

func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}
