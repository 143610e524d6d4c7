package tasksecrets

import (
	"context"
	"errors"
	"fmt"

	"github.com/podtask/podtask/internal/engine/taskspec"
)

// Kept makes and removes Podman secrets that belong to no task: the content of registered
// manifests.
type Kept struct {
	Podman func(context.Context) (Podman, error)
}

// Keep stores contents as Podman secrets under an id that no task has; KeptSource names them.
// If one cannot be stored, none is left.
func (k Kept) Keep(ctx context.Context, id string, contents [][]byte) error {
	podman, err := k.Podman(ctx)
	if err != nil {
		return err
	}
	for n, content := range contents {
		err := podman.EnsureSecret(ctx, keptName(id, n), id, func(context.Context) ([]byte, error) { return content, nil })
		if err != nil {
			return errors.Join(fmt.Errorf("keep secret %d: %w", n, err), podman.RemoveSecrets(context.WithoutCancel(ctx), taskspec.SecretPrefix(id), id))
		}
	}
	return nil
}

// KeptSource is the source of content number n that Keep stores under an id.
func KeptSource(id string, n int) string { return "podman:" + keptName(id, n) }

// KeptPrefix begins the names of all that Keep stores under an id.
func KeptPrefix(id string) string { return taskspec.SecretPrefix(id) + "k" }

func keptName(id string, n int) string { return fmt.Sprintf("%s%d", KeptPrefix(id), n) }

// Forget removes what Keep has stored.
func (k Kept) Forget(ctx context.Context, id string) error {
	podman, err := k.Podman(ctx)
	if err != nil {
		return err
	}
	return podman.RemoveSecrets(ctx, taskspec.SecretPrefix(id), id)
}
