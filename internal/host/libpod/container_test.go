package libpod

import (
	"os"
	"strings"
	"testing"
)

func TestProcessOfTheRuntimeIsKnown(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"/usr/bin/crun --systemd-cgroup --log-format=json --log /x/oci-log create --bundle /x/userdata --pid-file /x/pidfile 0123": true,
		"runc init":                    true,
		"/usr/sbin/runc init":          true,
		"/usr/bin/crun start 0123":     false,
		"/usr/bin/crun":                false,
		"runc":                         false,
		"/bin/sh create --bundle init": false,
	} {
		if got := ofRuntime(strings.Fields(line)); got != want {
			t.Errorf("%q: %t", line, got)
		}
	}
	if ofRuntime([]string{""}) || beforeProgram(os.Getpid()) || beforeProgram(-1) {
		t.Error("this is no runtime")
	}
}
