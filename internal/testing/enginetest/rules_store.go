package enginetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/podtask/podtask/internal/host/libpod"
)

// volume makes a volume of the task and returns its name.
func (k *task) volume() string {
	k.t.Helper()
	name := "pt-vol-" + k.id
	k.must(k.EnsureVolume(k.ctx(), libpod.VolumeSpec{Name: name, TaskID: k.id}))
	k.t.Cleanup(func() { k.clean(func(ctx context.Context) error { return k.RemoveVolumes(ctx, k.id) }) })
	return name
}

// secret makes a secret of the task and returns its name.
func (k *task) secret(value string) string {
	k.t.Helper()
	name := "pt-sec-" + k.id
	k.must(k.EnsureSecret(k.ctx(), name, k.id, func(context.Context) ([]byte, error) { return []byte(value), nil }))
	k.t.Cleanup(func() { k.clean(func(ctx context.Context) error { return k.RemoveSecrets(ctx, name, k.id) }) })
	return name
}

// clean removes the pod and then what it used.
func (k *task) clean(then func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := errors.Join(k.RemovePod(ctx, k.pod.Name, k.id), then(ctx)); err != nil {
		k.t.Errorf("clean up: %v", err)
	}
}

func (k *task) wantVolume(name string, want bool) {
	k.t.Helper()
	if there, err := k.HasVolume(k.ctx(), name); err != nil || there != want {
		k.t.Errorf("volume %s: there is %t (%v), want %t", name, there, err, want)
	}
}

func (k *task) wantSecret(name string, want bool) {
	k.t.Helper()
	if there, err := k.HasSecret(k.ctx(), name); err != nil || there != want {
		k.t.Errorf("secret %s: there is %t (%v), want %t", name, there, err, want)
	}
}

var storeRules = []rule{
	{"a volume is shared by who mounts it and kept when they are gone", func(k *task) {
		name := k.volume()
		k.up()
		a := k.spec("a", "write /v/f hello")
		a.Volumes = []libpod.NamedVolume{{Name: name, Path: "/v"}}
		k.wantExit(k.run(a), 0)
		k.must(k.RemovePod(k.ctx(), k.pod.Name, k.id))
		k.wantVolume(name, true)
		k.up()
		b := k.spec("b", "cat /w/f")
		b.Volumes = []libpod.NamedVolume{{Name: name, Path: "/w"}}
		k.run(b)
		k.wantExit(b.Name, 0)
		k.wantTexts(b.Name, libpod.LogOptions{}, "stdout: hello")
	}},
	{"a volume in memory keeps its content between containers only if it is held", func(k *task) {
		k.up()
		for _, held := range []bool{false, true} {
			name := fmt.Sprintf("pt-mem-%s-%t", k.id, held)
			k.must(k.EnsureVolume(k.ctx(), libpod.VolumeSpec{Name: name, TaskID: k.id, Options: map[string]string{"type": "tmpfs", "device": "tmpfs", "o": "mode=0777,size=65536"}}))
			k.t.Cleanup(func() { k.clean(func(ctx context.Context) error { return k.RemoveVolumes(ctx, k.id) }) })
			if held {
				k.must(k.HoldVolume(k.ctx(), name), k.HoldVolume(k.ctx(), name))
			}
			a := k.spec(fmt.Sprintf("a%t", held), "write /v/f hello")
			a.Volumes = []libpod.NamedVolume{{Name: name, Path: "/v"}}
			k.wantExit(k.run(a), 0)
			k.must(k.RemoveContainer(k.ctx(), a.Name, k.id)) // which unmounts its volumes, if nothing has before
			b := k.spec(fmt.Sprintf("b%t", held), "cat /v/f")
			b.Volumes = a.Volumes
			want := 1
			if held {
				want = 0
			}
			k.wantExit(k.run(b), want)
		}
		k.must(k.RemovePod(k.ctx(), k.pod.Name, k.id), k.RemoveVolumes(k.ctx(), k.id)) // although it is mounted
		k.wantVolume(fmt.Sprintf("pt-mem-%s-%t", k.id, true), false)
		k.wantClass(k.HoldVolume(k.ctx(), "pt-mem-none"), libpod.NotFound)
	}},
	{"new files in a volume belong to its group", func(k *task) {
		name := fmt.Sprintf("pt-group-%s", k.id)
		k.must(k.EnsureVolume(k.ctx(), libpod.VolumeSpec{Name: name, TaskID: k.id, Options: map[string]string{"o": "uid=0,gid=0"}, Mode: 0o777}))
		k.t.Cleanup(func() { k.clean(func(ctx context.Context) error { return k.RemoveVolumes(ctx, k.id) }) })
		k.must(k.KeepGroup(k.ctx(), name), k.KeepGroup(k.ctx(), name))
		k.wantClass(k.KeepGroup(k.ctx(), "pt-group-none"), libpod.NotFound)
	}},
	{"a container that takes the volumes of another has those of its image too", func(k *task) {
		name := k.volume()
		k.up()
		a := k.spec("a", "write /v/f hello -- write "+VolumePath+"/f there")
		a.Volumes = []libpod.NamedVolume{{Name: name, Path: "/v"}}
		k.wantExit(k.run(a), 0)
		b := k.spec("b", "cat /v/f -- cat "+VolumePath+"/f")
		b.VolumesFrom = []libpod.VolumesFrom{{Container: a.Name}}
		k.wantExit(k.run(b), 0)
		k.wantTexts(b.Name, libpod.LogOptions{}, "stdout: hello", "stdout: there")
		c := k.spec("c", "write /v/f again")
		c.VolumesFrom = []libpod.VolumesFrom{{Container: a.Name, ReadOnly: true}}
		k.wantExit(k.run(c), 1)
		d := k.spec("d", "exit 0")
		d.VolumesFrom = []libpod.VolumesFrom{{Container: "no-such-" + k.id}}
		if _, err := k.CreateContainer(k.ctx(), d); err == nil {
			k.t.Error("a container takes the volumes of one that does not exist")
		}
	}},
	{"a volume that is mounted read only cannot be written", func(k *task) {
		name := k.volume()
		k.up()
		a := k.spec("a", "write /v/f hello")
		a.Volumes = []libpod.NamedVolume{{Name: name, Path: "/v", ReadOnly: true}}
		k.wantExit(k.run(a), 1)
	}},
	{"EnsureVolume twice is once and refuses the volume of another task", func(k *task) {
		name := k.volume()
		k.must(k.EnsureVolume(k.ctx(), libpod.VolumeSpec{Name: name, TaskID: k.id}))
		err := k.EnsureVolume(k.ctx(), libpod.VolumeSpec{Name: name, TaskID: "another"})
		k.wantClass(err, libpod.Conflict)
		k.wantNamed(err, k.id)
		k.must(k.EnsureVolume(k.ctx(), libpod.VolumeSpec{Name: name})) // as a shared one it will do
	}},
	{"RemoveVolumes removes those of the task and no other", func(k *task) {
		name := k.volume()
		k.must(k.RemoveVolumes(k.ctx(), "another"))
		k.wantVolume(name, true)
		k.must(k.RemoveVolumes(k.ctx(), k.id), k.RemoveVolumes(k.ctx(), k.id))
		k.wantVolume(name, false)
	}},
	{"RemoveVolume removes one of the task and no other", func(k *task) {
		name := k.volume()
		other := name + "-b" // Podman finds it by the beginning of its name too
		k.must(k.EnsureVolume(k.ctx(), libpod.VolumeSpec{Name: other, TaskID: k.id}))
		k.must(k.RemoveVolume(k.ctx(), name, "another"))
		k.wantVolume(name, true)
		k.must(k.RemoveVolume(k.ctx(), name, k.id), k.RemoveVolume(k.ctx(), name, k.id))
		k.wantVolume(name, false)
		k.wantVolume(other, true)
	}},
	{"a volume in use is not removed for now", func(k *task) {
		name := k.volume()
		k.up()
		a := k.spec("a", "sleep forever")
		a.Volumes = []libpod.NamedVolume{{Name: name, Path: "/v"}}
		k.create(a)
		for _, err := range []error{k.RemoveVolumes(k.ctx(), k.id), k.RemoveVolume(k.ctx(), name, k.id)} {
			if !errors.Is(err, libpod.Temporary) {
				k.t.Errorf("got %v, want class Temporary", err)
			}
		}
		k.wantVolume(name, true)
	}},
	{"a secret becomes a variable at every start", func(k *task) {
		name := k.secret("top secret")
		k.up()
		a := k.spec("a", "env TOKEN")
		a.SecretEnv = map[string]string{"TOKEN": name}
		k.wantExit(k.run(a), 0)
		k.must(k.StartContainer(k.ctx(), a.Name))
		k.wantExit(a.Name, 0)
		k.wantTexts(a.Name, libpod.LogOptions{}, "stdout: TOKEN=top secret", "stdout: TOKEN=top secret")
	}},
	{"a secret becomes a file", func(k *task) {
		name := k.secret("top secret")
		k.up()
		a := k.spec("a", "cat /run/app/token")
		a.SecretFiles = []libpod.SecretFile{{Secret: name, Path: "/run/app/token", Mode: 0o400}}
		k.wantExit(k.run(a), 0)
		k.wantTexts(a.Name, libpod.LogOptions{}, "stdout: top secret")
	}},
	{"a container whose secret is gone does not start", func(k *task) {
		name := k.secret("top secret")
		k.up()
		a := k.spec("a", "env TOKEN")
		a.SecretEnv = map[string]string{"TOKEN": name}
		k.create(a)
		k.must(k.RemoveSecrets(k.ctx(), name, k.id))
		k.wantClass(k.StartContainer(k.ctx(), a.Name), libpod.NotFound)
	}},
	{"EnsureSecret reads once and refuses the secret of another task", func(k *task) {
		name := k.secret("first")
		read := func(context.Context) ([]byte, error) { k.t.Error("read again"); return []byte("second"), nil }
		k.must(k.EnsureSecret(k.ctx(), name, k.id, read))
		k.wantClass(k.EnsureSecret(k.ctx(), name, "another", read), libpod.Conflict)
	}},
	{"an empty secret is refused", func(k *task) {
		name := "pt-empty-" + k.id
		err := k.EnsureSecret(k.ctx(), name, k.id, func(context.Context) ([]byte, error) { return nil, nil })
		k.wantClass(err, libpod.InvalidSpec)
		k.wantSecret(name, false)
	}},
	{"RemoveSecrets removes those of the task and no other", func(k *task) {
		name := k.secret("top secret")
		k.must(k.RemoveSecrets(k.ctx(), name, "another"), k.RemoveSecrets(k.ctx(), name+"x", k.id))
		k.wantSecret(name, true)
		k.must(k.RemoveSecrets(k.ctx(), name, k.id), k.RemoveSecrets(k.ctx(), name, k.id))
		k.wantSecret(name, false)
	}},
	{"a container whose log driver is none has no logs", func(k *task) {
		k.up()
		a := k.spec("a", "print hello")
		a.Log.Driver = "none"
		k.wantExit(k.run(a), 0)
		k.wantClass(k.Logs(k.ctx(), a.Name, libpod.LogOptions{}, func(libpod.LogLine) { k.t.Error("there is a line") }), libpod.NotFound)
	}},
	{"a container port that is asked for twice gets the two host ports that were chosen", func(k *task) {
		k.pod.Network = ""
		k.pod.Ports = []libpod.Port{{HostIP: "127.0.0.1", ContainerPort: 80}, {HostIP: "127.0.0.1", ContainerPort: 80}}
		next := uint16(0)
		k.pod.Choose = func(ports []libpod.Port) ([]libpod.Port, error) {
			chosen := append([]libpod.Port(nil), ports...)
			for i := range chosen {
				for chosen[i].HostPort = k.FreePort(k.t); chosen[i].HostPort == next; {
					chosen[i].HostPort = k.FreePort(k.t)
				}
				next = chosen[i].HostPort
			}
			return chosen, nil
		}
		first := k.up().Ports
		if len(first) != 2 || first[0].HostPort == first[1].HostPort || first[0].ContainerPort != 80 || first[1].ContainerPort != 80 {
			k.t.Fatalf("ports %v", first)
		}
		// What Choose says another time does not matter: the pod is there.
		if again := k.up().Ports; len(again) != 2 || again[0] != first[0] || again[1] != first[1] {
			k.t.Errorf("first %v, then %v", first, again)
		}
	}},
}
