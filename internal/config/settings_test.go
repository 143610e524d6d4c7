package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/admission"
	"github.com/podtask/podtask/pkg/lifecycle"
)

func TestSettingsHaveTheirDefaults(t *testing.T) {
	t.Parallel()
	got := Default()
	images := Images{
		PullsAtOnce: 3, FirstByte: 5 * time.Minute, Idle: time.Minute, PullLimit: 2 * time.Hour,
		Cleanup: true, Interval: 30 * time.Minute, PerRound: 5, MinAge: 7 * 24 * time.Hour, MinFree: 2 << 30,
	}
	if !reflect.DeepEqual(got.Images, images) {
		t.Errorf("%+v, want %+v", got.Images, images)
	}
	if !reflect.DeepEqual(got.Budget, Budget{GPUs: []string{"nvidia.com/gpu"}}) || !got.Metadata.Enabled || got.Metadata.File || len(got.Metadata.CredentialsHelper) > 0 {
		t.Errorf("budget %+v, metadata %+v", got.Budget, got.Metadata)
	}
	if d := got.Delivery; d.AWSLogs() || d.Backlog != 1<<30 || d.Drain != 30*time.Second {
		t.Errorf("%+v", d)
	}
	tasks := Tasks{Limits: "best-effort", Quota: lifecycle.Quota{CPUPeriod: 100 * time.Millisecond}, LogSize: 100 << 20, Logs: "auto"}
	if !reflect.DeepEqual(got.Tasks, tasks) || got.Cleanup.TaskWait != 3*time.Hour || got.Agent.StopTasks != StopAtShutdown || !got.Network.BridgeIPv6 {
		t.Errorf("%+v", got)
	}
}

// A file, a variable and a flag reach the typed value of each key.
func TestEachKeyReachesItsField(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("home/podtask/podtask.toml", `
image-min-free = "5g"
image-exclude = "a/*,b"
image-cleanup = false
image-cleanup-interval = "1h"
image-cleanup-per-round = 7
reserved-memory = "1m"
metadata = "off"
metadata-file = "on"
bridge-ipv6 = "off"
task-cleanup-wait = "never"
minimum-age = "3d"
stack-previews = 7
update-tags = "semver: ~1.4, stable-*"
update-hours = "02:00-05:00"
update-registries = "ghcr.io"
`)
	for name, v := range map[string]string{
		"PULL_IDLE": "2s", "PULL_FIRST_BYTE": "3s", "PULL_TIMEOUT": "4s", "BUDGET_CPU": "1.5", "BUDGET_MEMORY": "none",
		"RESERVED_PORTS": "22,8000-8080", "QUEUE_OVERTAKE": "4", "GPUS": "amd.com/gpu, nvidia.com/gpu=0", "CREDENTIALS_HELPER": "helper -x",
		"PULL": "once", "LIMITS": "off", "LOG_MAX_SIZE": "5m", "LOGS": "local", "LOG_BACKLOG": "2g", "LOG_DRAIN": "1m", "LOG_CREDENTIALS_HELPER": "other -y", "AWSLOGS_ENDPOINT": "http://127.0.0.1:4566/", "PIDS_LIMIT": "0", "CPU_PERIOD": "20ms",
	} {
		p.env["PODTASK_"+name] = v
	}
	s, err := p.load()
	if err != nil {
		t.Fatal(err)
	}
	for flag, value := range map[string]string{"pulls-at-once": "9", "image-min-age": "1h", "stop-tasks": "never"} {
		if err := s.SetFlag(flag, value); err != nil {
			t.Fatal(err)
		}
	}
	images := Images{
		PullsAtOnce: 9, FirstByte: 3 * time.Second, Idle: 2 * time.Second, PullLimit: 4 * time.Second,
		Interval: time.Hour, PerRound: 7, MinAge: time.Hour, Exclude: []string{"a/*", "b"}, MinFree: 5 << 30,
	}
	cpu, memory := int64(1536), int64(admission.Unlimited)
	budget := Budget{
		CPU: &cpu, Memory: &memory, ReservedMemory: 1 << 20, Overtake: 4, GPUs: []string{"amd.com/gpu", "nvidia.com/gpu=0"},
		ReservedPorts: []admission.PortRange{{First: 22, Last: 22}, {First: 8000, Last: 8080}},
	}
	if !reflect.DeepEqual(s.Images, images) || !reflect.DeepEqual(s.Budget, budget) {
		t.Errorf("%+v, %+v, want %+v, %+v", s.Images, s.Budget, images, budget)
	}
	tasks := Tasks{Pull: lifecycle.PullOnce, Limits: "off", Quota: lifecycle.Quota{TasksMax: lifecycle.Unlimited, CPUPeriod: 20 * time.Millisecond}, LogSize: 5 << 20, Logs: "local", MinimumAge: 72 * time.Hour}
	if !reflect.DeepEqual(s.Tasks, tasks) || s.Cleanup.TaskWait != 0 || s.Agent.StopTasks != StopNever || s.Network.BridgeIPv6 || s.Stacks.Previews != 7 {
		t.Errorf("%+v", s)
	}
	if want := (Delivery{CredentialsHelper: []string{"other", "-y"}, AWSLogsEndpoint: "http://127.0.0.1:4566", Backlog: 2 << 30, Drain: time.Minute}); !reflect.DeepEqual(s.Delivery, want) || !s.Delivery.AWSLogs() {
		t.Errorf("%+v, want %+v", s.Delivery, want)
	}
	if u := s.Updates; len(u.Tags) != 2 || u.Tags[0].String() != "semver: ~1.4" || u.Hours[0].String() != "02:00-05:00" || !slices.Equal(u.Registries, []string{"ghcr.io"}) {
		t.Errorf("%+v", u)
	}
	if m := s.Metadata; m.Enabled || !m.File || !slices.Equal(m.CredentialsHelper, []string{"helper", "-x"}) {
		t.Errorf("%+v", m)
	}
}

func TestEmptyValueIsTheDefault(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("etc/podtask/podtask.toml", "pull-idle = \"3s\"\nbudget-cpu = 2\n")
	p.write("home/podtask/podtask.toml", "pull-idle = \"\"\nbudget-cpu = \"\"\n")
	s, err := p.load()
	if err != nil || s.Images.Idle != time.Minute || s.Budget.CPU != nil {
		t.Errorf("%v, %+v, %v", s.Images.Idle, s.Budget.CPU, err)
	}
}

func TestOverrideChangesOnlyWhatIsGiven(t *testing.T) {
	t.Parallel()
	s := Default()
	got, err := s.Override(map[string]string{"pull": "never"})
	if want := (Tasks{Pull: lifecycle.PullNever, Limits: "best-effort", Quota: s.Tasks.Quota, LogSize: 100 << 20, Logs: "auto"}); err != nil || !reflect.DeepEqual(got, want) || s.Tasks.Pull != lifecycle.PullDefault {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := s.Override(map[string]string{"limits": "some"}); err == nil || !strings.HasPrefix(err.Error(), "limits: ") {
		t.Error(err)
	}
}

func TestMistakesAreFoundInEverySource(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	file := p.write("home/podtask/podtask.toml", "image-min-free = \"much\"\nimage-exclude = \"[\"\npull-idle = \"-1s\"\npulls-at-once = 0\nupdate-tags = \"semver: >2 <1\"\nupdate-hours = \"05:00-05:00\"\nupdate-registries = \"https://ghcr.io\"\nminimum-age = \"soon\"\n")
	want := []string{file + ":1: image-min-free", file + ":2: image-exclude", file + ":3: pull-idle", file + ":4: pulls-at-once", file + ":5: update-tags", file + ":6: update-hours", file + ":7: update-registries", file + ":8: minimum-age"}
	for _, k := range []string{"budget-cpu", "budget-memory", "reserved-memory", "reserved-ports", "queue-overtake"} {
		name := Key{Name: k}.Env()
		p.env[name] = "nonsense"
		want = append(want, name+": ")
	}
	_, err := p.load()
	for _, w := range want {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("%s is not named: %v", w, err)
		}
	}
}

func TestEndpointIsAURLWithoutAPath(t *testing.T) {
	t.Parallel()
	for url, good := range map[string]bool{
		"http://127.0.0.1:4566": true, "https://logs.example.com/": true, "": true,
		"127.0.0.1:4566": false, "ftp://x": false, "http://x/path": false, "http://user:pass@x": false, "http://x?a=b": false, "http://": false,
	} {
		if err := Default().SetFlag("awslogs-endpoint", url); (err == nil) != good {
			t.Errorf("%s: %v", url, err)
		}
	}
}
