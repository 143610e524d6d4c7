package enginetest

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/host/libpod"
)

func contextWithin(k *task, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(k.ctx(), d)
}

var containerRules = []rule{
	{"CreateContainer twice adopts", func(k *task) {
		k.up()
		s := k.spec("a", "sleep forever")
		s.Env = map[string]string{"B": "2", "A": "1"}
		first, err := k.CreateContainer(k.ctx(), s)
		k.must(err)
		second, err := k.CreateContainer(k.ctx(), s)
		k.must(err)
		if first.ID != second.ID || first.ID == "" || first.Status != libpod.Created || first.TaskID != k.id {
			k.t.Errorf("first %+v, second %+v", first, second)
		}
	}},
	{"a created container has an image and neither process nor times", func(k *task) {
		k.up()
		o := k.wantStatus(k.create(k.spec("a", "sleep forever")), libpod.Created)
		if o.PID != 0 || o.TaskID != k.id || o.Foreign || !o.StartedAt.IsZero() || !o.FinishedAt.IsZero() || o.ImageID == "" || o.ID == "" {
			k.t.Errorf("%+v", o)
		}
	}},
	{"StartContainer twice succeeds and starts once", func(k *task) {
		k.up()
		name := k.run(k.spec("a", "print ready -- sleep forever"))
		first := k.see(k.ready(name))
		k.must(k.StartContainer(k.ctx(), name))
		second := k.wantStatus(name, libpod.Running)
		if first.PID == 0 || first.PID != second.PID || !first.StartedAt.Equal(second.StartedAt) || first.StartedAt.IsZero() || !first.FinishedAt.IsZero() {
			k.t.Errorf("first %+v, second %+v", first, second)
		}
		k.wantTexts(name, libpod.LogOptions{}, "stdout: ready")
	}},
	{"CreateContainer adopts one that runs and one that has exited", func(k *task) {
		k.up()
		s := k.spec("a", "exit 7")
		k.wantExit(k.run(s), 7)
		adopted, err := k.CreateContainer(k.ctx(), s)
		k.must(err)
		if adopted.Status != libpod.Exited || adopted.ExitCode != 7 {
			k.t.Errorf("adopted %+v", adopted)
		}
		k.wantExit(s.Name, 7)
	}},
	{"CreateContainer refuses its own name with another specification", func(k *task) {
		k.up()
		s := k.spec("a", "sleep forever")
		k.create(s)
		s.Env = map[string]string{"NEW": "1"}
		_, err := k.CreateContainer(k.ctx(), s)
		k.wantClass(err, libpod.Conflict)
	}},
	{"CreateContainer refuses the container of another task and names its owner", func(k *task) {
		k.up()
		s := k.spec("a", "sleep forever")
		k.create(s)
		s.TaskID = "another"
		_, err := k.CreateContainer(k.ctx(), s)
		k.wantClass(err, libpod.Conflict)
		k.wantNamed(err, k.id)
	}},
	{"a foreign container of our name is refused and seen as foreign", func(k *task) {
		k.up()
		s := k.spec("a", "sleep forever")
		k.Foreign(k.t, s.Name, "")
		_, err := k.CreateContainer(k.ctx(), s)
		k.wantClass(err, libpod.Conflict)
		if o := k.wantStatus(s.Name, libpod.Created); !o.Foreign || o.TaskID != "" {
			k.t.Errorf("%+v", o)
		}
		k.Remove(k.t, s.Name)
	}},
	{"an unknown image is NoImage of create container whatever the status", func(k *task) {
		k.up()
		s := k.spec("a", "exit 0")
		s.Image = "localhost/no/such/image:here"
		_, err := k.CreateContainer(k.ctx(), s)
		k.wantClass(err, libpod.NoImage)
		k.wantNamed(err, "create container")
	}},
	{"an unknown pod is NotFound", func(k *task) {
		_, err := k.CreateContainer(k.ctx(), k.spec("a", "exit 0"))
		k.wantClass(err, libpod.NotFound)
	}},
	{"a container without image or task is refused", func(k *task) {
		for _, edit := range []func(*libpod.ContainerSpec){
			func(s *libpod.ContainerSpec) { s.Image = "" }, func(s *libpod.ContainerSpec) { s.TaskID = "" }, func(s *libpod.ContainerSpec) { s.Name = "" },
		} {
			s := k.spec("a", "exit 0")
			edit(&s)
			_, err := k.CreateContainer(k.ctx(), s)
			k.wantClass(err, libpod.InvalidSpec)
		}
	}},
	{"starting what does not exist is NotFound", func(k *task) {
		k.wantClass(k.StartContainer(k.ctx(), k.absent()), libpod.NotFound)
	}},
	{"a command that does not exist is CommandNotFound and the container stays created", func(k *task) {
		k.up()
		s := k.spec("a", "exit 0")
		s.EntryPoint = []string{"/no/such/command"}
		k.create(s)
		k.wantClass(k.StartContainer(k.ctx(), s.Name), libpod.CommandNotFound)
		if o := k.wantStatus(s.Name, libpod.Created); o.ExitCode != 0 {
			k.t.Errorf("%+v", o)
		}
	}},
	{"a mount whose source is not there is Temporary, until it is there again", func(k *task) {
		k.up()
		s, source := k.spec("a", "sleep forever"), filepath.Join(k.t.TempDir(), "source")
		k.must(os.Mkdir(source, 0o700))
		s.Binds = []libpod.Bind{{HostPath: source, Path: "/mnt"}}
		k.create(s)
		k.must(os.Remove(source))
		k.wantClass(k.StartContainer(k.ctx(), s.Name), libpod.Temporary)
		k.wantStatus(s.Name, libpod.Created)
		k.must(os.Mkdir(source, 0o700), k.StartContainer(k.ctx(), s.Name))
		k.wantStatus(s.Name, libpod.Running)
	}},
	{"a command that cannot be executed is CommandNotExecutable", func(k *task) {
		k.up()
		s := k.spec("a", "exit 0")
		s.EntryPoint = []string{NotExecutable}
		k.create(s)
		k.wantClass(k.StartContainer(k.ctx(), s.Name), libpod.CommandNotExecutable)
	}},
	{"an entrypoint without a command drops the command of the image", func(k *task) {
		k.up()
		s := k.spec("a", "")
		s.EntryPoint, s.Command = []string{Program, "exit", "4"}, nil
		k.wantExit(k.run(s), 4)
	}},
	{"without command and entrypoint those of the image are run", func(k *task) {
		k.up()
		s := k.spec("a", "")
		s.Command = nil
		k.wantExit(k.run(s), 0)
	}},
	{"the exit code and the times survive", func(k *task) {
		k.up()
		o := k.wantExit(k.run(k.spec("a", "exit 7")), 7)
		if o.StartedAt.IsZero() || o.FinishedAt.Before(o.StartedAt) || o.OOMKilled || o.PID != 0 {
			k.t.Errorf("%+v", o)
		}
	}},
	{"an exit code above 255 keeps its low byte", func(k *task) {
		k.up()
		k.wantExit(k.run(k.spec("a", "exit 258")), 2)
	}},
	{"a program that was killed exits with 137", func(k *task) {
		k.up()
		name := k.run(k.spec("a", "sleep forever"))
		k.Kill(k.t, name)
		if o := k.wantExit(name, 137); o.OOMKilled {
			k.t.Errorf("%+v", o)
		}
	}},
	{"an exited container can be started again", func(k *task) {
		k.up()
		s := k.spec("a", "sleep 20ms -- exit 7")
		first := k.wantExit(k.run(s), 7)
		second := k.wantExit(k.run(s), 7)
		if second.ID != first.ID || !second.StartedAt.After(first.StartedAt) {
			k.t.Errorf("first %+v, second %+v", first, second)
		}
	}},
	{"what a container wrote is there when it is started again", func(k *task) {
		k.up()
		s := k.spec("a", "exists /tmp/mark")
		s.Command = nil
		s.EntryPoint = []string{Program, "write", "/tmp/mark", "--", "exit", "3"}
		name := k.run(s)
		k.wantExit(name, 3)
		s.Name, s.EntryPoint = s.Name+"2", []string{Program, "exists", "/tmp/mark"}
		k.wantExit(k.run(s), 1) // another container has not
	}},
	{"waiting for a container that never started returns at once", func(k *task) {
		k.up()
		name := k.create(k.spec("a", "sleep forever"))
		k.must(k.WaitContainer(k.ctx(), name))
		k.wantStatus(name, libpod.Created)
	}},
	{"waiting for a container that has exited returns at once", func(k *task) {
		k.up()
		name := k.run(k.spec("a", "exit 7"))
		k.wantExit(name, 7)
		k.wantExit(name, 7)
	}},
	{"a wait ends when the container is removed", func(k *task) {
		k.up()
		name := k.run(k.spec("a", "print ready -- sleep forever"))
		done := make(chan error, 1)
		go func() { done <- k.WaitContainer(k.t.Context(), name) }()
		k.ready(name)
		k.Remove(k.t, name)
		k.must(<-done)
		k.wantStatus(name, libpod.Absent)
	}},
	{"a canceled wait is Canceled", func(k *task) {
		k.up()
		name := k.run(k.spec("a", "print ready -- sleep forever"))
		ctx, cancel := context.WithCancel(k.ctx())
		done := make(chan error, 1)
		go func() { done <- k.WaitContainer(ctx, name) }()
		k.ready(name)
		cancel()
		k.wantClass(<-done, libpod.Canceled)
		k.wantStatus(name, libpod.Running)
	}},
	{"a container that a user removed is absent and can be made again", func(k *task) {
		k.up()
		s := k.spec("a", "exit 7")
		first := k.ended(k.run(s))
		k.Remove(k.t, s.Name)
		k.wantStatus(s.Name, libpod.Absent)
		if second := k.see(k.create(s)); second.ID == first.ID || second.Status != libpod.Created {
			k.t.Errorf("first %+v, second %+v", first, second)
		}
	}},
	{"the environment is that of the image and ours", func(k *task) {
		k.up()
		s := k.spec("a", "env FROM_IMAGE -- env OURS")
		s.Env = map[string]string{"OURS": "a,b=c d"}
		name := k.run(s)
		k.wantExit(name, 0)
		k.wantTexts(name, libpod.LogOptions{}, "stdout: FROM_IMAGE=yes", "stdout: OURS=a,b=c d")
	}},
	{"our environment wins over that of the image", func(k *task) {
		k.up()
		s := k.spec("a", "env FROM_IMAGE")
		s.Env = map[string]string{"FROM_IMAGE": "no"}
		name := k.run(s)
		k.wantExit(name, 0)
		k.wantTexts(name, libpod.LogOptions{}, "stdout: FROM_IMAGE=no")
	}},
	{"read only init terminal and limits are accepted together", func(k *task) {
		k.up()
		s := k.spec("a", "exit 0")
		s.ReadOnly, s.Init, s.TTY, s.Stdin, s.WorkDir = true, true, true, true, "/not/in/image"
		s.MemoryLimit, s.MemoryReservation, s.CPUShares, s.StopTimeout = 128<<20, 64<<20, 512, 1500*time.Millisecond
		s.ReadOnly = false // a working directory cannot be made in a read-only root
		k.wantExit(k.run(s), 0)
	}},
	{"ten containers at once", func(k *task) {
		k.up()
		var wg sync.WaitGroup
		for i := range 10 {
			s := k.spec(strconv.Itoa(i), "exit "+strconv.Itoa(i))
			wg.Go(func() {
				ctx := k.t.Context()
				if _, err := k.CreateContainer(ctx, s); err != nil {
					k.t.Error(err)
				} else if err := k.StartContainer(ctx, s.Name); err != nil {
					k.t.Error(err)
				} else if err := k.WaitContainer(ctx, s.Name); err != nil {
					k.t.Error(err)
				} else if o, err := k.InspectContainer(ctx, s.Name); err != nil || o.ExitCode != i || o.Status != libpod.Exited {
					k.t.Errorf("%d: %+v, %v", i, o, err)
				}
			})
		}
		wg.Wait()
	}},
}

var stopRules = []rule{
	{"stop with grace lets the program end itself", func(k *task) {
		k.up()
		name := k.ready(k.run(k.spec("a", "term 5 -- print ready -- sleep forever")))
		k.must(k.StopContainer(k.ctx(), name, time.Minute), k.StopContainer(k.ctx(), name, time.Minute))
		k.wantExit(name, 5)
	}},
	{"a program that leaves SIGTERM alone exits with 143", func(k *task) {
		k.up()
		name := k.ready(k.run(k.spec("a", "print ready -- sleep forever")))
		k.must(k.StopContainer(k.ctx(), name, time.Minute))
		k.wantExit(name, 143)
	}},
	{"after the grace a program is killed", func(k *task) {
		k.up()
		name := k.ready(k.run(k.spec("a", "term ignore -- print ready -- sleep forever")))
		k.must(k.StopContainer(k.ctx(), name, time.Second))
		k.wantExit(name, 137)
	}},
	{"stop with grace 0 kills at once", func(k *task) {
		k.up()
		name := k.ready(k.run(k.spec("a", "term 5 -- print ready -- sleep forever")))
		k.must(k.StopContainer(k.ctx(), name, 0))
		k.wantExit(name, 137)
	}},
	{"stopping a container that never started succeeds and leaves it startable", func(k *task) {
		k.up()
		name := k.create(k.spec("a", "exit 7"))
		k.must(k.StopContainer(k.ctx(), name, 0), k.StartContainer(k.ctx(), name))
		k.wantExit(name, 7)
	}},
	{"stopping a container that has exited keeps its exit code", func(k *task) {
		k.up()
		name := k.run(k.spec("a", "exit 7"))
		k.wantExit(name, 7)
		k.must(k.StopContainer(k.ctx(), name, time.Second))
		k.wantExit(name, 7)
	}},
	{"a canceled stop returns at once and kills nothing", func(k *task) {
		k.up()
		name := k.ready(k.run(k.spec("a", "term ignore -- print ready -- sleep forever")))
		ctx, cancel := contextWithin(k, 300*time.Millisecond)
		defer cancel()
		k.wantClass(k.StopContainer(ctx, name, 2*time.Second), libpod.Timeout)
		k.wantStatus(name, libpod.Running)
		k.must(k.StopContainer(k.ctx(), name, time.Second))
		k.wantExit(name, 137)
	}},
	{"a kill overtakes a stop that waits", func(k *task) {
		k.up()
		name := k.ready(k.run(k.spec("a", "term ignore -- print ready -- sleep forever")))
		ctx, cancel := contextWithin(k, 300*time.Millisecond)
		defer cancel()
		k.wantClass(k.StopContainer(ctx, name, 20*time.Second), libpod.Timeout)
		k.must(k.StopContainer(k.ctx(), name, 0))
		k.wantExit(name, 137)
	}},
}
