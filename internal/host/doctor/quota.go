package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/podtask/podtask/internal/host/quota"
)

// The quotas of the kernel that a host with many tasks reaches first. A task needs one of
// most of them for each container, infra containers included, so that the default of 200 keys is
// used up by about 190 tasks of one container.

// nearlyFull is the use in percent from which a quota is a warning.
const nearlyFull = 80

// leastFree is the number of containers that a quota must have room for, not to be a warning.
const leastFree = 20

// scarce reports whether little of a quota is left.
func scarce(q quota.Quota) bool {
	return q.Free() < leastFree || q.Used != quota.Unknown && q.Used*100 >= q.Most*nearlyFull
}

// quotaText describes a quota and its use.
func quotaText(q quota.Quota) string {
	if q.Used == quota.Unknown {
		return fmt.Sprintf("%s is %d", q.Name, q.Most)
	}
	return fmt.Sprintf("%s is %d, of which %d are used", q.Name, q.Most, q.Used)
}

// finding reports quotas, as a warning where one of them is scarce.
func finding(quotas []quota.Quota, fix string) Finding {
	f := Finding{Level: OK, Fix: fix}
	var texts []string
	for _, q := range quotas {
		texts = append(texts, quotaText(q))
		if scarce(q) {
			f.Level = Warn
		}
	}
	f.Text = strings.Join(texts, "; ")
	return f
}

// checkKeys: each container has a session keyring, and a user's keys are
// limited in number and size (keyrings(7)).
func checkKeys(_ context.Context, h Host) Finding {
	quotas := quota.Keys(h.Root, h.UID)
	switch {
	case len(quotas) == 0:
		return ok("the kernel has no quota of keys")
	case h.Podman != nil && h.Podman.NoKeyring:
		return ok("containers use no keys (keyring = false in containers.conf); %s", quotaText(quotas[0]))
	}
	return finding(quotas, "for more containers: sysctl -w kernel.keys.maxkeys=20000 kernel.keys.maxbytes=2000000, or keyring = false under [containers] in containers.conf")
}

// checkInotify: conmon watches each container's cgroup, and podtask its own files.
func checkInotify(_ context.Context, h Host) Finding {
	quotas := quota.Inotify(h.Root)
	if len(quotas) == 0 {
		return ok("the limits of inotify are not known")
	}
	return finding(quotas, "for more containers: sysctl -w fs.inotify.max_user_instances=8192 fs.inotify.max_user_watches=524288")
}

// checkProcesses: processes and threads of the user's slice, or of the whole host.
func checkProcesses(_ context.Context, h Host) Finding {
	quotas := append(quota.Processes(h.Root, h.UID), quota.PIDs(h.Root)...)
	if len(quotas) == 0 {
		return ok("the limits on processes are not known")
	}
	return finding(quotas, fmt.Sprintf("for more processes: systemctl set-property user-%d.slice TasksMax=N (as root), sysctl -w kernel.pid_max=4194304", h.UID))
}

// checkOpenFiles: podtask and Podman's service keep a few files open for each container.
func checkOpenFiles(_ context.Context, h Host) Finding {
	q, limited := quota.OpenFiles(h.Root)
	if !limited {
		return ok("the number of open files is not limited")
	}
	return finding([]quota.Quota{q}, "for more containers: DefaultLimitNOFILE=N in /etc/systemd/user.conf, or LimitNOFILE=N in the unit")
}
