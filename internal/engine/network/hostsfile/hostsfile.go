package hostsfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/engine/network/names"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
	"golang.org/x/sys/unix"
)

// inside is where containers have the file.
const inside = "/etc/hosts"

// Dir is the directory of all files.
type Dir string

// In returns the directory of the files in a state directory.
func In(stateDir string) Dir { return Dir(filepath.Join(stateDir, "hosts")) }

func (d Dir) file(id string) string { return filepath.Join(string(d), id) }

// Of returns the file of a task of which a container is to have one; empty for others.
func (d Dir) Of(s lifecycle.State) string {
	if !slices.ContainsFunc(s.Task.Containers, func(c taskdef.Container) bool { return c.Extensions.Kube.HostsFile }) {
		return ""
	}
	return d.file(s.ID)
}

// Mount gives container i the file of its task, if it is to have one.
func (d Dir) Mount(spec *libpod.ContainerSpec, s lifecycle.State, i int) error {
	if !s.Task.Containers[i].Extensions.Kube.HostsFile {
		return nil
	}
	if err := d.write(s); err != nil {
		return err
	}
	spec.Binds = append(spec.Binds, libpod.Bind{HostPath: d.file(s.ID), Path: inside, Relabel: "z"})
	return nil
}

// Complete brings the file up to date before container i starts: the address of the task is known then,
// and is another one when the network of the task was made again.
func (d Dir) Complete(s lifecycle.State, i int) error {
	if !s.Task.Containers[i].Extensions.Kube.HostsFile {
		return nil
	}
	return d.write(s)
}

// Remove removes the file of a task.
func (d Dir) Remove(id string) error {
	if err := os.Remove(d.file(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// write changes the file itself: containers mount it, and would not see another one in its place.
func (d Dir) write(s lifecycle.State) error {
	if err := d.tryWrite(s); err != nil {
		return fmt.Errorf("hosts file: %w", err)
	}
	return nil
}

func (d Dir) tryWrite(s lifecycle.State) (err error) {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(d.file(s.ID), os.O_RDWR|os.O_CREATE, 0o644) // the users of containers read it
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil { // package names appends lines
		return err
	}
	text, err := content(s, os.DirFS("/"))
	if err != nil {
		return err
	}
	lines, err := names.Lines(filepath.Join(filepath.Dir(string(d)), "names"), s.ID)
	if err != nil {
		return err
	}
	for _, l := range lines {
		text = append(append(text, l...), '\n')
	}
	if before, err := io.ReadAll(f); err != nil || bytes.Equal(before, text) {
		return err
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.WriteAt(text, 0)
	return err
}

// Begins of the files, as a kubelet writes them.
const (
	own = "# Kubernetes-managed hosts file.\n" +
		"127.0.0.1\tlocalhost\n" +
		"::1\tlocalhost ip6-localhost ip6-loopback\n" +
		"fe00::0\tip6-localnet\n" +
		"fe00::0\tip6-mcastprefix\n" +
		"fe00::1\tip6-allnodes\n" +
		"fe00::2\tip6-allrouters\n"
	ofHost  = "# Kubernetes-managed hosts file (host network).\n"
	aliases = "\n# Entries added by HostAliases.\n"
)

// content is the file of a task: with the network of the host that of the host, else with the addresses
// and the name of the Pod. Names of one address that follow each other share a line.
func content(s lifecycle.State, root fs.FS) ([]byte, error) {
	var out strings.Builder
	if s.Task.Network == taskdef.NetworkHost {
		text, err := fs.ReadFile(root, strings.TrimPrefix(inside, "/"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		out.WriteString(ofHost)
		out.Write(text)
	} else {
		out.WriteString(own)
		if name := s.Task.Containers[0].Net.Hostname; name != "" {
			for _, a := range s.Sandbox.Addresses {
				fmt.Fprintf(&out, "%s\t%s\n", a, name)
			}
		}
	}
	before := ""
	for _, h := range s.Task.ExtraHosts() {
		switch before {
		case "":
			fmt.Fprintf(&out, "%s%s\t%s", aliases, h.Address, h.Name)
		case h.Address:
			out.WriteString("\t" + h.Name)
		default:
			fmt.Fprintf(&out, "\n%s\t%s", h.Address, h.Name)
		}
		before = h.Address
	}
	if before != "" {
		out.WriteString("\n")
	}
	return []byte(out.String()), nil
}
