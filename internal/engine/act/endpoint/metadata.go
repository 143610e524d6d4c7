package endpoint

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/podtask/podtask/internal/engine/facts/metadata"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/internal/engine/network/names"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/host/secretsource"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Factory is what the metadata endpoints of all tasks have in common.
type Factory struct {
	Log      *slog.Logger
	Settings config.Metadata
	StateDir string
	// Namespaces is nil where tasks have no endpoint.
	Namespaces Namespaces
	// Names are made reachable where the endpoint is; nil for none.
	Names *names.Directory
	// Networks is nil where tasks can have no faults.
	Networks    Networks
	Podman      func(context.Context) (Podman, error)
	DockerStats func(context.Context) (DockerStatsReader, error)
	// Now is the clock of faults; nil means time.Now.
	Now func() time.Time
	// Getenv reads podtask's environment.
	Getenv func(string) string
	// Role reads the source of a task's role (Identity.TaskRoleSource).
	Role func(context.Context, lifecycle.State) ([]byte, error)
}

func (m *Factory) now() time.Time {
	if m.Now != nil {
		return m.Now()
	}
	return time.Now()
}

// metadataNames are how the parts of a task are called.
func metadataNames(s lifecycle.State) metadata.Names {
	return metadata.Names{
		Cluster: taskspec.Cluster(s), TaskARN: taskspec.TaskARN(s), Revision: taskspec.Revision(s),
		Container: func(i int) (string, map[string]string) { return taskspec.ContainerName(s, i), taskspec.Labels(s, i) },
		Volume:    func(n int) string { return taskspec.VolumeName(s, n) },
	}
}

func (m *Factory) stats(ctx context.Context, name string) (json.RawMessage, error) {
	podman, err := m.DockerStats(ctx)
	if err != nil {
		return nil, err
	}
	return podman.DockerStats(ctx, name)
}

// Options adds to the options of a new task what its endpoint needs. A Kubernetes Pod has one for
// credentials only: what finds more takes it for a task of ECS.
func (m *Factory) Options(t taskdef.Task, o lifecycle.Options) lifecycle.Options {
	credentials, isPod := t.Identity.TaskRoleSource != "" || len(m.Settings.CredentialsHelper) > 0, len(t.Extensions.Pod) > 0
	if m.Namespaces != nil && m.Settings.Enabled && (credentials || !isPod) {
		o.MetadataKey, o.Credentials = record.NewID(), credentials
		o.Region = cmp.Or(m.Settings.Region, m.Getenv("AWS_REGION"), m.Getenv("AWS_DEFAULT_REGION"))
		if !isPod {
			o.ExecutionEnv, o.MetadataFile = executionEnv, m.Settings.File
		}
	}
	return o
}

// executionEnv is AWS_EXECUTION_ENV of a task that ECS runs on a machine of the user.
const executionEnv = "AWS_ECS_EC2"

// credentials returns the configured program for one task, or the source of its role: it
// prints what a credential_process of the AWS configuration prints, and is told for which role. Each task
// has its own, so that none gets what was fetched for another.
func (m *Factory) credentials(s lifecycle.State) *metadata.Helper {
	who := s.Task.Identity
	var read func(context.Context) ([]byte, error)
	if who.TaskRoleSource != "" {
		read = func(ctx context.Context) ([]byte, error) { return m.Role(ctx, s) }
	}
	return &metadata.Helper{
		Read:    read,
		Fresh:   secretsource.IsFile(who.TaskRoleSource),
		Command: m.Settings.CredentialsHelper,
		RoleARN: cmp.Or(who.TaskRoleARN, arn.Of("iam", "role/podtask")),
		Env: []string{
			"PODTASK_TASK_ID=" + s.ID, "PODTASK_TASK_FAMILY=" + s.Task.Family,
			"PODTASK_TASK_ROLE_ARN=" + who.TaskRoleARN, "PODTASK_EXECUTION_ROLE_ARN=" + who.ExecutionRoleARN,
		},
	}
}

// FileDir is where the host keeps the metadata files of a task, one directory
// for each container, which it mounts.
func (m *Factory) FileDir(id string) string { return filepath.Join(m.StateDir, "metadata", id) }

// AddFile gives container i its metadata file, if the task is to have some.
// What is in it is complete before the container starts: see endpoint.describe.
func (m *Factory) AddFile(spec *libpod.ContainerSpec, s lifecycle.State, i int) error {
	if !s.Options.MetadataFile {
		return nil
	}
	if err := m.writeFile(s, i, nil); err != nil {
		return err
	}
	name := s.Task.Containers[i].Name
	inside := metadata.FileDir(s.Options.MetadataKey, name)
	spec.Binds = append(spec.Binds, libpod.Bind{HostPath: filepath.Join(m.FileDir(s.ID), name), Path: inside, ReadOnly: true, Relabel: "Z"})
	if _, own := spec.Env[metadata.FileEnv]; !own {
		spec.Env[metadata.FileEnv] = path.Join(inside, metadata.FileName)
	}
	return nil
}

// writeFile replaces the file in one move. The user in the container may be
// any, so all may read it; outside, the state directory is the user's alone.
func (m *Factory) writeFile(s lifecycle.State, i int, addresses []netip.Addr) error {
	dir := filepath.Join(m.FileDir(s.ID), s.Task.Containers[i].Name)
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
