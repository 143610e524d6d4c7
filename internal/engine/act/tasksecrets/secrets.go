package tasksecrets

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/internal/host/secretsource"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Store makes and removes the Podman secrets of tasks.
type Store struct {
	Getenv func(string) string
	Podman func(context.Context) (Podman, error)
	Tasks  *record.Tasks
	// Timeout limits the time that a program may take; 0 means the default of package secrets.
	Timeout time.Duration
	// AWS reads the source aws:; nil: there is none.
	AWS secretsource.AWS

	mu sync.Mutex
	// provided are values that this process was given, by the name of a source env:NAME.
	provided map[string][]byte
}

// Provide keeps a value in memory as that of the source env:NAME. Tasks that are created
// from then on can use it: their secrets are made before they have an owner.
func (k *Store) Provide(name string, value []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.provided == nil {
		k.provided = make(map[string][]byte)
	}
	k.provided[name] = value
}

// getenv reads a provided value, else the environment.
func (k *Store) getenv(name string) string {
	k.mu.Lock()
	value, ok := k.provided[name]
	k.mu.Unlock()
	if ok {
		return string(value)
	}
	return k.Getenv(name)
}

// KeepLogins stores provided credentials for the task's images as secrets of the task, and
// returns the task with these as sources: another process may pull the images.
func (k *Store) KeepLogins(ctx context.Context, id string, t taskdef.Task) (taskdef.Task, error) {
	t.Containers = slices.Clone(t.Containers)
	for i := range t.Containers {
		login := t.Containers[i].RepositoryCredentials
		if login == nil {
			continue
		}
		value, ok := k.providedLogin(login)
		if !ok {
			continue
		}
		podman, err := k.Podman(ctx)
		if err != nil {
			return t, err
		}
		name := fmt.Sprintf("%sc%d-login", taskspec.SecretPrefix(id), i)
		if err := podman.EnsureSecret(ctx, name, id, func(context.Context) ([]byte, error) { return value, nil }); err != nil {
			return t, fmt.Errorf("credentials of container %s: %w", t.Containers[i].Name, err)
		}
		source := "podman:" + name
		t.Containers[i].RepositoryCredentials = &taskdef.SecretValue{ValueFrom: source, Source: source}
	}
	return t, nil
}

// KeepsLogins reports whether KeepLogins stores anything for a task.
func (k *Store) KeepsLogins(t taskdef.Task) bool {
	return slices.ContainsFunc(t.Containers, func(c taskdef.Container) bool {
		_, ok := k.providedLogin(c.RepositoryCredentials)
		return ok
	})
}

// providedLogin returns the provided value that credentials name; ok is false if they name
// another source.
func (k *Store) providedLogin(login *taskdef.SecretValue) (value []byte, ok bool) {
	if login == nil {
		return nil, false
	}
	name, inEnv := strings.CutPrefix(login.Source, "env:")
	k.mu.Lock()
	defer k.mu.Unlock()
	value, ok = k.provided[name]
	return value, ok && inEnv
}

// ForgetLogins removes what KeepLogins has made for a task that was not created.
func (k *Store) ForgetLogins(ctx context.Context, id string, t taskdef.Task) error {
	if !hasLogins(id, t) {
		return nil
	}
	podman, err := k.Podman(ctx)
	if err != nil {
		return err
	}
	return podman.RemoveSecrets(ctx, taskspec.SecretPrefix(id), id)
}

// hasLogins reports whether KeepLogins has made secrets for a task.
func hasLogins(id string, t taskdef.Task) bool {
	return slices.ContainsFunc(t.Containers, func(c taskdef.Container) bool {
		login := c.RepositoryCredentials
		return login != nil && strings.HasPrefix(login.Source, "podman:"+taskspec.SecretPrefix(id))
	})
}

// ensure makes the task's own secrets that are not there, and finds out
// whether the user's are. It reports all that are missing.
func (k *Store) ensure(ctx context.Context, s lifecycle.State, which func(taskspec.Secret) bool) error {
	podman, err := k.Podman(ctx)
	if err != nil {
		return err
	}
	read := k.reading(s, podman)
	defer read.clear()
	var errs []error
	for _, w := range taskspec.Secrets(s) {
		if !which(w) {
			continue
		}
		var err error
		if w.Own {
			err = podman.EnsureSecret(ctx, w.Name, s.ID, func(ctx context.Context) ([]byte, error) {
				return read.secret(ctx, w)
			})
		} else {
			err = userSecret(ctx, podman, w.Name)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", w.Who, err))
		}
	}
	return errors.Join(errs...)
}

func userSecret(ctx context.Context, podman Podman, name string) error {
	there, err := podman.HasSecret(ctx, name)
	if err == nil && !there {
		err = fmt.Errorf("Podman has no secret %s; `podman secret create` it", name)
	}
	return err
}

// reading reads the secrets of one task. What several of them take a part of is read once; it
// is kept until clear.
type reading struct {
	reader secretsource.Reader
	task   lifecycle.State
	values map[taskdef.SecretValue]secretsource.Value
}

func (k *Store) reading(s lifecycle.State, podman Podman) *reading {
	return &reading{
		reader: secretsource.Reader{Getenv: k.getenv, Podman: podman.Secret, AWS: k.AWS, Timeout: k.Timeout},
		task:   s, values: make(map[taskdef.SecretValue]secretsource.Value),
	}
}

func (r *reading) clear() {
	for _, v := range r.values {
		v.Clear()
	}
	clear(r.values)
}

// value returns what the source of a secret holds.
func (r *reading) value(ctx context.Context, from taskdef.SecretValue) (secretsource.Source, secretsource.Value, error) {
	source, err := secretsource.Parse(from.Source)
	if err != nil {
		return source, secretsource.Value{}, err
	}
	whole := from
	whole.ValueFrom, whole.JSONKey = "", ""
	if v, known := r.values[whole]; known {
		return source, v, nil
	}
	reader := r.reader
	reader.Asked = asked(r.task, from)
	value, err := reader.Read(ctx, source)
	if err == nil {
		r.values[whole] = value
	}
	return source, value, err
}

// asked says what a value is wanted for.
func asked(s lifecycle.State, from taskdef.SecretValue) secretsource.Asked {
	return secretsource.Asked{
		Reference: cmp.Or(from.ID, from.ValueFrom), VersionStage: from.VersionStage, VersionID: from.VersionID,
		TaskID: s.ID, Family: s.Task.Family, TaskRole: s.Task.Identity.TaskRoleARN, ExecutionRole: s.Task.Identity.ExecutionRoleARN,
	}
}

// RoleCredentials returns what the source of the task's role holds.
func (k *Store) RoleCredentials(ctx context.Context, s lifecycle.State) ([]byte, error) {
	who := s.Task.Identity
	return k.credentials(ctx, s, taskdef.SecretValue{ID: who.TaskRoleARN, Source: who.TaskRoleSource})
}

// ExecutionCredentials returns what the source of the execution role holds.
func (k *Store) ExecutionCredentials(ctx context.Context, s lifecycle.State) ([]byte, error) {
	who := s.Task.Identity
	return k.credentials(ctx, s, taskdef.SecretValue{ID: who.ExecutionRoleARN, Source: who.ExecutionRoleSource})
}

func (k *Store) credentials(ctx context.Context, s lifecycle.State, role taskdef.SecretValue) ([]byte, error) {
	podman, err := k.Podman(ctx)
	if err != nil {
		return nil, err
	}
	_, value, err := k.reading(s, podman).value(ctx, role)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", role.ID, err)
	}
	return value.Bytes(), nil
}

// ReadFile returns the content of a file that is not a secret, from a source in place of a
// reference.
func (k *Store) ReadFile(ctx context.Context, from, reference string) ([]byte, error) {
	return k.read(ctx, from, reference, true)
}

// ReadSecret returns the content of a secret that is of no task, from its source.
func (k *Store) ReadSecret(ctx context.Context, from string) ([]byte, error) {
	return k.read(ctx, from, from, false)
}

func (k *Store) read(ctx context.Context, from, reference string, public bool) ([]byte, error) {
	source, err := secretsource.Parse(from)
	if err != nil {
		return nil, err
	}
	r := secretsource.Reader{
		Getenv: k.getenv, AWS: k.AWS, Timeout: k.Timeout, Public: public,
		Asked: secretsource.Asked{Reference: reference},
		Podman: func(ctx context.Context, name string) ([]byte, error) {
			podman, err := k.Podman(ctx)
			if err != nil {
				return nil, err
			}
			return podman.Secret(ctx, name)
		},
	}
	value, err := r.Read(ctx, source)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", reference, err)
	}
	return value.File(), nil
}

// secret reads the value of a secret, and puts together one of several parts. The error never holds it.
func (r *reading) secret(ctx context.Context, w taskspec.Secret) ([]byte, error) {
	if len(w.Parts) == 0 {
		return r.single(ctx, w)
	}
	var out []byte
	for _, p := range w.Parts {
		if p.Secret == nil {
			out = append(out, p.Text...)
			continue
		}
		w.From = *p.Secret
		part, err := r.single(ctx, w)
		if err != nil {
			clear(out)
			return nil, err
		}
		out = append(out, part...)
		clear(part)
	}
	return out, nil
}

// single reads the value of a secret from its source.
func (r *reading) single(ctx context.Context, w taskspec.Secret) ([]byte, error) {
	source, value, err := r.value(ctx, w.From)
	if err != nil && w.From.ID != "" {
		return nil, fmt.Errorf("%s: %w", w.From.ID, err)
	}
	if err != nil {
		return nil, err
	}
	b := value.File()
	if w.Env != "" || w.Option != "" {
		b = value.Bytes()
	}
	b = bytes.Clone(b) // the value is kept for others
	if w.From.JSONKey != "" {
		if b, err = memberOf(b, w.From.JSONKey); err != nil {
			return nil, fmt.Errorf("secret %s: %w", source, err)
		}
	}
	switch {
	case len(b) == 0:
		return nil, fmt.Errorf("secret %s: its value is empty", source)
	case w.Env != "" && bytes.IndexByte(b, 0) >= 0:
		// The OCI runtime would put the value into its error.
		return nil, fmt.Errorf("secret %s: it holds a NUL character, which a variable cannot; give it as a file", source)
	}
	return b, nil
}

// LogOption reads the value of a secret option of the log driver of container i: from its
// source, and where this process does not have it, from what was kept of it in Podman.
func (k *Store) LogOption(ctx context.Context, s lifecycle.State, i int, option string) ([]byte, error) {
	for _, w := range taskspec.LogSecrets(s, i) {
		if w.Option != option {
			continue
		}
		podman, err := k.Podman(ctx)
		if err != nil {
			return nil, err
		}
		read := k.reading(s, podman)
		defer read.clear()
		value, err := read.secret(ctx, w)
		if err != nil && w.ProcessLocal() {
			if kept, none := podman.Secret(ctx, w.Name); none == nil {
				return kept, nil
			}
		}
		return value, err
	}
	return nil, fmt.Errorf("the option %s has no value", option)
}

// memberOf returns a member of a secret that is a JSON object: the text of a
// string, and of anything else the JSON. What encoding/json says of a bad document
// may quote it, so it is not passed on.
func memberOf(secret []byte, key string) ([]byte, error) {
	var members map[string]json.RawMessage
	if json.Unmarshal(secret, &members) != nil || members == nil {
		return nil, fmt.Errorf("it is not a JSON object, so it has no key %q", key)
	}
	raw, ok := members[key]
	if !ok {
		return nil, fmt.Errorf("it has no JSON key %q", key)
	}
	var text string
	if json.Unmarshal(raw, &text) == nil && raw[0] == '"' {
		return []byte(text), nil
	}
	return raw, nil
}

// Ensure makes the task's own secrets that do not exist, and finds out whether the user's
// exist. It reports all that are missing.
func (k *Store) Ensure(ctx context.Context, s lifecycle.State) error {
	return k.ensure(ctx, s, func(taskspec.Secret) bool { return true })
}

// Check reads every secret of a task that does not exist yet, and forgets
// it. It reports all that cannot be had.
func (k *Store) Check(ctx context.Context, t taskdef.Task) error {
	s := lifecycle.State{ID: record.AllTasks, Task: t}
	wanted := taskspec.Secrets(s)
	if len(wanted) == 0 {
		return nil
	}
	podman, err := k.Podman(ctx)
	if err != nil {
		return err
	}
	s.ID = ""
	read := k.reading(s, podman)
	defer read.clear()
	var errs []error
	for _, w := range wanted {
		var err error
		if w.Own {
			var value []byte
			value, err = read.secret(ctx, w)
			clear(value)
		} else {
			err = userSecret(ctx, podman, w.Name)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", w.Who, err))
		}
	}
	return errors.Join(errs...)
}

// PersistLocal makes the secrets that only this process can read, before the task has
// an owner. A task whose secrets cannot be kept is forgotten.
func (k *Store) PersistLocal(ctx context.Context, s lifecycle.State) error {
	if !slices.ContainsFunc(taskspec.Secrets(s), taskspec.Secret.ProcessLocal) {
		return nil
	}
	err := k.ensure(ctx, s, taskspec.Secret.ProcessLocal)
	if err == nil {
		return nil
	}
	// ctx may be what ended it. What stays behind is removed with the record.
	ctx = context.WithoutCancel(ctx)
	if podman, none := k.Podman(ctx); none == nil && podman.RemoveSecrets(ctx, taskspec.SecretPrefix(s.ID), s.ID) == nil {
		err = errors.Join(err, k.Tasks.Store.Delete(s.ID))
	}
	return err
}

// Missing names the variables and credentials that a new task like this one would read in
// this process, and that are not here; and credentials that only the old task has.
func (k *Store) Missing(s lifecycle.State) (missing []string) {
	for _, w := range taskspec.Secrets(s) {
		for _, v := range w.Values() {
			source, err := secretsource.Parse(v.Source)
			if err == nil && w.ProcessLocal() && source.Kind == secretsource.Env && k.getenv(source.Name) == "" && !slices.Contains(missing, source.Name) {
				missing = append(missing, source.Name)
			}
		}
	}
	if hasLogins(s.ID, s.Task) {
		missing = append(missing, "the credentials of its images")
	}
	return missing
}

// Remove removes the task's own.
func (k *Store) Remove(ctx context.Context, s lifecycle.State) error {
	if own := slices.ContainsFunc(taskspec.Secrets(s), func(w taskspec.Secret) bool { return w.Own }); !own && !hasLogins(s.ID, s.Task) {
		return nil
	}
	podman, err := k.Podman(ctx)
	if err != nil {
		return err
	}
	return podman.RemoveSecrets(ctx, taskspec.SecretPrefix(s.ID), s.ID)
}

// Podman are Podman's secrets: the user's, which are only read, and a task's own.
type Podman interface {
	Secret(ctx context.Context, name string) ([]byte, error)
	HasSecret(ctx context.Context, name string) (bool, error)
	EnsureSecret(ctx context.Context, name, taskID string, read func(context.Context) ([]byte, error)) error
	RemoveSecrets(ctx context.Context, prefix, taskID string) error
}
