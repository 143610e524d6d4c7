package tasksecrets

import (
	"context"
	"errors"
	"fmt"

	"github.com/podtask/podtask/internal/engine/facts/taskspec"
)

// StoreManifest stores the content of a registered manifest's Secrets as Podman secrets. They
// belong to no task; id must not be the ID of one. ManifestSource returns their sources. If
// one of them cannot be stored, none is left.
func (k *Store) StoreManifest(ctx context.Context, id string, contents [][]byte) error {
	podman, err := k.Podman(ctx)
	if err != nil {
		return err
	}
	for n, content := range contents {
		err := podman.EnsureSecret(ctx, manifestSecret(id, n), id, func(context.Context) ([]byte, error) { return content, nil })
		if err != nil {
			return errors.Join(fmt.Errorf("keep secret %d: %w", n, err), podman.RemoveSecrets(context.WithoutCancel(ctx), taskspec.SecretPrefix(id), id))
		}
	}
	return nil
}

// RemoveManifest removes what StoreManifest has stored under an ID.
func (k *Store) RemoveManifest(ctx context.Context, id string) error {
	podman, err := k.Podman(ctx)
	if err != nil {
		return err
	}
	return podman.RemoveSecrets(ctx, taskspec.SecretPrefix(id), id)
}

// ManifestSource returns the source of content number n of a manifest.
func ManifestSource(id string, n int) string { return "podman:" + manifestSecret(id, n) }

// ManifestPrefix is the prefix of the names of all secrets of a manifest.
func ManifestPrefix(id string) string { return taskspec.SecretPrefix(id) + "k" }

func manifestSecret(id string, n int) string { return fmt.Sprintf("%s%d", ManifestPrefix(id), n) }
