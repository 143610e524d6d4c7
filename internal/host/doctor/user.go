package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"unicode"
)

func isObject(text string) bool {
	var m map[string]any
	return json.Unmarshal([]byte(text), &m) == nil
}

const session = "log in with ssh or 'machinectl shell' rather than su or sudo, or as root run 'loginctl enable-linger %s' and set XDG_RUNTIME_DIR=/run/user/%d"

func checkRuntimeDir(_ context.Context, h Host) Finding {
	dir := h.Getenv("XDG_RUNTIME_DIR")
	fix := fmt.Sprintf(session, LingerUser(h.User, h.UID), h.UID)
	switch {
	case dir == "" && h.Getenv("CONTAINER_HOST") != "":
		return warn(fix, "XDG_RUNTIME_DIR is not set: sockets are in the state directory")
	case dir == "":
		return fail(fix, "XDG_RUNTIME_DIR is not set: there is no directory for Podman's socket")
	case !path.IsAbs(dir):
		return fail(fix, "XDG_RUNTIME_DIR is %q, which is not an absolute path", dir)
	}
	info, err := fs.Stat(h.Root, strings.TrimPrefix(path.Clean(dir), "/"))
	switch {
	case err != nil:
		return fail(fix, "XDG_RUNTIME_DIR is %s, which does not exist", dir)
	case !info.IsDir():
		return fail(fix, "XDG_RUNTIME_DIR is %s, which is not a directory", dir)
	case info.Mode().Perm()&0o077 != 0:
		return warn("chmod 700 "+dir, "other users can read XDG_RUNTIME_DIR, %s", dir)
	}
	return ok("XDG_RUNTIME_DIR is %s", dir)
}

func checkUserNamespaces(_ context.Context, h Host) Finding {
	if most, found := h.read("/proc/sys/user/max_user_namespaces"); found && most == "0" {
		return fail("sysctl -w user.max_user_namespaces=28633", "the kernel allows no user namespaces: rootless containers cannot run")
	}
	if clone, found := h.read("/proc/sys/kernel/unprivileged_userns_clone"); found && clone == "0" {
		return fail("sysctl -w kernel.unprivileged_userns_clone=1", "the kernel allows user namespaces only for root")
	}
	if held, found := h.read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"); found && held == "1" && !h.exists("/etc/apparmor.d/podman") {
		return warn("install a Podman whose package has /etc/apparmor.d/podman, or sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
			"AppArmor denies user namespaces to programs without a profile, and Podman has no profile")
	}
	return ok("user namespaces are allowed")
}

// leastIDs is the number of ids that images usually need.
const leastIDs = 65536

func checkSubIDs(_ context.Context, h Host) Finding {
	fix := fmt.Sprintf("as root usermod --add-subuids 100000-165535 --add-subgids 100000-165535 %s, with an unused range, then as %[1]s podman system migrate, which stops all containers", h.User)
	if h.elsewhere() {
		return ok("nsswitch.conf gets subordinate ids from a service")
	}
	var lack []string
	for _, file := range []string{"/etc/subuid", "/etc/subgid"} {
		text, _ := h.read(file)
		switch n := countIDs(text, h.User, h.UID); {
		case n == 0:
			lack = append(lack, fmt.Sprintf("%s has no range for %s", file, h.User))
		case n < leastIDs:
			lack = append(lack, fmt.Sprintf("%s has only %d ids for %s, and images use up to %d", file, n, h.User, leastIDs))
		}
	}
	if len(lack) > 0 {
		return fail(fix, "%s", strings.Join(lack, ", "))
	}
	return ok("%s has subordinate ids for containers", h.User)
}

// SubIDs returns how many subordinate user and group IDs the user has; 0 where that is not known.
func (h Host) SubIDs() (users, groups int) {
	if h.elsewhere() {
		return 0, 0
	}
	uids, _ := h.read("/etc/subuid")
	gids, _ := h.read("/etc/subgid")
	return countIDs(uids, h.User, h.UID), countIDs(gids, h.User, h.UID)
}

// elsewhere reports whether subordinate ids come from a service (shadow 4.9).
func (h Host) elsewhere() bool {
	text, _ := h.read("/etc/nsswitch.conf")
	for line := range strings.Lines(text) {
		if source, found := strings.CutPrefix(strings.TrimSpace(line), "subid:"); found {
			return strings.TrimSpace(source) != "files"
		}
	}
	return false
}

// countIDs adds up the ranges of a user in the lines NAME-OR-UID:FIRST:COUNT.
func countIDs(text, user string, uid int) (n int) {
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) != 3 || fields[0] != user && fields[0] != strconv.Itoa(uid) {
			continue
		}
		if count, err := strconv.Atoi(fields[2]); err == nil && count > 0 && count < 1<<32 {
			n += count
		}
	}
	return n
}

func checkIDMap(_ context.Context, h Host) Finding {
	for _, program := range []string{"newuidmap", "newgidmap"} {
		if !h.has(program) {
			return fail("apt-get install uidmap, or dnf install shadow-utils", "%s is not in PATH: containers can have only one user", program)
		}
	}
	return ok("newuidmap and newgidmap are installed")
}

// LingerFile is the file that exists while systemd keeps the manager of a user without a login.
// systemd-logind escapes the name, which has a backslash in it for users of a domain, as DOMAIN\ann.
func LingerFile(user string) string {
	return "/var/lib/systemd/linger/" + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `'`, `\'`).Replace(user)
}

// LingerUser returns the argument of loginctl for a user: the name, or the number if a shell would not take the name as one
// word.
func LingerUser(user string, uid int) string {
	if strings.ContainsFunc(user, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-@", r)
	}) {
		return strconv.Itoa(uid)
	}
	return user
}

func checkLinger(_ context.Context, h Host) Finding {
	if h.exists(LingerFile(h.User)) {
		return ok("tasks keep running after logout and can start at boot")
	}
	return warn("loginctl enable-linger, or as root loginctl enable-linger "+LingerUser(h.User, h.UID), "tasks end when %s logs out, and no task starts at boot", h.User)
}

// Space on disks, in bytes and percent.
const (
	littleSpace = 2 << 30
	noSpace     = 100 << 20
	fewFiles    = 5
)

func checkDisk(_ context.Context, h Host) Finding {
	dirs := []string{h.StateDir}
	if h.Podman != nil && h.Podman.GraphRoot != "" {
		dirs = append(dirs, h.Podman.GraphRoot)
	}
	least := uint64(1 << 63)
	for _, dir := range dirs {
		bytes, files, err := h.Free(dir)
		switch {
		case err != nil:
			return warn("", "the free space in %s is not known: %v", dir, err)
		case bytes < noSpace:
			return fail("free disk space, for example with podman system prune", "only %d MiB are free in %s", bytes>>20, dir)
		case bytes < littleSpace:
			return warn("free disk space, for example with podman system prune", "only %d MiB are free in %s", bytes>>20, dir)
		case files < fewFiles:
			return warn("remove files, for example with podman system prune", "only %d %% of the inodes are free in %s", files, dir)
		}
		least = min(least, bytes)
	}
	return ok("%d MiB are free for images and records", least>>20)
}
