package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// The quotas of the kernel that a host with many tasks reaches first. A task needs one of
// most of them for each container and one for its pod, so that the default of 200 keys is
// used up by about 95 tasks of one container.

// nearlyFull is the use in percent from which a quota is a warning.
const nearlyFull = 80

// leastFree is how many containers a quota must have room for, not to be a warning.
const leastFree = 20

// quota is one limit of the kernel.
type quota struct {
	name string // as in sysctl
	most int
	used int // -1: not known
}

func (q quota) String() string {
	if q.used < 0 {
		return fmt.Sprintf("%s is %d", q.name, q.most)
	}
	return fmt.Sprintf("%s is %d, of which %d are used", q.name, q.most, q.used)
}

// scarce reports whether little is left.
func (q quota) scarce() bool {
	return q.most < leastFree || q.used >= 0 && (q.used*100 >= q.most*nearlyFull || q.most-q.used < leastFree)
}

// finding reports quotas, as a warning where one of them is scarce.
func finding(quotas []quota, fix string) Finding {
	f := Finding{Level: OK, Fix: fix}
	var texts []string
	for _, q := range quotas {
		texts = append(texts, q.String())
		if q.scarce() {
			f.Level = Warn
		}
	}
	f.Text = strings.Join(texts, "; ")
	return f
}

// number reads a file with one number.
func (h Host) number(name string) (n int, found bool) {
	text, found := h.read(name)
	n, err := strconv.Atoi(text)
	return n, found && err == nil && n >= 0
}

// checkKeys: each container and each pod has a session keyring, and a user's keys are
// limited in number and size (keyrings(7)).
func checkKeys(_ context.Context, h Host) Finding {
	most, found := h.number("/proc/sys/kernel/keys/maxkeys")
	bytes, foundBytes := h.number("/proc/sys/kernel/keys/maxbytes")
	if !found || !foundBytes {
		return ok("the kernel has no quota of keys")
	}
	keys, used := h.keyUse()
	return finding([]quota{{"kernel.keys.maxkeys", most, keys}, {"kernel.keys.maxbytes", bytes, used}},
		"for more containers: sysctl -w kernel.keys.maxkeys=20000 kernel.keys.maxbytes=2000000, or keyring = false under [containers] in containers.conf")
}

// keyUse reads the line of the user in /proc/key-users, whose last two fields are keys and
// bytes that count for the quota: "1000:  5 5/5 4/200 62/20000".
func (h Host) keyUse() (keys, bytes int) {
	text, _ := h.read("/proc/key-users")
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) != 5 || fields[0] != strconv.Itoa(h.UID)+":" {
			continue
		}
		n, _, _ := strings.Cut(fields[3], "/")
		m, _, _ := strings.Cut(fields[4], "/")
		keys, err1 := strconv.Atoi(n)
		bytes, err2 := strconv.Atoi(m)
		if err1 == nil && err2 == nil && keys >= 0 && bytes >= 0 {
			return keys, bytes
		}
	}
	return -1, -1
}

// checkInotify: conmon watches each container's cgroup, and podtask its own files.
func checkInotify(_ context.Context, h Host) Finding {
	instances, found := h.number("/proc/sys/fs/inotify/max_user_instances")
	watches, foundWatches := h.number("/proc/sys/fs/inotify/max_user_watches")
	if !found || !foundWatches {
		return ok("the limits of inotify are not known")
	}
	return finding([]quota{{"fs.inotify.max_user_instances", instances, -1}, {"fs.inotify.max_user_watches", watches, -1}},
		"for more containers: sysctl -w fs.inotify.max_user_instances=8192 fs.inotify.max_user_watches=524288")
}

// checkProcesses: processes and threads of the user's slice, or of the whole host.
func checkProcesses(_ context.Context, h Host) Finding {
	slice := fmt.Sprintf("/sys/fs/cgroup/user.slice/user-%d.slice/", h.UID)
	var quotas []quota
	if most, found := h.number(slice + "pids.max"); found {
		used, known := h.number(slice + "pids.current")
		if !known {
			used = -1
		}
		quotas = append(quotas, quota{fmt.Sprintf("TasksMax of user-%d.slice", h.UID), most, used})
	}
	if most, found := h.number("/proc/sys/kernel/pid_max"); found {
		quotas = append(quotas, quota{"kernel.pid_max", most, -1})
	}
	if len(quotas) == 0 {
		return ok("the limits on processes are not known")
	}
	return finding(quotas, fmt.Sprintf("for more processes: systemctl set-property user-%d.slice TasksMax=N (as root), sysctl -w kernel.pid_max=4194304", h.UID))
}

// checkOpenFiles: podtask and Podman's service keep a few files open for each container.
func checkOpenFiles(_ context.Context, h Host) Finding {
	text, _ := h.read("/proc/self/limits")
	for line := range strings.Lines(text) {
		rest, found := strings.CutPrefix(line, "Max open files")
		if fields := strings.Fields(rest); found && len(fields) >= 2 {
			if fields[1] == "unlimited" {
				return ok("the number of open files is not limited")
			}
			if most, err := strconv.Atoi(fields[1]); err == nil && most >= 0 {
				return finding([]quota{{"the hard limit on open files (ulimit -Hn)", most, -1}},
					"for more containers: DefaultLimitNOFILE=N in /etc/systemd/user.conf, or LimitNOFILE=N in the unit")
			}
		}
	}
	return ok("the limit on open files is not known")
}
