package enginetest

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/host/libpod"
)

var probeRules = []rule{
	{"a program beside the container's own tells how it ended and what it wrote", func(k *task) {
		k.up()
		name := k.run(k.spec("a", "sleep forever"))
		r, err := k.RunExec(k.ctx(), name, []string{Program, "print", "hello", "--", "exit", "3"}, patience)
		if err != nil || r.ExitCode != 3 || strings.TrimSpace(r.Output) != "hello" {
			k.t.Errorf("%+v, %v", r, err)
		}
	}},
	{"a program beside the container's own that does not exist is no error", func(k *task) {
		k.up()
		name := k.run(k.spec("a", "sleep forever"))
		if r, err := k.RunExec(k.ctx(), name, []string{"/no/such/program"}, patience); err != nil || r.ExitCode != 127 {
			k.t.Errorf("%+v, %v", r, err)
		}
	}},
	{"a program beside the container's own is killed at its limit", func(k *task) {
		k.up()
		name := k.run(k.spec("a", "sleep forever"))
		_, err := k.RunExec(k.ctx(), name, []string{Program, "sleep", "forever"}, time.Second)
		k.wantClass(err, libpod.Timeout)
	}},
	{"a program cannot be run in a container that has ended", func(k *task) {
		k.up()
		name := k.run(k.spec("a", "exit 0"))
		k.must(k.WaitContainer(k.ctx(), name))
		_, err := k.RunExec(k.ctx(), name, []string{Program, "exit", "0"}, patience)
		k.wantClass(err, libpod.NotRunning)
		_, err = k.RunExec(k.ctx(), k.absent(), []string{Program, "exit", "0"}, patience)
		k.wantClass(err, libpod.NotFound)
	}},
	{"a probe tells about itself only", func(k *task) {
		k.up()
		good := k.run(k.probed("good", Program, "exit", "0"))
		bad := k.run(k.probed("bad", Program, "print", "it hurts", "--", "exit", "3"))
		for range 2 {
			if r, err := k.Probe(k.ctx(), good); err != nil || r != (libpod.ProbeResult{Healthy: true}) {
				k.t.Errorf("good: %+v, %v", r, err)
			}
			r, err := k.Probe(k.ctx(), bad)
			if err != nil || r.Healthy || r.ExitCode != 1 {
				k.t.Errorf("bad: %+v, %v", r, err)
			}
			if out := strings.TrimSpace(r.Output); out != "" && out != "it hurts" { // best effort on 4.3.1
				k.t.Errorf("output %q", out)
			}
		}
	}},
	{"a probe sees what the container does", func(k *task) {
		k.up()
		s := k.probed("a", Program, "exists", "/tmp/well")
		s.Command = []string{"print", "ready", "--", "sleep", "1s", "--", "write", "/tmp/well", "--", "print", "well", "--", "sleep", "forever"}
		name := k.ready(k.run(s))
		if r, err := k.Probe(k.ctx(), name); !k.Real && (err != nil || r.Healthy) { // real time may have passed
			k.t.Errorf("before: %+v, %v", r, err)
		}
		ctx, cancel := context.WithCancel(k.ctx())
		defer cancel()
		k.wantClass(k.Logs(ctx, name, libpod.LogOptions{Follow: true}, func(l libpod.LogLine) {
			if l.Text == "well" {
				cancel()
			}
		}), libpod.Canceled)
		if r, err := k.Probe(k.ctx(), name); err != nil || !r.Healthy {
			k.t.Errorf("after: %+v, %v", r, err)
		}
	}},
	{"a probe whose command does not exist is unhealthy and not an error", func(k *task) {
		k.up()
		name := k.run(k.probed("a", "/no/such/probe"))
		if r, err := k.Probe(k.ctx(), name); err != nil || r.Healthy {
			k.t.Errorf("%+v, %v", r, err)
		}
	}},
	{"a probe by the shell of an image without one is unhealthy", func(k *task) {
		k.up()
		s := k.probed("a")
		s.Health.Command = []string{"CMD-SHELL", "exit 0"}
		name := k.run(s)
		if r, err := k.Probe(k.ctx(), name); err != nil || r.Healthy {
			k.t.Errorf("%+v, %v", r, err)
		}
	}},
	{"a probe of a container that does not run is NotRunning", func(k *task) {
		k.up()
		s := k.probed("a", Program, "exit", "0")
		s.Command = []string{"exit", "0"}
		k.create(s)
		_, err := k.Probe(k.ctx(), s.Name)
		k.wantClass(err, libpod.NotRunning)
		k.ended(k.run(s))
		_, err = k.Probe(k.ctx(), s.Name)
		k.wantClass(err, libpod.NotRunning)
	}},
	{"a probe of an absent container is NotFound", func(k *task) {
		_, err := k.Probe(k.ctx(), k.absent())
		k.wantClass(err, libpod.NotFound)
	}},
	{"a probe of a container that ends meanwhile is NotRunning", func(k *task) {
		k.up()
		s := k.probed("a", Program, "sleep", "forever")
		s.Command = []string{"sleep", "2s"}
		_, err := k.Probe(k.ctx(), k.run(s))
		k.wantClass(err, libpod.NotRunning)
	}},
	{"a probe that ends after its timeout is Timeout", func(k *task) {
		k.up()
		s := k.probed("a", Program, "sleep", "2s")
		s.Health.Timeout = time.Second
		_, err := k.Probe(k.ctx(), k.run(s))
		k.wantClass(err, libpod.Timeout)
	}},
	{"a probe that hangs ends with its context", func(k *task) {
		k.up()
		name := k.run(k.probed("a", Program, "sleep", "forever"))
		ctx, cancel := contextWithin(k, 300*time.Millisecond)
		defer cancel()
		_, err := k.Probe(ctx, name)
		k.wantClass(err, libpod.Timeout)
		k.wantStatus(name, libpod.Running)
	}},
	{"the health check of the image is turned off", func(k *task) {
		k.up()
		_, err := k.Probe(k.ctx(), k.run(k.spec("a", "sleep forever")))
		k.wantClass(err, libpod.InvalidSpec)
	}},
}

var logRules = []rule{
	{"logs are whole lines in order", func(k *task) {
		k.up()
		name := k.run(k.spec("a", "print one -- print two words -- print"))
		k.wantExit(name, 0)
		k.wantTexts(name, libpod.LogOptions{}, "stdout: one", "stdout: two words", "stdout: ")
	}},
	{"logs tell the streams apart", func(k *task) {
		k.up()
		name := k.run(k.spec("a", "eprint error"))
		k.wantExit(name, 0)
		k.wantTexts(name, libpod.LogOptions{}, "stderr: error")
	}},
	{"logs have times only when asked for", func(k *task) {
		k.up()
		name := k.run(k.spec("a", "print one"))
		k.wantExit(name, 0)
		for _, stamps := range []bool{false, true} {
			k.must(k.Logs(k.ctx(), name, libpod.LogOptions{Timestamps: stamps}, func(l libpod.LogLine) {
				if l.Time.IsZero() == stamps {
					k.t.Errorf("asked %t, got %v", stamps, l.Time)
				}
			}))
		}
	}},
	{"tail gives the last lines", func(k *task) {
		k.up()
		name := k.run(k.spec("a", "lines 5"))
		k.wantExit(name, 0)
		k.wantTexts(name, libpod.LogOptions{Tail: 2}, "stdout: line 4", "stdout: line 5")
		k.wantTexts(name, libpod.LogOptions{Tail: 9}, "stdout: line 1", "stdout: line 2", "stdout: line 3", "stdout: line 4", "stdout: line 5")
	}},
	{"since leaves out what is older", func(k *task) {
		k.up()
		name := k.run(k.spec("a", "lines 3"))
		o := k.wantExit(name, 0)
		k.wantTexts(name, libpod.LogOptions{Since: o.StartedAt.Add(-time.Minute)}, "stdout: line 1", "stdout: line 2", "stdout: line 3")
		k.wantTexts(name, libpod.LogOptions{Since: o.FinishedAt.Add(time.Minute)})
	}},
	{"until leaves out what is younger, and tail counts back from there", func(k *task) {
		k.up()
		name := k.run(k.spec("a", "lines 3 -- sleep 3s -- print late"))
		o := k.wantExit(name, 0)
		k.wantTexts(name, libpod.LogOptions{Tail: 1}, "stdout: late")
		var between time.Time
		k.must(k.Logs(k.ctx(), name, libpod.LogOptions{Timestamps: true}, func(l libpod.LogLine) { between = l.Time.Add(-1) }))
		k.wantTexts(name, libpod.LogOptions{Until: between}, "stdout: line 1", "stdout: line 2", "stdout: line 3")
		k.wantTexts(name, libpod.LogOptions{Until: between, Tail: 2}, "stdout: line 2", "stdout: line 3")
		k.wantTexts(name, libpod.LogOptions{Until: o.StartedAt.Add(-time.Minute), Tail: 2})
		k.wantTexts(name, libpod.LogOptions{Until: o.FinishedAt.Add(time.Minute), Tail: 2}, "stdout: line 3", "stdout: late")
	}},
	{"a carriage return is data", func(k *task) {
		k.up()
		s := k.spec("a", "print")
		s.Command = append(s.Command, "10%\r20%\r")
		name := k.run(s)
		k.wantExit(name, 0)
		k.wantTexts(name, libpod.LogOptions{}, "stdout: 10%\r20%\r")
	}},
	{"following ends with the container and gives all of it", func(k *task) {
		k.up()
		name := k.run(k.spec("a", "print one -- sleep 300ms -- print two -- sleep 300ms -- exit 3"))
		k.wantTexts(name, libpod.LogOptions{Follow: true}, "stdout: one", "stdout: two")
		k.wantExit(name, 3)
	}},
	{"following a container that has ended gives all of it", func(k *task) {
		k.up()
		name := k.run(k.spec("a", "lines 2"))
		k.wantExit(name, 0)
		k.wantTexts(name, libpod.LogOptions{Follow: true}, "stdout: line 1", "stdout: line 2")
	}},
	{"the log of a container that has just ended is whole, though the journal may lag", func(k *task) {
		k.up()
		for i := range 8 {
			name := k.run(k.spec("a"+strconv.Itoa(i), "lines 200"))
			k.wantExit(name, 0)
			if got := k.texts(name, libpod.LogOptions{}); len(got) != 200 || got[199] != "stdout: line 200" {
				k.t.Errorf("%d lines of 200", len(got))
			}
		}
	}},
	{"logs of a container that never started are empty", func(k *task) {
		k.up()
		k.wantTexts(k.create(k.spec("a", "lines 2")), libpod.LogOptions{})
	}},
	{"logs of an absent container are NotFound", func(k *task) {
		k.wantClass(k.Logs(k.ctx(), k.absent(), libpod.LogOptions{}, func(libpod.LogLine) {}), libpod.NotFound)
	}},
}
