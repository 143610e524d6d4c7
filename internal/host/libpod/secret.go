package libpod

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/containers/podman/v5/pkg/bindings/secrets"
	entities "github.com/containers/podman/v5/pkg/domain/entities/types"
)

// EnsureSecret creates a Podman secret with that name and the task's label. If the task
// has it already, read is not called and the value stays. The value is sent over the
// socket once; Podman stores it until RemoveSecrets.
//
// Classes to expect: Conflict (the name is used by another secret), InvalidSpec (the
// value is empty or longer than 512000 bytes). An error of read is returned unchanged.
func (c *Client) EnsureSecret(ctx context.Context, name, taskID string, read func(context.Context) ([]byte, error)) error {
	found, err := c.secretInfo(ctx, name)
	if err == nil {
		return fail(ctx, "adopt secret", name, ownedBy(found.Spec.Labels, taskID))
	}
	if !errors.Is(err, NotFound) {
		return err
	}
	value, err := read(ctx)
	if err != nil {
		return err
	}
	err = c.mutate(ctx, "create secret", name, func(ctx context.Context) error {
		options := new(secrets.CreateOptions).WithName(name).WithLabels(map[string]string{TaskLabel: taskID})
		_, err := secrets.Create(ctx, bytes.NewReader(value), options)
		return err
	})
	if errors.Is(err, Conflict) { // another process created it first
		if found, err = c.secretInfo(ctx, name); err == nil {
			return fail(ctx, "adopt secret", name, ownedBy(found.Spec.Labels, taskID))
		}
	}
	return err
}

// HasSecret reports whether a secret of that name exists, whichever tool created it.
func (c *Client) HasSecret(ctx context.Context, name string) (bool, error) {
	_, err := c.secretInfo(ctx, name)
	return wasFound(err)
}

func (c *Client) secretInfo(ctx context.Context, name string) (found *entities.SecretInfoReport, err error) {
	err = c.ask(ctx, "inspect secret", name, func(ctx context.Context) (err error) {
		found, err = secrets.Inspect(ctx, name, nil)
		return err
	})
	// Podman also finds a secret by its ID or a prefix of it.
	if err == nil && found.Spec.Name != name {
		return nil, &Error{Op: "inspect secret", Object: name, Class: NotFound, Cause: "no such secret"}
	}
	return found, err
}

// RemoveSecrets removes the secrets that have the task's label and whose names begin with
// prefix. The prefix is needed for Podman 4.3.1, which lists secrets without labels.
func (c *Client) RemoveSecrets(ctx context.Context, prefix, taskID string) error {
	var all []*entities.SecretInfoReport
	err := c.ask(ctx, "list secrets of task", taskID, func(ctx context.Context) (err error) {
		all, err = secrets.List(ctx, new(secrets.ListOptions))
		return err
	})
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range all {
		if !strings.HasPrefix(s.Spec.Name, prefix) {
			continue
		}
		err := c.removeSecret(ctx, s.Spec.Name, taskID)
		if err != nil && !errors.Is(err, NotFound) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// removeSecret removes a secret if it belongs to the task.
func (c *Client) removeSecret(ctx context.Context, name, taskID string) error {
	found, err := c.secretInfo(ctx, name)
	if err != nil || found.Spec.Labels[TaskLabel] != taskID {
		return err
	}
	return c.erase(ctx, c.removals, "remove secret", name, func(ctx context.Context) error { return secrets.Remove(ctx, found.ID) })
}

// secretsShown is the first Podman version that returns the data of a secret
// (ShowSecret); older ones ignore the option.
var secretsShown = semver.MustParse("4.7.0")

// Secret returns the data of a secret created with `podman secret create`. The class is
// NotFound if there is no secret with that name or ID, and Other on servers before 4.7,
// which do not return data. Errors never contain the data.
func (c *Client) Secret(ctx context.Context, name string) ([]byte, error) {
	const op = "read secret"
	if c.version.LT(secretsShown) {
		return nil, &Error{Op: op, Object: name, Class: Other, Cause: "Podman " + c.version.String() +
			" cannot return the value of a secret; this needs 4.7: use a file (file:/PATH), a systemd credential (credential:NAME) or a program (command:/PROGRAM) instead"}
	}
	var found *entities.SecretInfoReport
	err := c.ask(ctx, op, name, func(ctx context.Context) (err error) {
		found, err = secrets.Inspect(ctx, name, new(secrets.InspectOptions).WithShowSecret(true))
		return err
	})
	if err != nil {
		return nil, err
	}
	return []byte(found.SecretData), nil
}
