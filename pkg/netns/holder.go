package netns

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Holder is the process or user that has a port open.
type Holder struct {
	UID     int    // owner of the socket
	PID     int    // 0: not visible, as with other users' processes
	Command string // name of the program; empty without PID
}

// String returns "process 4711 (nginx)" or "user 33".
func (h Holder) String() string {
	if h.PID == 0 {
		return fmt.Sprintf("user %d", h.UID)
	}
	return fmt.Sprintf("process %d (%s)", h.PID, h.Command)
}

// FindHolder finds who has the port open in this network namespace, as far as
// /proc tells: the owner always, the process only among the user's own. Found is
// false if the port is free.
func FindHolder(protocol string, port uint16) (h Holder, found bool) {
	return findHolder(os.DirFS("/proc"), protocol, port)
}

func findHolder(proc fs.FS, protocol string, port uint16) (Holder, bool) {
	for _, table := range []string{protocol, protocol + "6"} {
		text, err := fs.ReadFile(proc, path.Join("net", table))
		if err != nil {
			continue
		}
		for _, s := range parseSockets(text) {
			if s.port == port && s.waits(protocol) {
				h := Holder{UID: s.uid}
				h.PID, h.Command = findProcess(proc, s.inode)
				return h, true
			}
		}
	}
	return Holder{}, false
}

// socket is one line of /proc/net/tcp and its like.
type socket struct {
	port  uint16
	state string // hexadecimal, as in include/net/tcp_states.h
	uid   int
	inode uint64
}

// waits tells whether the socket takes what comes to its port: a listening tcp
// socket (0A), or a udp one that is not connected (07).
func (s socket) waits(protocol string) bool {
	return protocol == "tcp" && s.state == "0A" || protocol == "udp" && s.state == "07"
}

// parseSockets reads the format of proc(5), /proc/net/tcp; lines that do not fit
// are left out.
func parseSockets(text []byte) []socket {
	var found []socket
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 10 {
			continue
		}
		_, hexPort, _ := strings.Cut(f[1], ":")
		port, errPort := strconv.ParseUint(hexPort, 16, 16)
		uid, errUID := strconv.ParseUint(f[7], 10, 32)
		inode, errInode := strconv.ParseUint(f[9], 10, 64)
		if errPort != nil || errUID != nil || errInode != nil {
			continue
		}
		found = append(found, socket{port: uint16(port), state: f[3], uid: int(uid), inode: inode})
	}
	return found
}

// findProcess looks for a process with the socket open; 0 when none is visible.
// Of several, as after a fork, it takes the lowest number.
func findProcess(proc fs.FS, inode uint64) (pid int, command string) {
	target := fmt.Sprintf("socket:[%d]", inode)
	entries, err := fs.ReadDir(proc, ".")
	if err != nil {
		return 0, ""
	}
	var pids []int
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, n)
		}
	}
	slices.Sort(pids)
	for _, n := range pids {
		dir := strconv.Itoa(n)
		if !hasOpen(proc, path.Join(dir, "fd"), target) {
			continue
		}
		name, err := fs.ReadFile(proc, path.Join(dir, "comm"))
		if err != nil {
			continue // gone meanwhile
		}
		return n, strings.TrimSpace(string(name))
	}
	return 0, ""
}

func hasOpen(proc fs.FS, dir, target string) bool {
	fds, err := fs.ReadDir(proc, dir)
	if err != nil {
		return false // of another user, or gone
	}
	for _, fd := range fds {
		if to, err := fs.ReadLink(proc, path.Join(dir, fd.Name())); err == nil && to == target {
			return true
		}
	}
	return false
}
