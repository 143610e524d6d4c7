package libpod

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/blang/semver/v4"
	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/specgen"
)

var (
	debian12 = semver.MustParse("4.3.1")
	debian13 = semver.MustParse("5.4.2")
)

// sent is what goes over the wire.
func sent(t *testing.T, spec any) map[string]any {
	t.Helper()
	data, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func mustContainer(t *testing.T, c ContainerSpec) map[string]any {
	t.Helper()
	c.Name, c.TaskID = "n", "t"
	if c.Image == "" {
		c.Image = "i"
	}
	s, err := containerSpec(c, true, semver.Version{Major: 5})
	if err != nil {
		t.Fatal(err)
	}
	return sent(t, s)
}

func TestContainerSpec(t *testing.T) {
	t.Parallel()
	type m = map[string]any
	tests := []struct {
		rule string
		in   ContainerSpec
		key  string
		want any
	}{
		{"no restarts by Podman", ContainerSpec{}, "restart_policy", "no"},
		{"no removal at exit, which would lose the exit code on 4.x", ContainerSpec{}, "remove", false},
		{"no environment of the host", ContainerSpec{}, "env_host", false},
		{"no proxies of the host", ContainerSpec{}, "httpproxy", false},
		{"no notification socket", ContainerSpec{}, "sdnotifyMode", "ignore"},
		{"the image's health check is off", ContainerSpec{}, "healthconfig", m{"Test": []any{"NONE"}}},
		{"a health check has no interval, so no timer, and a timeout", ContainerSpec{Health: &Health{Command: []string{"CMD", "x"}}},
			"healthconfig", m{"Test": []any{"CMD", "x"}, "Timeout": float64(30 * time.Second)}},
		{"a health check keeps what inspect shows", ContainerSpec{Health: &Health{Command: []string{"CMD-SHELL", "x"}, Timeout: time.Second, Retries: 2, StartPeriod: time.Minute}},
			"healthconfig", m{"Test": []any{"CMD-SHELL", "x"}, "Timeout": float64(time.Second), "Retries": 2.0, "StartPeriod": float64(time.Minute)}},
		{"the health log is bounded", ContainerSpec{}, "healthMaxLogCount", 5.0},
		{"the health log's entries are bounded", ContainerSpec{}, "healthMaxLogSize", 500.0},
		{"the health log is local", ContainerSpec{}, "healthLogDestination", "local"},
		{"no limits, no mention of them", ContainerSpec{}, "resource_limits", nil},
		{"limits", ContainerSpec{MemoryLimit: 3, MemoryReservation: 2, CPUShares: 512}, "resource_limits",
			m{"memory": m{"limit": 3.0, "reservation": 2.0}, "cpu": m{"shares": 512.0}}},
		{"a reservation alone is no limit", ContainerSpec{MemoryReservation: 2}, "resource_limits", m{"memory": m{"reservation": 2.0}}},
		{"a working directory is created", ContainerSpec{WorkDir: "/w"}, "create_working_dir", true},
		{"the image's working directory is left alone", ContainerSpec{}, "create_working_dir", nil},
		{"the image's entry point is kept", ContainerSpec{}, "entrypoint", nil},
		{"stop timeout is rounded up", ContainerSpec{StopTimeout: 1500 * time.Millisecond}, "stop_timeout", 2.0},
		{"a stop signal is a number", ContainerSpec{StopSignal: "SIGINT"}, "stop_signal", 2.0},
		{"a real-time stop signal", ContainerSpec{StopSignal: "SIGRTMIN+3"}, "stop_signal", 37.0},
		{"the image's stop signal is kept", ContainerSpec{}, "stop_signal", nil},
		{"read-only is without a writable tmpfs", ContainerSpec{ReadOnly: true}, "read_write_tmpfs", false},
		{"read-only", ContainerSpec{ReadOnly: true}, "read_only_filesystem", true},
		{"root has Docker's capabilities", ContainerSpec{}, "cap_add", toAny(dockerCapabilities)},
		{"and no others", ContainerSpec{}, "cap_drop", []any{"ALL"}},
		{"what is dropped is not there", ContainerSpec{CapDrop: []string{"NET_RAW", "CAP_MKNOD"}}, "cap_add",
			toAny(slices.DeleteFunc(slices.Clone(dockerCapabilities), func(n string) bool { return n == "CAP_NET_RAW" || n == "CAP_MKNOD" }))},
		{"what is added survives dropping all", ContainerSpec{CapDrop: []string{"ALL"}, CapAdd: []string{"SYS_PTRACE"}}, "cap_add", []any{"CAP_SYS_PTRACE"}},
		{"all capabilities but one: add", ContainerSpec{CapDrop: []string{"SYS_ADMIN"}, CapAdd: []string{"ALL"}}, "cap_add", []any{"ALL"}},
		{"all capabilities but one: drop", ContainerSpec{CapDrop: []string{"SYS_ADMIN"}, CapAdd: []string{"ALL"}}, "cap_drop", []any{"CAP_SYS_ADMIN"}},
		{"a privileged container leaves capabilities to Podman", ContainerSpec{Privileged: true}, "cap_drop", nil},
		{"a hostname needs a namespace of its own", ContainerSpec{Hostname: "h"}, "utsns", m{"nsmode": "private"}},
		{"without one it is the pod's", ContainerSpec{}, "utsns", m{}},
		{"a bind", ContainerSpec{Binds: []Bind{{HostPath: "/h", Path: "/c", ReadOnly: true, Relabel: "z"}}}, "mounts",
			[]any{m{"destination": "/c", "source": "/h", "type": "bind", "options": []any{"rbind", "ro", "z"}}}},
		{"a hard limit of processors", ContainerSpec{CPULimit: 0.5}, "resource_limits", m{"cpu": m{"quota": 50000.0, "period": 100000.0}}},
		{"memory and swap", ContainerSpec{MemoryLimit: 3, MemorySwap: 5}, "resource_limits", m{"memory": m{"limit": 3.0, "swap": 5.0}}},
		{"Podman puts RLIMIT_ before a limit", ContainerSpec{Rlimits: []Rlimit{{"nofile", 1, 2}}}, "r_limits", []any{m{"type": "NOFILE", "soft": 1.0, "hard": 2.0}}},
		{"a device as the command writes it", ContainerSpec{Devices: []Device{{"/dev/a", "/dev/b", "rw"}}}, "devices",
			[]any{m{"path": "/dev/a:/dev/b:rw", "type": "", "major": 0.0, "minor": 0.0}}},
		{"variables name their secrets", ContainerSpec{SecretEnv: map[string]string{"A": "s"}}, "secret_env", m{"A": "s"}},
		{"no word about logs unless asked", ContainerSpec{}, "log_configuration", nil},
		{"nothing is pulled behind our back", ContainerSpec{Image: "r/x@sha256:1"}, "image", "r/x@sha256:1"},
	}
	for _, c := range tests {
		if got := mustContainer(t, c.in)[c.key]; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %s is %v, want %v", c.rule, c.key, got, c.want)
		}
	}
}

func toAny(words []string) (out []any) {
	for _, w := range words {
		out = append(out, w)
	}
	return out
}

func TestUsersButRootGetNoAmbientCapabilities(t *testing.T) {
	t.Parallel()
	// What Podman is asked to add becomes ambient for them.
	add, drop := capabilities(ContainerSpec{CapAdd: []string{"NET_RAW"}, CapDrop: []string{"KILL"}}, false)
	if !slices.Equal(add, []string{"CAP_NET_RAW"}) || !slices.Equal(drop, []string{"CAP_KILL"}) {
		t.Errorf("add %q, drop %q", add, drop)
	}
	for user, want := range map[string]bool{"": true, "root": true, "0": true, "0:7": true, "root:x": true, "7": false, "app": false, "7:0": false} {
		if isRoot(user) != want {
			t.Errorf("user %q: root is %t, want %t", user, !want, want)
		}
	}
}

// The digests are those of the first release: what was made then must be
// recognized for ever.
func TestDigestOfASpecificationStays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		spec any
		want string
	}{
		{ContainerSpec{Name: "n", Pod: "p", TaskID: "t", Image: "i", Command: []string{"a"}, Env: map[string]string{"A": "1"}, MemoryLimit: 1}, "d604ce72f4035f3fb3ddd607b0203e4c74b6b126f4ca9d435169beb6b3d202fa"},
		{PodSpec{Name: "n", TaskID: "t", Hostname: "h", Ports: []Port{{HostIP: "127.0.0.1", ContainerPort: 80}}}, "baa8faa6a757cee728b77a95879065ac69ba159c1c078937747c4e948289895f"},
		{ContainerSpec{Name: "n", Pod: "p", TaskID: "t", Image: "i", Own: &OwnNetwork{Network: "net", Aliases: []string{"a"}, Members: [][]string{{"a"}, {"b"}}, Place: 1, Ports: []Port{{HostIP: "127.0.0.1", ContainerPort: 80}}}}, "810ac263c1b0035911de024c031b8a4c469e714965617a03f5d9727157ef215f"},
		{PodSpec{Name: "n", TaskID: "t", OwnNetworks: true}, "e012b2cd1817179bd49ddbf7f185ab3e0f96f7b1a55f6694758997a8bf9c649d"},
	} {
		all, err := labels(nil, "t", c.spec)
		if err != nil || all[specLabel] != c.want {
			t.Errorf("%T: %s, %v", c.spec, all[specLabel], err)
		}
	}
}

func TestContainerSpecNeedsNameImageAndTask(t *testing.T) {
	t.Parallel()
	for _, c := range []ContainerSpec{{Image: "i", TaskID: "t"}, {Name: "n", TaskID: "t"}, {Name: "n", Image: "i"}} {
		if _, err := containerSpec(c, true, semver.Version{Major: 5}); !errors.Is(err, InvalidSpec) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestLabelsIdentifyTaskAndSpecification(t *testing.T) {
	t.Parallel()
	base := ContainerSpec{Name: "n", Image: "i", TaskID: "t", Env: map[string]string{"A": "hunter2", "B": "2"}, Labels: map[string]string{TaskLabel: "forged", "x": "y"}}
	first, err := containerSpec(base, true, semver.Version{Major: 5})
	if err != nil {
		t.Fatal(err)
	}
	if first.Labels[TaskLabel] != "t" || first.Labels["x"] != "y" || len(base.Labels) != 2 || base.Labels[TaskLabel] != "forged" {
		t.Errorf("labels %v, given ones %v", first.Labels, base.Labels)
	}
	for k, v := range first.Labels {
		if strings.Contains(v, "hunter2") {
			t.Errorf("label %s holds the environment", k)
		}
	}
	if err := adoptable(first.Labels, "t", first.Labels[specLabel]); err != nil {
		t.Error(err)
	}
	changed := base
	changed.Env = map[string]string{"A": "1", "B": "3"}
	second, err := containerSpec(changed, true, semver.Version{Major: 5})
	if err != nil {
		t.Fatal(err)
	}
	for rule, labels := range map[string]map[string]string{
		"other specification": second.Labels, "other task": {TaskLabel: "u", specLabel: first.Labels[specLabel]}, "no label": {"x": "y"}, "none": nil,
	} {
		if err := adoptable(labels, "t", first.Labels[specLabel]); !errors.Is(err, Conflict) {
			t.Errorf("%s: %v", rule, err)
		}
	}
}

func TestPodSpec(t *testing.T) {
	t.Parallel()
	s, err := podSpec(PodSpec{
		Name: "p", TaskID: "t", CgroupParent: "podtaskabc.slice", Network: "none", Hostname: "h",
		Ports: []Port{{HostIP: "127.0.0.1", ContainerPort: 80, HostPort: 8080}, {ContainerPort: 53, Protocol: "udp"}},
	}, debian12)
	if err != nil {
		t.Fatal(err)
	}
	got := sent(t, s)
	for key, want := range map[string]any{
		"name": "p", "infra_name": "p-infra", "exit_policy": "continue", "cgroup_parent": "podtaskabc.slice", "hostname": "h",
		"netns": map[string]any{"nsmode": "none"}, "no_infra": nil, "share_parent": nil, "restart_policy": nil,
	} {
		if !reflect.DeepEqual(got[key], want) {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}
	want := []any{
		map[string]any{"host_ip": "127.0.0.1", "container_port": 80.0, "host_port": 8080.0, "range": 1.0, "protocol": "tcp"},
		map[string]any{"host_ip": "", "container_port": 53.0, "host_port": 0.0, "range": 1.0, "protocol": "udp"},
	}
	if !reflect.DeepEqual(got["portmappings"], want) {
		t.Errorf("ports %v", got["portmappings"])
	}
}

// A pod in a slice of its own does not start on Podman 4.9, so the slice holds its containers instead.
func TestSliceHoldsThePodOrItsContainers(t *testing.T) {
	t.Parallel()
	for version, ofPod := range map[string]bool{"4.3.1": true, "4.9.5": false, "5.0.0": true, "6.0.2": true} {
		server := semver.MustParse(version)
		pod, err := podSpec(PodSpec{Name: "p", TaskID: "t", CgroupParent: "podtaskabc.slice", Network: "none"}, server)
		if err != nil {
			t.Fatal(err)
		}
		c, err := containerSpec(ContainerSpec{Name: "c", TaskID: "t", Image: "i", CgroupParent: "podtaskabc.slice", InPodCgroup: true}, true, server)
		if err != nil {
			t.Fatal(err)
		}
		of := func(has bool) string {
			if has {
				return "podtaskabc.slice"
			}
			return ""
		}
		if pod.CgroupParent != of(ofPod) || c.CgroupParent != of(!ofPod) {
			t.Errorf("%s: the pod is in %q, the container in %q", version, pod.CgroupParent, c.CgroupParent)
		}
	}
}

func TestPodWithoutInfraContainerMakesNoCgroup(t *testing.T) {
	t.Parallel()
	pod, err := podSpec(PodSpec{Name: "p", TaskID: "t", CgroupParent: "podtaskabc.slice", NoInfra: true}, debian12)
	if err != nil {
		t.Fatal(err)
	}
	if got := sent(t, pod); got["no_infra"] != true || got["share_parent"] != false {
		t.Errorf("the pod: %v", got)
	}
	of := func(parent string) map[string]any {
		c, err := containerSpec(ContainerSpec{Name: "c", TaskID: "t", Image: "i", CgroupParent: parent}, true, debian12)
		if err != nil {
			t.Fatal(err)
		}
		return sent(t, c)
	}
	in, out := of("podtaskabc.slice"), of("")
	if in["cgroup_parent"] != "podtaskabc.slice" || out["cgroup_parent"] != nil {
		t.Errorf("cgroup parents %v and %v", in["cgroup_parent"], out["cgroup_parent"])
	}
	if !reflect.DeepEqual(in["labels"], out["labels"]) {
		t.Error("a container that an earlier version has created is not recognized")
	}
}

func TestPodSpecGates(t *testing.T) {
	t.Parallel()
	tests := []struct {
		rule   string
		spec   PodSpec
		server semver.Version
		ok     bool
	}{
		{"pasta needs 4.4", PodSpec{Network: "pasta"}, debian12, false},
		{"pasta with options needs 4.4", PodSpec{Network: "pasta:-t,auto"}, debian12, false},
		{"pasta is known to 5.x", PodSpec{Network: "pasta"}, debian13, true},
		{"slirp4netns is known to 4.3.1", PodSpec{Network: "slirp4netns"}, debian12, true},
		{"a host IP is an address", PodSpec{Ports: []Port{{ContainerPort: 1, HostIP: "localhost"}}}, debian13, false},
		{"a container port is not 0", PodSpec{Ports: []Port{{HostPort: 1}}}, debian13, false},
	}
	for _, c := range tests {
		c.spec.Name, c.spec.TaskID = "p", "t"
		if _, err := podSpec(c.spec, c.server); (err == nil) != c.ok || (err != nil && !errors.Is(err, InvalidSpec)) {
			t.Errorf("%s: %v", c.rule, err)
		}
	}
}

func TestPodFromReadsPorts(t *testing.T) {
	t.Parallel()
	infra := &define.InspectContainerData{ID: "i", Pod: "p", State: &define.InspectContainerState{Pid: 7}, HostConfig: &define.InspectContainerHostConfig{
		PortBindings: map[string][]define.InspectHostPort{"81/udp": {{HostPort: "5"}}, "80/tcp": {{HostIP: "::1", HostPort: "4"}, {HostIP: "127.0.0.1", HostPort: "3"}}},
	}}
	got, err := podFrom(infra)
	if err != nil {
		t.Fatal(err)
	}
	want := []Port{{"127.0.0.1", 3, 80, "tcp"}, {"::1", 4, 80, "tcp"}, {"", 5, 81, "udp"}}
	if got.ID != "p" || got.InfraID != "i" || got.InfraPID != 7 || !slices.Equal(got.Ports, want) {
		t.Errorf("got %+v", got)
	}
	infra.State.Pid = 0
	if _, err := podFrom(infra); err == nil {
		t.Error("an infra container without a process is no pod")
	}
}

func TestObserve(t *testing.T) {
	t.Parallel()
	tests := []struct {
		state  string
		status Status
		paused bool
	}{
		{"created", Created, false}, {"configured", Created, false}, {"initialized", Created, false},
		{"running", Running, false}, {"stopping", Running, false}, {"paused", Running, true},
		{"stopped", Exited, false}, {"exited", Exited, false}, {"removing", Removing, false},
	}
	for _, c := range tests {
		o := observe(&define.InspectContainerData{ID: "i", State: &define.InspectContainerState{Status: c.state, Pid: 7, ExitCode: 137}})
		if o.Status != c.status || o.Paused != c.paused || (o.PID != 0) != (c.status == Running || c.state == "initialized") || (o.ExitCode != 0) != (c.status == Exited) || !o.Foreign {
			t.Errorf("%s: %+v", c.state, o)
		}
	}
}

// A short run can end before Podman's clock says that it started, and a running
// container still has the end of its run before.
func TestObserveTimes(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	state := &define.InspectContainerState{Status: "exited", StartedAt: start, FinishedAt: start.Add(-time.Millisecond)}
	if o := observe(&define.InspectContainerData{State: state}); !o.FinishedAt.Equal(start) || !o.StartedAt.Equal(start) {
		t.Errorf("exited: %+v", o)
	}
	state.Status = "running"
	if o := observe(&define.InspectContainerData{State: state}); !o.FinishedAt.IsZero() || !o.StartedAt.Equal(start) {
		t.Errorf("running: %+v", o)
	}
	if o := observe(&define.InspectContainerData{State: &define.InspectContainerState{Status: "created", StartedAt: time.Unix(0, 0)}}); !o.StartedAt.IsZero() || !o.FinishedAt.IsZero() {
		t.Errorf("created: %+v", o)
	}
}

func TestTagParts(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][2]string{
		"localhost:5000/a/b:v1": {"localhost:5000/a/b", "v1"}, "nginx": {"docker.io/library/nginx", "latest"}, "quay.io/x": {"quay.io/x", "latest"},
	} {
		if repo, tag, err := tagParts(in); err != nil || repo != want[0] || tag != want[1] {
			t.Errorf("%s: %s %s %v", in, repo, tag, err)
		}
	}
	for _, in := range []string{"", "UPPER/case", "x@sha256:" + strings.Repeat("a", 64), "x:v1@sha256:" + strings.Repeat("a", 64)} {
		if _, _, err := tagParts(in); !errors.Is(err, InvalidSpec) {
			t.Errorf("%s: %v", in, err)
		}
	}
}

func TestProbeResultTakesOnlyThisProbesEntry(t *testing.T) {
	t.Parallel()
	begun := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	entry := func(after time.Duration, output string) define.HealthCheckLog {
		return define.HealthCheckLog{Start: begun.Add(after).Format(time.RFC3339Nano), ExitCode: 1, Output: output}
	}
	tests := []struct {
		rule   string
		health *define.HealthCheckResults
		want   ProbeResult
	}{
		{"no log", nil, ProbeResult{ExitCode: 1}},
		{"an empty log", &define.HealthCheckResults{}, ProbeResult{ExitCode: 1}},
		{"the last entry counts", &define.HealthCheckResults{Log: []define.HealthCheckLog{entry(1, "old"), entry(2, "new")}}, ProbeResult{ExitCode: 1, Output: "new"}},
		{"an entry from before does not", &define.HealthCheckResults{Log: []define.HealthCheckLog{entry(-1, "old")}}, ProbeResult{ExitCode: 1}},
		{"long output keeps its end", &define.HealthCheckResults{Log: []define.HealthCheckLog{entry(1, strings.Repeat("ä", 1000)+"e")}}, ProbeResult{ExitCode: 1, Output: strings.Repeat("ä", 511) + "e"}},
	}
	for _, c := range tests {
		if got := probeResult(c.health, begun); got != c.want {
			t.Errorf("%s: got %+v", c.rule, got)
		}
	}
}

// A container joins the processes of another one by a path: then neither depends on the other in Podman.
func TestAContainerJoinsTheProcessesOfAnother(t *testing.T) {
	t.Parallel()
	s, err := containerSpec(ContainerSpec{Name: "c", TaskID: "t", Image: "i", PIDPath: "/proc/7/ns/pid"}, true, semver.Version{Major: 5})
	if err != nil || s.PidNS.NSMode != specgen.Path || s.PidNS.Value != "/proc/7/ns/pid" {
		t.Errorf("the namespace is %+v, %v", s.PidNS, err)
	}
}
