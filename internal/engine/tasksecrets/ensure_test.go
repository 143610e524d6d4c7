package tasksecrets_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podtask/podtask/internal/engine/tasksecrets"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// made are the secrets that a Podman was given.
type made map[string]string

func (m made) Secret(context.Context, string) ([]byte, error)      { return nil, os.ErrNotExist }
func (m made) HasSecret(context.Context, string) (bool, error)     { return false, nil }
func (m made) RemoveSecrets(context.Context, string, string) error { return nil }
func (m made) EnsureSecret(ctx context.Context, name, _ string, read func(context.Context) ([]byte, error)) error {
	b, err := read(ctx)
	m[name] = string(b)
	return err
}

func TestAFileHasTheWholeSecretAndAVariableNoFinalNewline(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(path, []byte("-----END\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	from := taskdef.SecretValue{Source: "file:" + path}
	s := lifecycle.State{ID: "0123", Task: taskdef.Task{Containers: []taskdef.Container{{
		Name: "app", Secrets: []taskdef.Secret{{Name: "KEY", SecretValue: from}},
		Log:        &taskdef.LogConfiguration{Driver: "splunk", SecretOptions: []taskdef.Secret{{Name: "splunk-token", SecretValue: from}}},
		Extensions: taskdef.ContainerExtensions{SecretFiles: []taskdef.SecretFile{{Path: "/key.pem", SecretValue: from}}},
	}}}}
	podman := made{}
	k := tasksecrets.Store{Getenv: os.Getenv, Podman: func(context.Context) (tasksecrets.Podman, error) { return podman, nil }}
	if err := k.Ensure(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	want := made{"podtask-0123-c0-env0": "-----END", "podtask-0123-c0-file0": "-----END\n", "podtask-0123-c0-log0": "-----END"}
	if diff := cmp.Diff(podman, want); diff != "" {
		t.Errorf("-got +want:\n%s", diff)
	}
}
