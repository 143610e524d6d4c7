package define

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"runtime"

	"github.com/podtask/podtask/internal/define/pod"
	"github.com/podtask/podtask/internal/host/doctor"
	"github.com/podtask/podtask/internal/uuid"
	"github.com/podtask/podtask/pkg/taskdef"
	"golang.org/x/sys/unix"
)

// PodOptions returns what a Kubernetes manifest gets from this host: its name, and a UID for
// the Pod.
func PodOptions() pod.Options {
	facts := map[string]string{"metadata.uid": uuid.New()}
	if name, err := os.Hostname(); err == nil {
		facts["spec.nodeName"] = name
	}
	if all := HostAddresses(); len(all) > 0 {
		facts["status.hostIP"], facts["status.hostIPs"] = all[0].String(), all[0].String()
	}
	o := pod.Options{Facts: facts, CPU: int64(runtime.NumCPU()) * 1000}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		o.Memory = int64(info.Totalram) * int64(info.Unit)
	}
	return o
}

// hostIDs are the IDs that this user has in containers: root, and those of /etc/subuid and /etc/subgid.
func hostIDs() taskdef.IDs {
	who, err := user.Current()
	if err != nil || who.Uid == "0" {
		return taskdef.IDs{}
	}
	users, groups := doctor.Host{Root: os.DirFS("/"), User: who.Username, UID: os.Getuid()}.SubIDs()
	return taskdef.IDs{User: int64(users), Group: int64(groups)}
}

// checkHostPath creates a hostPath if its type says so, and reports a path of another type.
func checkHostPath(p pod.HostPath) error {
	info, err := os.Stat(p.Path)
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case p.Type == "":
		return nil
	case missing && p.Type == "DirectoryOrCreate":
		return os.MkdirAll(p.Path, 0o755)
	case missing && p.Type == "FileOrCreate":
		f, err := os.OpenFile(p.Path, os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			return fmt.Errorf("hostPath %s: %w", filepath.Clean(p.Path), err)
		}
		return f.Close()
	case err != nil:
		return fmt.Errorf("hostPath of type %s: %w", p.Type, err)
	}
	mode := info.Mode()
	ok := map[string]bool{
		"DirectoryOrCreate": mode.IsDir(), "Directory": mode.IsDir(), "FileOrCreate": mode.IsRegular(), "File": mode.IsRegular(),
		"Socket": mode&fs.ModeSocket != 0, "CharDevice": mode&fs.ModeCharDevice != 0, "BlockDevice": mode&fs.ModeDevice != 0 && mode&fs.ModeCharDevice == 0,
	}[p.Type]
	if !ok {
		return fmt.Errorf("hostPath %s is not of type %s", filepath.Clean(p.Path), p.Type)
	}
	return nil
}

// HostAddresses returns the address from which this host reaches others, where it has one.
func HostAddresses() []netip.Addr {
	for _, far := range []string{"192.0.2.1:9", "[2001:db8::1]:9"} { // nothing is sent
		c, err := net.Dial("udp", far)
		if err != nil {
			continue
		}
		at, err := netip.ParseAddrPort(c.LocalAddr().String())
		_ = c.Close()
		if err == nil {
			return []netip.Addr{at.Addr()}
		}
	}
	return nil
}
