package doctor_test

import (
	"slices"
	"testing"

	"github.com/blang/semver/v4"

	"github.com/podtask/podtask/internal/host/doctor"
)

func TestNetworkByName(t *testing.T) {
	t.Parallel()
	const (
		tooOld  = "network: network pasta needs Podman 4.4.0, this is 4.3.1; use slirp4netns, or leave it to Podman"
		missing = "network: network slirp4netns: the program slirp4netns is not in PATH; apt-get install slirp4netns, or dnf install slirp4netns"
	)
	tests := []struct {
		program, version string
		installed        []string
		want             string // empty: it works
	}{
		{"pasta", "4.3.1", []string{"pasta", "slirp4netns"}, tooOld},
		{"slirp4netns", "4.3.1", []string{"slirp4netns"}, ""},
		{"pasta", "4.4.0", []string{"pasta"}, ""},
		{"pasta", "5.4.2", []string{"pasta"}, ""},
		{"pasta", "5.4.2", nil, "network: network pasta: the program pasta is not in PATH; apt-get install passt, or dnf install passt"},
		{"slirp4netns", "5.4.2", []string{"pasta"}, missing},
		{"slirp4netns", "5.4.2", []string{"slirp4netns"}, ""},
		{"slirp4netns", "6.0.2", []string{"slirp4netns"}, "network: Podman 6.0.2 does not support the network slirp4netns; use pasta, or leave it to Podman"},
	}
	for _, tt := range tests {
		got := doctor.NetworkFinding(tt.program, semver.MustParse(tt.version), func(p string) bool { return slices.Contains(tt.installed, p) })
		if (got.Level == doctor.OK) != (tt.want == "") || tt.want != "" && got.String() != tt.want {
			t.Errorf("%s, Podman %s, %v: %s %s", tt.program, tt.version, tt.installed, got.Level, got)
		}
	}
}
