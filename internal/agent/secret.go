package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/secrets"
	"github.com/podtask/podtask/pkg/taskdef"
)

// A container's secrets reach it as Podman secrets, which Podman looks up at every
// start and does not show. A secret that the user keeps in Podman is used as it is.
// Of any other one podtask makes a Podman secret that carries the task's label and
// goes when the task has stopped.

// wantedSecret is one secret of a task.
type wantedSecret struct {
	// name is the Podman secret's, own whether the task makes it.
	name string
	own  bool
	from taskdef.SecretValue
	// env is the variable, file the index in SecretFiles if env is empty.
	env  string
	file int
	who  string // for messages
}

// secretPrefix begins the names of a task's own secrets, which have at most 64
// characters in Podman 4.3.1.
func secretPrefix(task string) string { return "podtask-" + task + "-" }

// wantedSecrets are those of container i.
func wantedSecrets(s lifecycle.State, i int) []wantedSecret {
	c := s.Task.Containers[i]
	var out []wantedSecret
	add := func(kind string, n int, w wantedSecret) {
		w.name, w.own = fmt.Sprintf("%sc%d-%s%d", secretPrefix(s.ID), i, kind, n), true
		if source, err := secrets.Parse(w.from.Source); err == nil && source.Kind == secrets.Podman && w.from.JSONKey == "" {
			w.name, w.own = source.Name, false
		}
		out = append(out, w)
	}
	for n, v := range c.Secrets {
		add("env", n, wantedSecret{from: v.SecretValue, env: v.Name, who: fmt.Sprintf("variable %s of container %s", v.Name, c.Name)})
	}
	for n, f := range c.Extensions.SecretFiles {
		add("file", n, wantedSecret{from: f.SecretValue, file: n, who: fmt.Sprintf("file %s of container %s", f.Path, c.Name)})
	}
	return out
}

func allSecrets(s lifecycle.State) []wantedSecret {
	var all []wantedSecret
	for i := range s.Task.Containers {
		all = append(all, wantedSecrets(s, i)...)
	}
	return all
}

// ensureSecrets makes the task's own secrets that are not there, and finds out
// whether the user's are. It reports all that are missing.
func ensureSecrets(ctx context.Context, podman Podman, getenv func(string) string, s lifecycle.State, which func(wantedSecret) bool) error {
	var errs []error
	for _, w := range allSecrets(s) {
		if !which(w) {
			continue
		}
		var err error
		if w.own {
			err = podman.EnsureSecret(ctx, w.name, s.ID, func(ctx context.Context) ([]byte, error) {
				return readSecret(ctx, secretReader(podman, getenv), w)
			})
		} else {
			err = userSecret(ctx, podman, w.name)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", w.who, err))
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

func secretReader(podman Podman, getenv func(string) string) secrets.Reader {
	return secrets.Reader{Getenv: getenv, Podman: podman.Secret}
}

// readSecret reads the value from its source. The error never holds it.
func readSecret(ctx context.Context, r secrets.Reader, w wantedSecret) ([]byte, error) {
	source, err := secrets.Parse(w.from.Source)
	if err != nil {
		return nil, err
	}
	value, err := r.Read(ctx, source)
	if err != nil {
		return nil, err
	}
	b := value.Bytes()
	if w.from.JSONKey != "" {
		if b, err = memberOf(b, w.from.JSONKey); err != nil {
			return nil, fmt.Errorf("secret %s: %w", source, err)
		}
	}
	switch {
	case len(b) == 0:
		return nil, fmt.Errorf("secret %s: its value is empty", source)
	case w.env != "" && bytes.IndexByte(b, 0) >= 0:
		// The OCI runtime would put the value into its error.
		return nil, fmt.Errorf("secret %s: it holds a NUL character, which a variable cannot; give it as a file", source)
	}
	return b, nil
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

// bound reports whether a source can be read by the process that was asked to run
// the task only, and not by a later owner of it.
func (w wantedSecret) bound() bool {
	source, err := secrets.Parse(w.from.Source)
	return w.own && err == nil && (source.Kind == secrets.Env || source.Kind == secrets.Credential)
}

func everySecret(wantedSecret) bool { return true }

// Check reads every secret of a task that does not exist yet, and forgets
// it. It reports all that cannot be had.
func (k *SecretStore) Check(ctx context.Context, t taskdef.Task) error {
	s := lifecycle.State{ID: hostKey, Task: t}
	var errs []error
	for _, w := range allSecrets(s) {
		podman, err := k.podman(ctx)
		if err != nil {
			return err // the same for all of them
		}
		if w.own {
			var value []byte
			value, err = readSecret(ctx, secretReader(podman, k.getenv), w)
			clear(value)
		} else {
			err = userSecret(ctx, podman, w.name)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", w.who, err))
		}
	}
	return errors.Join(errs...)
}

// secretsHidden is the first Podman whose inspect hides variables that are secrets.
var secretsHidden = [2]int{5, 3}

// Warnings says what this host's Podman does otherwise than users expect of the
// task. Like Preflight it makes nothing.
func (p *Preflight) Warnings(ctx context.Context, t taskdef.Task) []string {
	if !slices.ContainsFunc(t.Containers, func(c taskdef.Container) bool { return len(c.Secrets) > 0 }) {
		return nil
	}
	host, err := p.facts.Get(ctx)
	var version [2]int
	if err == nil {
		_, err = fmt.Sscanf(host.Version, "%d.%d", &version[0], &version[1])
	}
	if err != nil || slices.Compare(version[:], secretsHidden[:]) >= 0 {
		return nil
	}
	return []string{fmt.Sprintf("podman inspect of Podman %s shows variables that are secrets, to this user; give secrets as files (x-podtask.secretFiles), or use Podman %d.%d",
		host.Version, secretsHidden[0], secretsHidden[1])}
}

// PersistLocal makes the secrets that only this process can read, before the task has
// an owner. A task whose secrets cannot be kept is forgotten.
func (k *SecretStore) PersistLocal(ctx context.Context, s lifecycle.State) error {
	bound := false
	for _, w := range allSecrets(s) {
		bound = bound || w.bound()
	}
	if !bound {
		return nil
	}
	podman, err := k.podman(ctx)
	if err == nil {
		err = ensureSecrets(ctx, podman, k.getenv, s, wantedSecret.bound)
	}
	if err == nil {
		return nil
	}
	// ctx may be what ended it. What stays behind is removed with the record.
	if podman != nil && podman.RemoveSecrets(context.WithoutCancel(ctx), secretPrefix(s.ID), s.ID) == nil {
		err = errors.Join(err, k.tasks.Store.Delete(s.ID))
	}
	return err
}

// removeSecrets removes the task's own.
func removeSecrets(ctx context.Context, podman Podman, s lifecycle.State) error {
	for _, w := range allSecrets(s) {
		if w.own {
			return podman.RemoveSecrets(ctx, secretPrefix(s.ID), s.ID)
		}
	}
	return nil
}
