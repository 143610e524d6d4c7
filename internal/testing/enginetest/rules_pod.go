package enginetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/host/libpod"
)

// apart makes a pod without an infra container.
func apart(k *task) {
	k.t.Helper()
	k.pod.NoInfra = true
	createPod(k)
}

// lone is a container with a network of its own.
func lone(k *task, steps string, ports ...libpod.Port) libpod.ContainerSpec {
	s := k.spec("a", steps)
	s.Own = &libpod.OwnNetwork{Ports: ports}
	return s
}

var podRules = []rule{
	{"creating and starting a pod twice returns the same pod with its infra process", func(k *task) {
		first, second := k.up(), k.up()
		if first.ID == "" || first.InfraPID == 0 || first.ID != second.ID || first.InfraID != second.InfraID || first.InfraPID != second.InfraPID {
			k.t.Errorf("first %+v, second %+v", first, second)
		}
	}},
	{"the infra container has the name of the pod with infra and the label of the task", func(k *task) {
		pod := k.up()
		if o := k.wantStatus(k.infra(), libpod.Running); o.ID != pod.InfraID || o.TaskID != k.id || o.Foreign {
			k.t.Errorf("pod %+v, infra %+v", pod, o)
		}
	}},
	{"StartPod restarts the infra container of a stopped pod", func(k *task) {
		first := k.up()
		k.must(k.StopPod(k.ctx(), k.pod.Name, k.id, 10*time.Second))
		k.wantStatus(k.infra(), libpod.Exited)
		if second := k.up(); second.ID != first.ID || second.InfraPID == 0 {
			k.t.Errorf("first %+v, second %+v", first, second)
		}
	}},
	{"StartPod restarts an infra container that was killed", func(k *task) {
		first := k.up()
		k.Kill(k.t, k.infra())
		k.must(k.WaitContainer(k.ctx(), k.infra()))
		if second := k.up(); second.ID != first.ID || second.InfraPID == 0 {
			k.t.Errorf("first %+v, second %+v", first, second)
		}
	}},
	{"a created pod has its name, does not run and can be started", func(k *task) {
		createPod(k)
		createPod(k)
		k.wantStatus(k.infra(), libpod.Created)
		other := k.pod
		other.Hostname = "elsewhere"
		_, err := k.CreatePod(k.ctx(), other)
		k.wantClass(err, libpod.Conflict)
		if pod := k.up(); pod.InfraPID == 0 {
			k.t.Errorf("%+v", pod)
		}
	}},
	{"containers can be created in a pod that was not started, and run in it later", func(k *task) {
		made := createPod(k)
		name := k.create(k.spec("a", "print ready -- sleep forever"))
		k.wantStatus(k.infra(), libpod.Created)
		if pod := k.up(); pod.ID != made {
			k.t.Errorf("created %s, started %+v", made, pod)
		}
		k.must(k.StartContainer(k.ctx(), name))
		k.wantStatus(k.ready(name), libpod.Running)
	}},
	{"a pod without an infra container is made once, holds containers that publish ports, and is removed with them", func(k *task) {
		apart(k)
		port := libpod.Port{HostIP: "127.0.0.1", HostPort: k.FreePort(k.t), ContainerPort: 80, Protocol: "tcp"}
		name := k.run(lone(k, "print ready -- sleep forever", port))
		if o := k.see(k.ready(name)); o.Status != libpod.Running || !slices.Equal(o.Ports, []libpod.Port{port}) {
			k.t.Errorf("%+v", o)
		}
		k.wantStatus(k.infra(), libpod.Absent)
		if first, second := createPod(k), createPod(k); first != second {
			k.t.Errorf("pod %s became %s", first, second)
		}
		k.must(k.StopPod(k.ctx(), k.pod.Name, k.id, 10*time.Second))
		k.wantStatus(name, libpod.Exited)
		k.wantClass(k.RemovePod(k.ctx(), k.pod.Name, "another"), libpod.Conflict)
		k.must(k.RemovePod(k.ctx(), k.pod.Name, k.id))
		k.wantStatus(name, libpod.Absent)
	}},
	{"a pod without an infra container and without containers is found, and removed by its task only", func(k *task) {
		apart(k)
		other := k.pod
		other.TaskID = "another"
		_, err := k.CreatePod(k.ctx(), other)
		k.wantClass(err, libpod.Conflict)
		k.wantClass(k.RemovePod(k.ctx(), k.pod.Name, "another"), libpod.Conflict)
		k.must(k.RemovePod(k.ctx(), k.pod.Name, k.id), k.RemovePod(k.ctx(), k.pod.Name, k.id))
	}},
	{"a container that has its own network has a process when it is set up and publishes its ports in each run", func(k *task) {
		apart(k)
		port := libpod.Port{HostIP: "127.0.0.1", HostPort: k.FreePort(k.t), ContainerPort: 80, Protocol: "tcp"}
		name := k.create(lone(k, "sleep forever", port))
		for range 2 {
			if o, err := k.InitContainer(k.ctx(), name, libpod.OwnNetwork{}); err != nil || o.PID == 0 || o.Status != libpod.Created {
				k.t.Fatalf("%+v, %v", o, err)
			}
			k.must(k.StartContainer(k.ctx(), name))
			k.wantStatus(name, libpod.Running)
			// Podman 4 cleans up after a run in a process of conmon, which must not meet the next one.
			k.must(k.StopContainer(k.ctx(), name, 0), k.WaitContainer(k.ctx(), name))
			k.wantStatus(name, libpod.Exited)
		}
	}},
	{"a container that has its own network does not start where its port is taken", func(k *task) {
		apart(k)
		port := libpod.Port{HostIP: "127.0.0.1", HostPort: k.FreePort(k.t), ContainerPort: 80, Protocol: "tcp"}
		k.run(lone(k, "sleep forever", port))
		second := lone(k, "sleep forever", port)
		second.Name += "2"
		k.wantClass(k.StartContainer(k.ctx(), k.create(second)), libpod.PortInUse)
	}},
	{"a pod that does not exist cannot be started for now", func(k *task) {
		_, err := k.StartPod(k.ctx(), k.pod.Name, k.id)
		k.wantClass(err, libpod.Temporary)
	}},
	{"a pod that was created and never started can be removed", func(k *task) {
		createPod(k)
		k.must(k.RemovePod(k.ctx(), k.pod.Name, k.id))
	}},
	{"CreatePod refuses a pod of the same name with another specification", func(k *task) {
		k.up()
		other := k.pod
		other.Hostname = "elsewhere"
		_, err := EnsurePod(k.ctx(), k, other)
		k.wantClass(err, libpod.Conflict)
	}},
	{"CreatePod refuses the pod of another task and names its owner", func(k *task) {
		k.up()
		other := k.pod
		other.TaskID = "another"
		_, err := EnsurePod(k.ctx(), k, other)
		k.wantClass(err, libpod.Conflict)
		k.wantNamed(err, k.id)
	}},
	{"a pod without a task is refused", func(k *task) {
		other := k.pod
		other.TaskID = ""
		_, err := EnsurePod(k.ctx(), k, other)
		k.wantClass(err, libpod.InvalidSpec)
	}},
	{"StopPod and RemovePod leave the pod of another task alone", func(k *task) {
		k.up()
		k.wantClass(k.StopPod(k.ctx(), k.pod.Name, "another", 10*time.Second), libpod.Conflict)
		k.wantClass(k.RemovePod(k.ctx(), k.pod.Name, "another"), libpod.Conflict)
		k.wantStatus(k.infra(), libpod.Running)
	}},
	{"StopPod stops what of the task still runs", func(k *task) {
		k.up()
		running, waiting := k.run(k.spec("a", "sleep forever")), k.create(k.spec("b", "sleep forever"))
		k.must(k.StopPod(k.ctx(), k.pod.Name, k.id, 10*time.Second), k.StopPod(k.ctx(), k.pod.Name, k.id, 10*time.Second))
		k.wantStatus(k.infra(), libpod.Exited)
		k.wantStatus(running, libpod.Exited)
		k.wantStatus(waiting, libpod.Created)
	}},
	{"starting a member starts the infra container of a stopped pod", func(k *task) {
		k.up()
		name := k.create(k.spec("a", "sleep forever"))
		k.must(k.StopPod(k.ctx(), k.pod.Name, k.id, 10*time.Second), k.StartContainer(k.ctx(), name))
		k.wantStatus(k.infra(), libpod.Running)
	}},
	{"List finds the pod with its labels and the members with their state", func(k *task) {
		k.pod.Labels = map[string]string{"colour": "red"}
		pod := k.up()
		name := k.run(k.spec("a", "sleep forever"))
		found, err := k.List(k.ctx())
		k.must(err)
		seen := map[string]string{}
		for _, f := range found {
			if f.TaskID != k.id {
				continue
			}
			text := string(f.Kind)
			switch f.Kind {
			case libpod.KindPod:
				text += " " + f.Labels["colour"] + " " + f.Labels[libpod.TaskLabel]
			case libpod.KindContainer, libpod.KindInfra:
				text += fmt.Sprint(" ", f.Status, " ", f.PodID == pod.ID)
			}
			seen[f.Name] = text
		}
		want := map[string]string{
			k.pod.Name: "pod red " + k.id,
			k.infra():  fmt.Sprint("infra ", libpod.Running, " true"),
			name:       fmt.Sprint("container ", libpod.Running, " true"),
		}
		if !maps.Equal(seen, want) {
			k.t.Errorf("%v, want %v", seen, want)
		}
	}},
	{"host port 0 is chosen by Podman and reported by container port", func(k *task) {
		k.pod.Network = ""
		k.pod.Ports = []libpod.Port{{HostIP: "127.0.0.1", ContainerPort: 81, Protocol: "udp"}, {HostIP: "127.0.0.1", ContainerPort: 80}}
		p := k.up().Ports
		if len(p) != 2 || p[0].ContainerPort != 80 || p[0].HostPort == 0 || p[0].Protocol != "tcp" || p[1].HostPort == 0 || p[1].Protocol != "udp" {
			k.t.Errorf("ports %v", p)
		}
	}},
	{"a chosen host port stays when the pod is started again", func(k *task) {
		k.pod.Network = ""
		k.pod.Ports = []libpod.Port{{HostIP: "127.0.0.1", ContainerPort: 80}}
		first := k.up()
		k.must(k.StopPod(k.ctx(), k.pod.Name, k.id, 10*time.Second))
		second, err := EnsurePod(k.ctx(), k, k.pod)
		if errors.Is(err, libpod.PortInUse) {
			return // it wants the same port, which a connection of another program has meanwhile
		}
		k.must(err)
		if first.Ports[0] != second.Ports[0] {
			k.t.Errorf("first %v, second %v", first.Ports, second.Ports)
		}
	}},
	{"a taken host port is PortInUse and not Temporary", func(k *task) {
		k.pod.Network = ""
		k.pod.Ports = []libpod.Port{{HostIP: "127.0.0.1", HostPort: k.TakePort(k.t), ContainerPort: 80}}
		_, err := EnsurePod(k.ctx(), k, k.pod)
		k.wantClass(err, libpod.PortInUse)
	}},
	{"an unknown network is an error and leaves nothing that RemovePod cannot clear", func(k *task) {
		k.pod.Network = "no-such-network-" + k.id
		if _, err := EnsurePod(k.ctx(), k, k.pod); err == nil {
			k.t.Error("no error")
		}
	}},
	{"removing stopping and waiting for what does not exist succeeds", func(k *task) {
		ctx := k.ctx()
		k.must(k.StopPod(ctx, k.pod.Name, k.id, 10*time.Second), k.RemovePod(ctx, k.pod.Name, k.id), k.StopContainer(ctx, k.absent(), 0), k.WaitContainer(ctx, k.absent()))
		if o := k.see(k.absent()); o.Status != libpod.Absent || o.ID != "" {
			k.t.Errorf("observed %+v", o)
		}
	}},
	{"RemovePod kills what runs and leaves neither container nor volume", func(k *task) {
		k.up()
		running := k.ready(k.run(k.spec("a", "term ignore -- print ready -- sleep forever")))
		name := k.create(k.spec("b", "sleep forever"))
		volume := k.Volume(k.t, name)
		k.must(k.RemovePod(k.ctx(), k.pod.Name, k.id))
		for _, gone := range []string{running, name, k.infra()} {
			k.wantStatus(gone, libpod.Absent)
		}
		k.wantVolume(volume, false)
	}},
	{"RemovePod spares what the user put into the pod and names it", func(k *task) {
		k.up()
		ours := k.create(k.spec("a", "sleep forever"))
		theirs := "foreign-" + k.id
		k.Foreign(k.t, theirs, k.pod.Name)
		err := k.RemovePod(k.ctx(), k.pod.Name, k.id)
		k.wantClass(err, libpod.Conflict)
		k.wantNamed(err, theirs)
		k.wantStatus(theirs, libpod.Created)
		k.wantStatus(ours, libpod.Absent)
		k.Remove(k.t, theirs)
	}},
	{"a removed pod can be made again", func(k *task) {
		first := k.up()
		k.must(k.RemovePod(k.ctx(), k.pod.Name, k.id))
		if second := k.up(); second.ID == first.ID {
			k.t.Error("it is the same pod")
		}
	}},
	{"what was canceled before the call never reaches Podman", func(k *task) {
		k.up()
		s := k.spec("a", "sleep forever")
		_, err := k.CreateContainer(k.canceled(), s)
		k.wantClass(err, libpod.Canceled)
		k.wantStatus(s.Name, libpod.Absent)
	}},
	{"a deadline that has passed is Timeout", func(k *task) {
		k.up()
		name := k.run(k.spec("a", "sleep forever"))
		ctx, cancel := contextWithin(k, 300*time.Millisecond)
		defer cancel()
		k.wantClass(k.WaitContainer(ctx, name), libpod.Timeout)
		_, err := k.InspectContainer(ctx, name)
		k.wantClass(err, libpod.Timeout)
	}},
	{"of two that make a pod at once one may fail for now and both can be repeated", func(k *task) {
		// A pod can be seen before its infra container is there.
		var wg sync.WaitGroup
		var errs [2]error
		for i := range errs {
			wg.Go(func() { _, errs[i] = EnsurePod(k.t.Context(), k, k.pod) })
		}
		wg.Wait()
		for _, err := range errs {
			if err != nil {
				k.wantClass(err, libpod.Temporary)
			}
		}
		first, second := k.up(), k.up()
		if first.ID != second.ID || first.InfraPID != second.InfraPID || first.InfraPID == 0 {
			k.t.Errorf("first %+v, second %+v", first, second)
		}
	}},
	{"the host is described", func(k *task) {
		h, err := k.Host(k.ctx())
		k.must(err)
		if !h.Rootless || h.CgroupManager == "" || h.CgroupVersion == "" || h.Runtime == "" || h.NetworkBackend == "" || h.EventLogger == "" ||
			h.CPUs == 0 || h.Memory == 0 || h.Socket == "" || h.Version == "" {
			k.t.Errorf("%+v", h)
		}
	}},
}
