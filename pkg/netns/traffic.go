package netns

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// Traffic counts what went over the network interfaces of a namespace but its
// loopback, in bytes, since they were made.
type Traffic struct {
	Received uint64 `json:"received"`
	Sent     uint64 `json:"sent"`
}

// ReadTraffic reads the traffic of the namespace that a process is in from the
// files of root (os.DirFS("/")).
func ReadTraffic(root fs.FS, pid int) (Traffic, error) {
	text, err := fs.ReadFile(root, fmt.Sprintf("proc/%d/net/dev", pid))
	if err != nil {
		return Traffic{}, fmt.Errorf("read the traffic of process %d: %w", pid, err)
	}
	return parseTraffic(text), nil
}

// parseTraffic adds up the lines of /proc/PID/net/dev, which have an interface,
// eight numbers of what it received and eight of what it sent, bytes first.
func parseTraffic(text []byte) (t Traffic) {
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		name, numbers, ok := strings.Cut(lines.Text(), ":")
		fields := strings.Fields(numbers)
		if !ok || strings.TrimSpace(name) == "lo" || len(fields) < 16 {
			continue
		}
		received, errReceived := strconv.ParseUint(fields[0], 10, 64)
		sent, errSent := strconv.ParseUint(fields[8], 10, 64)
		if errReceived == nil && errSent == nil {
			t.Received += received
			t.Sent += sent
		}
	}
	return t
}
