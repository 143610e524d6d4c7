package tasksecrets_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podtask/podtask/internal/engine/act/tasksecrets"
	"github.com/podtask/podtask/internal/engine/facts/taskspec"
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
	if err == nil {
		m[name] = string(b)
	}
	return err
}

// TestAValueOfSeveralPartsIsPutTogether as one secret, which only its podtask can read where a part is
// of this process.
func TestAValueOfSeveralPartsIsPutTogether(t *testing.T) {
	t.Parallel()
	parts := []taskdef.SecretPart{{Text: "postgres://"}, {Secret: &taskdef.SecretValue{Source: "env:USER_NAME"}}, {Text: ":"}, {Secret: &taskdef.SecretValue{Source: "podman:kept"}}, {Text: "@db"}}
	s := lifecycle.State{ID: "0123", Task: taskdef.Task{Containers: []taskdef.Container{{Name: "app", Secrets: []taskdef.Secret{{Name: "URL", Parts: parts}}}}}}
	if all := taskspec.Secrets(s); len(all) != 1 || !all[0].Own || !all[0].ProcessLocal() {
		t.Errorf("%+v", all)
	}
	podman := &keeping{made{}}
	k := tasksecrets.Store{Getenv: func(string) string { return "" }, Podman: func(context.Context) (tasksecrets.Podman, error) { return podman, nil }}
	if missing := k.Missing(s); len(missing) != 1 || missing[0] != "USER_NAME" {
		t.Errorf("missing are %v", missing)
	}
	if err := k.Ensure(t.Context(), s); err == nil || !strings.Contains(err.Error(), "variable URL of container app") {
		t.Errorf("without one of the parts: %v", err)
	}
	k.Provide("USER_NAME", []byte("u"))
	if err := k.Ensure(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(podman.made, made{"podtask-0123-c0-env0": "postgres://u:correct horse@db"}); diff != "" {
		t.Errorf("-got +want:\n%s", diff)
	}
}

// keeping has a secret of the user.
type keeping struct{ made }

func (k *keeping) Secret(context.Context, string) ([]byte, error) {
	return []byte("correct horse"), nil
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
