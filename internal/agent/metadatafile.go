package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path"
	"path/filepath"

	"github.com/podtask/podtask/pkg/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/metadata"
)

// fileDir is where the host keeps the metadata files of a task, one directory
// for each container, which it mounts.
func (m *Metadata) fileDir(id string) string { return filepath.Join(m.stateDir, "metadata", id) }

// AddFile gives container i its metadata file, if the task is to have some.
// What is in it is complete before the container starts: see endpoint.describe.
func (m *Metadata) AddFile(spec *libpod.ContainerSpec, s lifecycle.State, i int) error {
	if !s.Options.MetadataFile {
		return nil
	}
	if err := m.writeFile(s, i, nil); err != nil {
		return err
	}
	name := s.Task.Containers[i].Name
	inside := metadata.FileDir(s.Options.MetadataKey, name)
	spec.Binds = append(spec.Binds, libpod.Bind{HostPath: filepath.Join(m.fileDir(s.ID), name), Path: inside, ReadOnly: true, Relabel: "Z"})
	if _, own := spec.Env[metadata.FileEnv]; !own {
		spec.Env[metadata.FileEnv] = path.Join(inside, metadata.FileName)
	}
	return nil
}

// writeFile replaces the file in one move. The user in the container may be
// any, so all may read it; outside, the state directory is the user's alone.
func (m *Metadata) writeFile(s lifecycle.State, i int, addresses []netip.Addr) error {
	dir := filepath.Join(m.fileDir(s.ID), s.Task.Containers[i].Name)
	text, err := json.Marshal(metadata.FileOf(s, i, metadataNames(s), addresses))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("metadata file: %w", err)
	}
	file := filepath.Join(dir, metadata.FileName)
	if err := os.WriteFile(file+".new", text, 0o644); err != nil {
		return fmt.Errorf("metadata file: %w", err)
	}
	return os.Rename(file+".new", file)
}

// describe completes the metadata file of container i, which is about to start. A
// container whose file cannot be written runs all the same: most never look.
func (e *endpoint) describe(ctx context.Context, s lifecycle.State, i int) {
	if !s.Options.MetadataFile {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, endpointLimit)
	defer cancel()
	_, err := e.open(ctx, s) // which finds the addresses
	if err != nil {
		e.metadata.log.Warn("the addresses of the task are not known", "task", s.ID, "error", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.metadata.writeFile(s, i, e.addresses); err != nil {
		e.metadata.log.Warn("the metadata file is not complete", "task", s.ID, "error", err)
	}
}
