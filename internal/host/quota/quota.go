package quota

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Unknown is the use of a quota that the system does not report.
const Unknown = -1

// Quota is one limit of the kernel for a user.
type Quota struct {
	// Name is the name of the sysctl or setting that changes it.
	Name string
	// Most is the limit, and Used how much of it is in use; Used may be Unknown.
	Most, Used int64
}

// Free returns how much is left, which is Most if the use is not known.
func (q Quota) Free() int64 {
	if q.Used == Unknown {
		return q.Most
	}
	return max(0, q.Most-q.Used)
}

// Keys returns the quotas of keys and of their size in bytes. Each container and each pod
// has a session keyring (keyrings(7)). Nothing is returned if the kernel has no such quota.
func Keys(root fs.FS, uid int) []Quota {
	prefix := ""
	if uid == 0 {
		prefix = "root_"
	}
	most, found := number(root, "proc/sys/kernel/keys/"+prefix+"maxkeys")
	bytes, foundBytes := number(root, "proc/sys/kernel/keys/"+prefix+"maxbytes")
	if !found || !foundBytes {
		return nil
	}
	keys, used := keyUse(root, uid)
	return []Quota{{"kernel.keys." + prefix + "maxkeys", most, keys}, {"kernel.keys." + prefix + "maxbytes", bytes, used}}
}

// keyUse reads the user's line of /proc/key-users, whose last two fields are the keys and
// the bytes that count: "1000:  5 5/5 4/200 62/20000". A user without a line has no key.
func keyUse(root fs.FS, uid int) (keys, bytes int64) {
	text, err := fs.ReadFile(root, "proc/key-users")
	if err != nil {
		return Unknown, Unknown
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) != 5 || fields[0] != strconv.Itoa(uid)+":" {
			continue
		}
		n, _, _ := strings.Cut(fields[3], "/")
		m, _, _ := strings.Cut(fields[4], "/")
		keys, err1 := strconv.ParseInt(n, 10, 64)
		bytes, err2 := strconv.ParseInt(m, 10, 64)
		if err1 != nil || err2 != nil || keys < 0 || bytes < 0 {
			return Unknown, Unknown
		}
		return keys, bytes
	}
	return 0, 0
}

// Inotify returns the quotas of inotify instances and watches; nothing if they are not
// known. The system does not report their use.
func Inotify(root fs.FS) []Quota {
	instances, found := number(root, "proc/sys/fs/inotify/max_user_instances")
	watches, foundWatches := number(root, "proc/sys/fs/inotify/max_user_watches")
	if !found || !foundWatches {
		return nil
	}
	return []Quota{{"fs.inotify.max_user_instances", instances, Unknown}, {"fs.inotify.max_user_watches", watches, Unknown}}
}

// Processes returns the limits on processes and threads of the user's slice and of the
// user's manager, as far as there are any.
func Processes(root fs.FS, uid int) []Quota {
	slice := fmt.Sprintf("user-%d.slice", uid)
	var quotas []Quota
	for _, group := range []string{slice, slice + fmt.Sprintf("/user@%d.service", uid)} {
		dir := "sys/fs/cgroup/user.slice/" + group
		if most, found := number(root, dir+"/pids.max"); found {
			used, known := number(root, dir+"/pids.current")
			if !known {
				used = Unknown
			}
			quotas = append(quotas, Quota{"TasksMax of " + path.Base(group), most, used})
		}
	}
	return quotas
}

// PIDs returns the number of processes and threads that the whole host may have.
func PIDs(root fs.FS) []Quota {
	if most, found := number(root, "proc/sys/kernel/pid_max"); found {
		return []Quota{{"kernel.pid_max", most, Unknown}}
	}
	return nil
}

// OpenFiles returns the hard limit on open files of this process. Limited is false if there
// is none, or it is not known.
func OpenFiles(root fs.FS) (q Quota, limited bool) {
	text, err := fs.ReadFile(root, "proc/self/limits")
	if err != nil {
		return Quota{}, false
	}
	for line := range strings.Lines(string(text)) {
		rest, found := strings.CutPrefix(line, "Max open files")
		if fields := strings.Fields(rest); found && len(fields) >= 2 {
			most, err := strconv.ParseInt(fields[1], 10, 64)
			return Quota{"the hard limit on open files (ulimit -Hn)", most, Unknown}, err == nil && most >= 0
		}
	}
	return Quota{}, false
}

// number reads a file that holds one number, which is not negative.
func number(root fs.FS, name string) (n int64, found bool) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	n, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil && n >= 0
}
