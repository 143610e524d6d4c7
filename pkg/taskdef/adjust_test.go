package taskdef

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func adjustable(t *testing.T) Task {
	t.Helper()
	task, _, err := Parse("x.json", []byte(`{"family":"x","networkMode":"awsvpc","memory":"512","cpu":"256","containerDefinitions":[
		{"name":"side","image":"s","essential":false,"portMappings":[{"containerPort":9000}]},
		{"name":"app","image":"a","environment":[{"name":"A","value":"1"},{"name":"PASS","value":"x"}],"portMappings":[{"containerPort":80}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return task
}

func TestAdjust(t *testing.T) {
	t.Parallel()
	memory, cpu := int64(1<<30), 0.0
	before := adjustable(t)
	secret := Secret{Name: "PASS", SecretValue: SecretValue{ValueFrom: "podman:db", Source: "podman:db"}}
	got, err := before.Adjust(Adjustments{
		Memory: &memory, CPU: &cpu, StopTimeout: 7 * time.Second, Deadline: time.Hour, Secrets: []Secret{secret},
		Ports: []Port{{ContainerPort: 9000, HostPort: 1900, Protocol: "tcp"}, {ContainerPort: 443, HostPort: 8443, Protocol: "tcp"}, {ContainerPort: 80, Protocol: "udp"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := adjustable(t)
	want.Published, want.Memory, want.CPU, want.Extensions.Deadline = true, memory, 0, time.Hour
	for i := range want.Containers {
		want.Containers[i].StopTimeout = 7 * time.Second
		want.Containers[i].Secrets = []Secret{secret}
	}
	want.Containers[0].Environment = nil
	want.Containers[0].Ports = []Port{{ContainerPort: 9000, HostPort: 1900, Protocol: "tcp"}}
	want.Containers[1].Environment = []EnvVar{{Name: "A", Value: "1"}}
	want.Containers[1].Ports = []Port{{ContainerPort: 80, AWSVPCHostPort: 80, Protocol: "tcp"}, {ContainerPort: 443, HostPort: 8443, Protocol: "tcp"}, {ContainerPort: 80, Protocol: "udp"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(adjustable(t), before); diff != "" {
		t.Errorf("the task itself changed: %s", diff)
	}
}

func TestAdjustNetwork(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		had      NetworkMode
		by       string // the program that connected it
		network  string // what is asked for
		want     NetworkMode
		wantedBy string
	}{
		{NetworkAWSVPC, "", "pasta", NetworkAWSVPC, "pasta"},
		{NetworkBridge, "pasta", "slirp4netns", NetworkBridge, "slirp4netns"},
		{NetworkHost, "", "pasta", NetworkBridge, "pasta"},
		{NetworkNone, "", "slirp4netns", NetworkBridge, "slirp4netns"},
		{NetworkBridge, "", "shared", NetworkBridge, "shared"},
		{NetworkHost, "", "shared", NetworkBridge, "shared"},
		{NetworkBridge, "shared", "bridge", NetworkBridge, ""},
		{NetworkHost, "", "front", NetworkBridge, "front"},
		{NetworkAWSVPC, "pasta", "front", NetworkAWSVPC, "front"},
		{NetworkAWSVPC, "front", "bridge", NetworkBridge, ""},
		{NetworkBridge, "pasta", "none", NetworkNone, ""},
		{NetworkAWSVPC, "slirp4netns", "bridge", NetworkBridge, ""},
		{NetworkAWSVPC, "slirp4netns", "", NetworkAWSVPC, "slirp4netns"},
	} {
		task := adjustable(t)
		task.Network, task.Extensions.Network = tt.had, tt.by
		for i := range task.Containers {
			task.Containers[i].Ports = nil
		}
		got, err := task.Adjust(Adjustments{Network: tt.network})
		if err != nil || got.Network != tt.want || got.Extensions.Network != tt.wantedBy {
			t.Errorf("%s by %q with %q: %s by %q, %v", tt.had, tt.by, tt.network, got.Network, got.Extensions.Network, err)
		}
	}
}

// On the host itself a container listens on its own port.
func TestAdjustToTheHostFixesPorts(t *testing.T) {
	t.Parallel()
	before := adjustable(t)
	got, err := before.Adjust(Adjustments{Network: "host"})
	if want := []Port{{ContainerPort: 80, HostPort: 80, Protocol: "tcp"}}; err != nil || cmp.Diff(want, got.Containers[1].Ports) != "" {
		t.Errorf("ports %+v, %v", got.Containers[1].Ports, err)
	}
	if diff := cmp.Diff(adjustable(t), before); diff != "" {
		t.Errorf("the task itself changed: %s", diff)
	}
}

func TestAdjustNothing(t *testing.T) {
	t.Parallel()
	got, err := adjustable(t).Adjust(Adjustments{})
	if diff := cmp.Diff(adjustable(t), got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
}

func TestAdjustKeepsTheRules(t *testing.T) {
	t.Parallel()
	tiny := int64(1)
	for name, a := range map[string]Adjustments{
		"too little memory":        {Memory: &tiny},
		"ports without a network":  {Network: "none", Ports: []Port{{ContainerPort: 80, HostPort: 80, Protocol: "tcp"}}},
		"a host port of two":       {Ports: []Port{{ContainerPort: 80, HostPort: 80, Protocol: "tcp"}, {ContainerPort: 81, HostPort: 80, Protocol: "tcp"}}},
		"another port on the host": {Network: "host", Ports: []Port{{ContainerPort: 80, HostPort: 81, Protocol: "tcp"}}},
	} {
		var invalid *InvalidError
		if _, err := adjustable(t).Adjust(a); !errors.As(err, &invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
