package cgroups

import (
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
