package cgroups

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

// systemd counts an end by a signal such as SIGKILL as a failure.
func TestTransientServiceIsStartedAgainAfterAFailure(t *testing.T) {
	t.Parallel()
	got := map[string]any{}
	for _, p := range serviceProps("x.service", []string{"/bin/true"}, nil) {
		got[p.Name] = p.Value.Value()
	}
	for name, want := range map[string]any{
		"Restart": "on-failure", "RestartUSec": uint64(1_000_000),
		"StartLimitIntervalUSec": uint64(300_000_000), "StartLimitBurst": uint32(5),
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}

// Limits that a container is not to have any more are removed, and those that no task changes stay.
func TestLimitsOfAContainerAreReplaced(t *testing.T) {
	t.Parallel()
	const none = uint64(math.MaxUint64)
	for _, c := range []struct {
		limits Limits
		want   map[string]uint64
	}{
		{Limits{}, map[string]uint64{"CPUQuotaPerSecUSec": none, "CPUQuotaPeriodUSec": none, "CPUWeight": none, "MemoryMax": none, "MemoryLow": 0, "MemorySwapMax": none}},
		{Limits{CPU: 0.5, CPUWeight: 20, Memory: 64 << 20, MemoryLow: 32 << 20, SwapMax: NoSwap, TasksMax: 7}, map[string]uint64{
			"CPUQuotaPerSecUSec": 500_000, "CPUQuotaPeriodUSec": 100_000, "CPUWeight": 20, "MemoryMax": 64 << 20, "MemoryLow": 32 << 20, "MemorySwapMax": 0,
		}},
	} {
		props, err := containerProperties(c.limits)
		if err != nil || len(props) != len(c.want) {
			t.Errorf("%+v: %d properties (%v), want %d", c.limits, len(props), err, len(c.want))
		}
		for _, p := range props {
			if p.Value.Value() != c.want[p.Name] {
				t.Errorf("%+v: %s is %v, want %d", c.limits, p.Name, p.Value.Value(), c.want[p.Name])
			}
		}
	}
	if _, err := containerProperties(Limits{Memory: -1}); err == nil {
		t.Error("a negative limit is taken")
	}
}

func TestLimitsWithinTheScopeOfAContainer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := limitInner(dir, Limits{Memory: 1}); err != nil {
		t.Errorf("without a cgroup within: %v", err)
	}
	for _, file := range []string{"cpu.max", "memory.max", "memory.low"} { // there is no swap
		if err := os.WriteFile(filepath.Join(dir, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := limitInner(dir, Limits{CPU: 0.5, Memory: 4096}); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"cpu.max": "50000 100000", "memory.max": "4096", "memory.low": "0"} {
		if got, err := os.ReadFile(filepath.Join(dir, file)); string(got) != want {
			t.Errorf("%s is %q (%v), want %q", file, got, err, want)
		}
	}
}
