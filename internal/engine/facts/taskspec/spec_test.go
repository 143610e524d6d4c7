package taskspec

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

const testID = "0123456789abcdef0123456789abcdef"

func stateOf(t taskdef.Task) lifecycle.State {
	if t.Family == "" {
		t.Family = "shop"
	}
	for i := range t.Containers {
		if t.Containers[i].Name == "" {
			t.Containers[i].Name = string(rune('a' + i))
		}
	}
	return lifecycle.State{ID: testID, Task: t}
}

func size(n int64) *int64 { return &n }

func TestContainerSpecOf(t *testing.T) {
	t.Parallel()
	type task = taskdef.Task
	type container = taskdef.Container
	one := func(c container) task { return task{Containers: []container{c}} }
	for _, c := range []struct {
		rule string
		in   task
		want libpod.ContainerSpec // what differs from that of an empty container
	}{
		{"swap counts together with memory", one(container{Memory: 100, Linux: taskdef.Linux{MaxSwap: size(50)}}), libpod.ContainerSpec{MemoryLimit: 100, MemorySwap: 150}},
		{"no swap", one(container{Memory: 100, Linux: taskdef.Linux{MaxSwap: size(0)}}), libpod.ContainerSpec{MemoryLimit: 100, MemorySwap: 100}},
		{"a limit of -1 is none", one(container{Linux: taskdef.Linux{Ulimits: []taskdef.Ulimit{{Name: "nproc", Soft: 5, Hard: -1}}}}),
			libpod.ContainerSpec{Rlimits: []libpod.Rlimit{{Name: "nproc", Soft: 5, Hard: libpod.Unlimited}}}},
		{"a share of 1 is 2", one(container{CPU: 1}), libpod.ContainerSpec{CPUShares: 2}},
		{"a share above the kernel's range is its end", one(container{CPU: 1 << 40}), libpod.ContainerSpec{CPUShares: 262144}},
		{"no share, where the host cannot apply one", one(container{}), libpod.ContainerSpec{}},
		{"permissions are letters", one(container{Linux: taskdef.Linux{Devices: []taskdef.Device{{HostPath: "/dev/a", ContainerPath: "/dev/b", Permissions: []string{"read", "mknod"}}}}}),
			libpod.ContainerSpec{Devices: []libpod.Device{{HostPath: "/dev/a", Path: "/dev/b", Permissions: "rm"}}}},
		{"a container without network has its loopback", one(container{Net: taskdef.ContainerNetwork{Disabled: true}}), libpod.ContainerSpec{Network: "none"}},
		{"in the host's network a container has hosts of its own",
			task{Network: taskdef.NetworkHost, Containers: []container{{Net: taskdef.ContainerNetwork{ExtraHosts: []taskdef.Host{{Name: "h", Address: "::1"}}}}}},
			libpod.ContainerSpec{Network: "host", Hosts: []string{"h:::1"}}},
		{"in the host's network without them it is the pod's", task{Network: taskdef.NetworkHost, Containers: []container{{}}}, libpod.ContainerSpec{}},
		{"shared memory is the container's", one(container{Linux: taskdef.Linux{ShmSize: 7}}), libpod.ContainerSpec{ShmSize: 7}},
		{"unless the task shares it", task{IPCMode: taskdef.IPCTask, Containers: []container{{Linux: taskdef.Linux{ShmSize: 7}}}}, libpod.ContainerSpec{}},
		{"or it is the host's", task{IPCMode: taskdef.IPCHost, Containers: []container{{Linux: taskdef.Linux{ShmSize: 7}}}}, libpod.ContainerSpec{IPCHost: true}},
		{"an init of its own", one(container{Init: true}), libpod.ContainerSpec{Init: true}},
		{"a shared PID namespace has one", task{PIDMode: taskdef.PIDTask, Containers: []container{{Init: true}}}, libpod.ContainerSpec{}},
		{"processes of the host", task{PIDMode: taskdef.PIDHost, Containers: []container{{}}}, libpod.ContainerSpec{PIDHost: true}},
		{"json-file is k8s-file", one(container{Log: &taskdef.LogConfiguration{Driver: "json-file", Options: map[string]string{"max-size": "1k"}}}),
			libpod.ContainerSpec{Log: libpod.Log{Driver: "k8s-file", MaxSize: 1024}}},
		{"what cannot be sent away is kept", one(container{Log: &taskdef.LogConfiguration{Driver: "awslogs"}}), libpod.ContainerSpec{Log: libpod.Log{Driver: "k8s-file", MaxSize: unlimitedLog}}},
		{"no logs", one(container{Log: &taskdef.LogConfiguration{Driver: "none"}}), libpod.ContainerSpec{Log: libpod.Log{Driver: "none"}}},
		{"mounts, with those of others",
			task{
				Volumes: []taskdef.Volume{{Name: "v", Kind: taskdef.VolumeTask}, {Name: "s", Kind: taskdef.VolumeShared}, {Name: "h", Kind: taskdef.VolumeBind, HostPath: "/h", Relabel: "private"}},
				Containers: []container{
					{Mounts: []taskdef.Mount{{Volume: "h", Path: "/x"}}, VolumesFrom: []taskdef.VolumesFrom{{Container: 1, ReadOnly: true}}},
					{Mounts: []taskdef.Mount{{Volume: "v", Path: "/v"}, {Volume: "s", Path: "/s"}}},
				},
			},
			libpod.ContainerSpec{
				Binds:   []libpod.Bind{{HostPath: "/h", Path: "/x", Relabel: "Z"}},
				Volumes: []libpod.NamedVolume{{Name: "podtask-shop-0123456789ab-0-v", Path: "/v", ReadOnly: true}, {Name: "s", Path: "/s", ReadOnly: true}},
				// Those of its image, too.
				VolumesFrom: []libpod.VolumesFrom{{Container: "podtask-shop-0123456789ab-b", ReadOnly: true}},
			}},
		{"a secret of the user's is used as it is, others get a name",
			one(container{
				Secrets: []taskdef.Secret{
					{Name: "A", SecretValue: taskdef.SecretValue{Source: "podman:mine"}}, {Name: "B", SecretValue: taskdef.SecretValue{Source: "podman:mine", JSONKey: "k"}},
				},
				Extensions: taskdef.ContainerExtensions{SecretFiles: []taskdef.SecretFile{{Path: "/f", Mode: 0o400, UID: 3, SecretValue: taskdef.SecretValue{Source: "file:/x"}}}},
			}),
			libpod.ContainerSpec{
				SecretEnv:   map[string]string{"A": "mine", "B": "podtask-" + testID + "-c0-env1"},
				SecretFiles: []libpod.SecretFile{{Secret: "podtask-" + testID + "-c0-file0", Path: "/f", Mode: 0o400, UID: 3}},
			}},
	} {
		s := stateOf(c.in)
		got, empty := Container(s, 0, "i"), Container(stateOf(task{Containers: []container{{}}}), 0, "i")
		if diff := cmp.Diff(changes(t, empty, got), changes(t, libpod.ContainerSpec{}, c.want)); diff != "" {
			t.Errorf("%s (-got +want):\n%s", c.rule, diff)
		}
	}
}

// changes are the members in which b differs from a.
func changes(t *testing.T, a, b libpod.ContainerSpec) map[string]any {
	t.Helper()
	from, to := members(t, a), members(t, b)
	for name, value := range from {
		if cmp.Equal(value, to[name]) {
			delete(to, name)
		}
	}
	return to
}

func members(t *testing.T, v any) (m map[string]any) {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestPodSpecOf(t *testing.T) {
	t.Parallel()
	s := stateOf(taskdef.Task{
		IPCMode: taskdef.IPCTask, PIDMode: taskdef.PIDTask,
		Containers: []taskdef.Container{
			{Linux: taskdef.Linux{ShmSize: 3}, Net: taskdef.ContainerNetwork{
				DNSSearch: []string{"example.org"}, ExtraHosts: []taskdef.Host{{Name: "x", Address: "192.0.2.1"}},
			}},
			{Linux: taskdef.Linux{ShmSize: 5}, Net: taskdef.ContainerNetwork{ExtraHosts: []taskdef.Host{{Name: "x", Address: "192.0.2.1"}}}},
		},
	})
	got := Pod(s)
	got.Labels = nil
	want := libpod.PodSpec{
		Name: "podtask-shop-0123456789ab", TaskID: testID, Hostname: "0123456789ab", ShareIPC: true, SharePID: true, ShmSize: 5,
		Hosts: []string{"x:192.0.2.1"}, DNSSearch: []string{"example.org"},
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("-got +want:\n%s", diff)
	}
}

// Containers know the slice, and whether their pod has a cgroup in it; one without an infra container has none.
func TestContainersOfAPodWithoutInfraAreInTheSlice(t *testing.T) {
	t.Parallel()
	s := stateOf(taskdef.Task{Containers: []taskdef.Container{{Name: "a"}}})
	s.Sandbox.Slice = "podtask" + testID + ".slice"
	for _, noInfra := range []bool{false, true} {
		s.Sandbox.NoInfra = noInfra
		if got := Container(s, 0, "i"); got.CgroupParent != s.Sandbox.Slice || got.InPodCgroup == noInfra {
			t.Errorf("without infra container: %v, cgroup parent %q, in the pod's: %v", noInfra, got.CgroupParent, got.InPodCgroup)
		}
	}
}

// Row 13.
func TestBridgedContainersHaveNetworksAndPortsOfTheirOwn(t *testing.T) {
	t.Parallel()
	web := []taskdef.Port{{ContainerPort: 80, Protocol: "tcp"}}
	s := stateOf(taskdef.Task{Network: taskdef.NetworkBridge, Containers: []taskdef.Container{
		{Name: "a", Ports: web, Net: taskdef.ContainerNetwork{
			Links: []taskdef.Link{{Container: 1, Alias: "db"}}, DNSServers: []string{"192.0.2.53"}, ExtraHosts: []taskdef.Host{{Name: "x", Address: "192.0.2.1"}},
		}},
		{Name: "b", Ports: web, Net: taskdef.ContainerNetwork{ExtraHosts: []taskdef.Host{{Name: "x", Address: "192.0.2.2"}}}},
		{Name: "c", Net: taskdef.ContainerNetwork{Disabled: true}},
	}})
	pod := Pod(s)
	if !pod.OwnNetworks || len(pod.Ports) > 0 || len(pod.Hosts) > 0 || len(pod.DNSServers) > 0 {
		t.Errorf("pod %+v", pod)
	}
	ports, members := []libpod.Port{{ContainerPort: 80, Protocol: "tcp"}}, [][]string{{"a"}, {"b", "db"}, nil}
	for i, want := range []libpod.ContainerSpec{
		{Own: &libpod.OwnNetwork{Network: pod.Name, Aliases: []string{"a"}, Members: members, Ports: ports}, Hosts: []string{"x:192.0.2.1"}, DNSServers: []string{"192.0.2.53"}},
		{Own: &libpod.OwnNetwork{Network: pod.Name, Aliases: []string{"b", "db"}, Members: members, Place: 1, Ports: ports}, Hosts: []string{"x:192.0.2.2"}},
		{Network: "none"},
	} {
		got := Container(s, i, "i")
		got = libpod.ContainerSpec{Own: got.Own, Network: got.Network, Hosts: got.Hosts, DNSServers: got.DNSServers}
		if diff := cmp.Diff(got, want); diff != "" {
			t.Errorf("container %d (-got +want):\n%s", i, diff)
		}
	}
	s.Task.Containers = s.Task.Containers[1:]
	if spec := Pod(s); spec.OwnNetworks || len(spec.Ports) != 1 {
		t.Errorf("a container that is alone: %+v", spec)
	}
}

// A network of the user's is joined by its name: its addresses and names are not the
// task's to give.
func TestTaskThatJoinsANetwork(t *testing.T) {
	t.Parallel()
	for _, mode := range []taskdef.NetworkMode{taskdef.NetworkBridge, taskdef.NetworkAWSVPC} {
		s := stateOf(taskdef.Task{Network: mode, Extensions: taskdef.TaskExtensions{Network: "front"}, Containers: []taskdef.Container{
			{Name: "a"}, {Name: "b", Net: taskdef.ContainerNetwork{Links: []taskdef.Link{{Container: 0, Alias: "db"}}}},
		}})
		if OwnsNetwork(s) {
			t.Errorf("%s: the user's network is the task's", mode)
		}
		pod, a := Pod(s), Container(s, 0, "i")
		if mode == taskdef.NetworkAWSVPC {
			if want := []string{"a", "db", "b"}; pod.Network != "front" || !slices.Equal(pod.Aliases, want) || a.Own != nil {
				t.Errorf("pod on %s as %v, container %+v", pod.Network, pod.Aliases, a.Own)
			}
			continue
		}
		if diff := cmp.Diff(a.Own, &libpod.OwnNetwork{Network: "front", Aliases: []string{"a", "db"}}); diff != "" || !pod.OwnNetworks {
			t.Errorf("pod %+v, container (-got +want):\n%s", pod, diff)
		}
	}
}

func TestSpecFollowsTheDefinition(t *testing.T) {
	t.Parallel()
	task := taskdef.Task{Family: "web", Containers: []taskdef.Container{{
		Name: "a", Image: "example.com/app:1", Memory: 64 << 20, CPU: 1, Labels: map[string]string{"podtask.task-id": "forged", "mine": "kept"},
	}}}
	s := lifecycle.New(strings.Repeat("ab", 16), "", task, lifecycle.Options{}, time.Now())
	spec := Container(s, 0, "image")
	if spec.Labels["podtask.task-id"] != s.ID || spec.Labels["mine"] != "kept" || spec.Labels["com.amazonaws.ecs.container-name"] != "a" {
		t.Errorf("labels %v", spec.Labels)
	}
	if spec.MemoryLimit != 64<<20 || spec.CPUShares != 2 {
		t.Errorf("memory %d, shares %d", spec.MemoryLimit, spec.CPUShares)
	}
	s.Task.Containers[0].CPU, s.Options.Quota.ImplicitShares = 0, true
	if spec := Container(s, 0, "image"); spec.CPUShares != 2 {
		t.Errorf("a container without cpu has %d shares, want 2", spec.CPUShares)
	}
	s.Options.Unapplied = []string{"memory", "cpu"}
	if spec := Container(s, 0, "image"); spec.MemoryLimit != 0 || spec.CPUShares != 0 {
		t.Errorf("limits the user chose to do without are applied: %+v", spec)
	}
	if got, want := PodName(s), "podtask-web-abababababab"; got != want {
		t.Errorf("pod %q, want %q", got, want)
	}
}

func TestSliceLimitsFollowTheDefinition(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	c := func(cpu, reserved int64) taskdef.Container {
		return taskdef.Container{CPU: cpu, MemoryReservation: reserved}
	}
	for name, tt := range map[string]struct {
		task  taskdef.Task
		quota lifecycle.Quota
		want  cgroups.Limits
	}{
		"nothing asked": {taskdef.Task{Containers: []taskdef.Container{c(0, 0)}}, lifecycle.Quota{}, cgroups.Limits{}},
		"limits of the task, and as much swap as memory": {taskdef.Task{CPU: 0.5, Memory: 96 * mib, Containers: []taskdef.Container{c(512, 0)}}, lifecycle.Quota{},
			cgroups.Limits{CPU: 0.5, Memory: 96 * mib, SwapMax: 96 * mib}},
		"shares add up, one counts as two": {taskdef.Task{Containers: []taskdef.Container{c(1, 0), c(1022, 0), c(0, 0)}}, lifecycle.Quota{},
			cgroups.Limits{CPUWeight: 100}},
		"shares beyond the kernel's": {taskdef.Task{Containers: []taskdef.Container{c(1<<40, 0)}}, lifecycle.Quota{}, cgroups.Limits{CPUWeight: 10000}},
		"without cpu each counts as two": {taskdef.Task{Containers: []taskdef.Container{c(0, 0), c(0, 0)}}, lifecycle.Quota{ImplicitShares: true},
			cgroups.Limits{CPUWeight: cgroups.Curve{}.Weight(4)}},
		"a sidecar without cpu beside an app": {taskdef.Task{Containers: []taskdef.Container{c(256, 0), c(0, 0)}}, lifecycle.Quota{ImplicitShares: true},
			cgroups.Limits{CPUWeight: cgroups.Curve{}.Weight(258)}},
		"cpu of the task": {taskdef.Task{CPU: 0.5, Containers: []taskdef.Container{c(0, 0)}}, lifecycle.Quota{ImplicitShares: true},
			cgroups.Limits{CPU: 0.5}},
		"reservations without a limit": {taskdef.Task{Containers: []taskdef.Container{c(0, 10*mib), c(0, 20*mib)}}, lifecycle.Quota{}, cgroups.Limits{MemoryLow: 30 * mib}},
		"reservations below a limit": {taskdef.Task{Memory: 100 * mib, Containers: []taskdef.Container{c(0, 50*mib)}}, lifecycle.Quota{},
			cgroups.Limits{Memory: 100 * mib, SwapMax: 100 * mib, MemoryLow: 50 * mib, MemoryHigh: 95 * mib}},
		"reservations that are more than the limit together": {taskdef.Task{Memory: 60 * mib, Containers: []taskdef.Container{c(0, 50*mib), c(0, 50*mib)}}, lifecycle.Quota{},
			cgroups.Limits{Memory: 60 * mib, SwapMax: 60 * mib, MemoryLow: 60 * mib, MemoryHigh: 60 * mib}},
		"the quota wins": {taskdef.Task{CPU: 0.5, Memory: 96 * mib, Containers: []taskdef.Container{c(0, 0)}},
			lifecycle.Quota{CPU: 1, Memory: 128 * mib, TasksMax: 7, IOWeight: 5, CPUPeriod: 20 * time.Millisecond},
			cgroups.Limits{CPU: 1, CPUPeriod: 20 * time.Millisecond, Memory: 128 * mib, SwapMax: 128 * mib, TasksMax: 7, IOWeight: 5}},
	} {
		if diff := cmp.Diff(tt.want, TaskLimits(tt.task, tt.quota, cgroups.Curve{})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// No container fills the disk with its log, unless its definition wants that.
func TestLogsHaveAMaximumSize(t *testing.T) {
	t.Parallel()
	jsonFile := func(size string) *taskdef.LogConfiguration {
		return &taskdef.LogConfiguration{Driver: logdriver.JSONFile, Options: map[string]string{"max-size": size}}
	}
	for _, tt := range []struct {
		in   *taskdef.LogConfiguration
		want libpod.Log
	}{
		{nil, libpod.Log{MaxSize: 4096}},
		{jsonFile(""), libpod.Log{Driver: "k8s-file", MaxSize: 4096}},
		{jsonFile("1k"), libpod.Log{Driver: "k8s-file", MaxSize: 1024}},
		{jsonFile("-1"), libpod.Log{Driver: "k8s-file"}},
		{&taskdef.LogConfiguration{Driver: "awslogs"}, libpod.Log{Driver: "k8s-file", MaxSize: unlimitedLog}},
		{&taskdef.LogConfiguration{Driver: logdriver.Journald}, libpod.Log{Driver: "journald"}},
		{&taskdef.LogConfiguration{Driver: logdriver.None}, libpod.Log{Driver: "none"}},
	} {
		s := stateOf(taskdef.Task{Containers: []taskdef.Container{{Log: tt.in}}})
		s.Options.LogSize = 4096
		if got := Container(s, 0, "image").Log; got != tt.want {
			t.Errorf("%+v: got %+v, want %+v", tt.in, got, tt.want)
		}
	}
}

func TestAPodHasNoVariablesOfECS(t *testing.T) {
	t.Parallel()
	for _, isPod := range []bool{false, true} {
		s := stateOf(taskdef.Task{Containers: []taskdef.Container{{Name: "c"}}})
		s.Sandbox.Metadata, s.Options.MetadataKey, s.Options.Credentials = "169.254.170.2:80", "key", true
		if isPod {
			s.Task.Extensions.Pod = json.RawMessage(`{}`)
		}
		env := Container(s, 0, "i").Env
		if env["ECS_CONTAINER_METADATA_URI_V4"] == "" != isPod || env["ECS_AGENT_URI"] == "" != isPod || env["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"] == "" {
			t.Errorf("Pod: %t: %v", isPod, env)
		}
	}
}
