package podadmission

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podtask/podtask/internal/testing/kubetest"
)

func TestUnsafeSysctlsAreForbidden(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		allowed      []string
		network, ipc bool
		forbidden    string
	}{
		{name: "kernel.shm_rmid_forced"},
		{name: "kernel/shm_rmid_forced"},
		{name: "net/ipv4/tcp_syncookies"},
		{name: "kernel.msgmax", forbidden: `"kernel.msgmax" not allowlisted`},
		{name: "kernel.msgmax", allowed: []string{"kernel.msg*"}},
		{name: "kernel.msgmax", allowed: []string{"kernel.msg*"}, ipc: true, forbidden: `"kernel.msgmax" not allowed with host IPC enabled`},
		{name: "net.core.somaxconn", allowed: []string{"net.core.somaxconn"}},
		{name: "net.core.somaxconn2", allowed: []string{"net.core.somaxconn"}, forbidden: "not allowlisted"},
		{name: "net.ipv4.tcp_syncookies", network: true, forbidden: "not allowed with host network enabled"},
	} {
		pod := kubetest.Pod("web", "u1")
		pod.Spec.HostNetwork, pod.Spec.HostIPC = c.network, c.ipc
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: c.name, Value: "1"}}}
		if got := forbiddenSysctl(pod, c.allowed); (got == "") != (c.forbidden == "") || !strings.Contains(got, c.forbidden) {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestParseSysctls(t *testing.T) {
	t.Parallel()
	got, err := ParseSysctls("kernel.msg*, net/core/somaxconn")
	if err != nil || !slices.Equal(got, []string{"kernel.msg*", "net.core.somaxconn"}) {
		t.Errorf("%v, %v", got, err)
	}
	_, err = ParseSysctls("vm.swappiness,net.*.x,A")
	for _, want := range []string{"vm.swappiness", "net.*.x", `"A"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %s in %v", want, err)
		}
	}
}

func FuzzParseSysctls(f *testing.F) {
	f.Add("kernel.msg*,net/core/somaxconn")
	f.Fuzz(func(t *testing.T, text string) {
		names, _ := ParseSysctls(text)
		for _, n := range names {
			if namespaceOf(n) == "" || strings.Contains(strings.TrimSuffix(n, "*"), "*") {
				t.Errorf("%q: %q", text, n)
			}
		}
	})
}
