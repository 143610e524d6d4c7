package messages

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Limit bounds the bytes of a message, of which the last ones are kept (kubelet: MaxContainerTerminationMessageLength).
const Limit = 4096

// Dir is the directory of all messages.
type Dir string

// In returns the directory of messages in a state directory.
func In(stateDir string) Dir { return Dir(filepath.Join(stateDir, "messages")) }

func (d Dir) task(id string) string { return filepath.Join(string(d), id) }

func (d Dir) file(s lifecycle.State, i int) string {
	return filepath.Join(d.task(s.ID), s.Task.Containers[i].Name)
}

// Mount gives container i its file, if it is to have one.
func (d Dir) Mount(spec *libpod.ContainerSpec, s lifecycle.State, i int) error {
	inside := s.Task.Containers[i].Extensions.Kube.MessagePath
	if inside == "" {
		return nil
	}
	file := d.file(s, i)
	if err := create(file); err != nil {
		return err
	}
	spec.Binds = append(spec.Binds, libpod.Bind{HostPath: file, Path: inside, Relabel: "Z"})
	return nil
}

// create makes a file that every user of a container can write to, where there is none.
// Outside, the state directory is the user's alone.
func create(file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("termination message: %w", err)
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return fmt.Errorf("termination message: %w", err)
	}
	err = errors.Join(f.Chmod(0o666), f.Close())
	if err != nil {
		return fmt.Errorf("termination message: %w", err)
	}
	return nil
}

// Begin gives container i an empty file before restart n, and keeps the message of the run
// before. It may be repeated.
func (d Dir) Begin(s lifecycle.State, i, n int) error {
	if n <= 0 || s.Task.Containers[i].Extensions.Kube.MessagePath == "" {
		return nil
	}
	file := d.file(s, i)
	kept := run(file, n-1)
	switch _, err := os.Lstat(kept); {
	case err == nil:
		return create(file)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("termination message: %w", err)
	}
	if err := os.Rename(file, kept); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("termination message: %w", err)
	}
	if n > 1 {
		if err := os.Remove(run(file, n-2)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("termination message: %w", err)
		}
	}
	return create(file)
}

// run returns the file for the message of a run that is no longer the latest. No container has a dot in its name.
func run(file string, n int) string { return file + "." + strconv.Itoa(n) }

// Read returns the message of the latest run of container i, and that of the run before.
func (d Dir) Read(s lifecycle.State, i int) (now, before string) {
	if s.Task.Containers[i].Extensions.Kube.MessagePath == "" {
		return "", ""
	}
	file := d.file(s, i)
	return tail(file), tail(run(file, s.Containers[i].Restarts-1))
}

// tail returns the last bytes of a file as text; empty where it cannot be read.
func tail(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > Limit {
		if _, err := f.Seek(-Limit, io.SeekEnd); err != nil {
			return ""
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, Limit))
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(string(text), "\ufffd")
}

// Remove removes the files of a task.
func (d Dir) Remove(id string) error { return os.RemoveAll(d.task(id)) }
