package podadmission

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podtask/podtask/internal/lazy"
)

// safeSysctls are the sysctls that any Pod may set: they have no influence on other Pods
// (kubelet: sysctl.SafeSysctlAllowlist).
var safeSysctls = []string{
	"kernel.shm_rmid_forced",
	"net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports", "net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range",
	"net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_keepalive_time",
	"net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem",
}

// sysctlNames matches the name of a sysctl, or a pattern that ends with an asterisk.
var sysctlNames = lazy.MustCompile(`^[a-z0-9]([-_a-z0-9]*[a-z0-9])?([./][a-z0-9]([-_a-z0-9]*[a-z0-9])?)*([./_-]?\*)?$`)

// ParseSysctls reads a list of sysctls and patterns as NAME,NAME*. All problems are in the error.
func ParseSysctls(text string) (out []string, err error) {
	var errs []error
	for part := range strings.SplitSeq(text, ",") {
		name := dotted(strings.TrimSpace(part))
		switch {
		case name == "":
		case !sysctlNames.MatchString(name):
			errs = append(errs, fmt.Errorf("%q is neither the name of a sysctl nor a pattern as net.*", part))
		case namespaceOf(name) == "":
			errs = append(errs, fmt.Errorf("%q is a sysctl of the whole host: Pods can have kernel.sem and those of kernel.shm*, kernel.msg*, fs.mqueue.* and net.*", part))
		default:
			out = append(out, name)
		}
	}
	return out, errors.Join(errs...)
}

// dotted returns the name of a sysctl with dots between its parts: they may be slashes, and then a part may
// have dots (sysctl.conf(5)).
func dotted(name string) string {
	if at := strings.IndexAny(name, "./"); at < 0 || name[at] == '.' {
		return name
	}
	return strings.Map(func(r rune) rune {
		switch r {
		case '.':
			return '/'
		case '/':
			return '.'
		}
		return r
	}, name)
}

// namespaceOf returns the namespace of the kernel to which a sysctl belongs; empty if it is the host's.
func namespaceOf(name string) string {
	for _, prefix := range []string{"kernel.shm", "kernel.msg", "fs.mqueue."} {
		if strings.HasPrefix(name, prefix) {
			return "IPC"
		}
	}
	switch {
	case name == "kernel.sem":
		return "IPC"
	case strings.HasPrefix(name, "net."):
		return "network"
	}
	return ""
}

// forbiddenSysctl returns the first sysctl of a Pod that the node does not allow; empty if all are allowed. Allowed are
// the names and patterns beside the safe ones.
func forbiddenSysctl(pod *corev1.Pod, allowed []string) string {
	if pod.Spec.SecurityContext == nil {
		return ""
	}
	for _, s := range pod.Spec.SecurityContext.Sysctls {
		name := dotted(s.Name)
		switch space := namespaceOf(name); {
		case !matchesSysctl(name, safeSysctls) && !matchesSysctl(name, allowed):
			return fmt.Sprintf("forbidden sysctl: %q not allowlisted", name)
		case space == "IPC" && pod.Spec.HostIPC, space == "network" && pod.Spec.HostNetwork:
			return fmt.Sprintf("forbidden sysctl: %q not allowed with host %s enabled", name, space)
		}
	}
	return ""
}

func matchesSysctl(name string, patterns []string) bool {
	for _, p := range patterns {
		prefix, open := strings.CutSuffix(p, "*")
		if name == p || open && strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
