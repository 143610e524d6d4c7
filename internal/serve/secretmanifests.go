package serve

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/podtask/podtask/internal/define/catalog"
	"github.com/podtask/podtask/internal/define/pod"
	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/engine/act/tasksecrets"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/state"
)

// SecretManifests registers manifests that contain Secrets. It stores their content in Podman; the
// registered document refers to it.
type SecretManifests struct {
	Catalog *catalog.Catalog
	Engine  *engine.Engine
}

// Register registers a valid manifest. It is always a new revision, because no record has the content of a
// Secret to compare with.
func (m SecretManifests) Register(ctx context.Context, d catalog.Document, at time.Time) (r catalog.Revision, err error) {
	id := record.NewID()
	lock, err := m.Catalog.Reserve(id)
	if err != nil {
		return r, err
	}
	defer func() {
		err = errors.Join(err, lock.Unlock())
		err = errors.Join(err, m.Release(context.WithoutCancel(ctx)))
	}()
	source, contents, err := pod.Strip(d.Source, func(n int) string { return tasksecrets.ManifestSource(id, n) })
	if err != nil {
		return r, err
	}
	if err := m.Engine.Secrets.StoreManifest(ctx, id, contents); err != nil {
		return r, fmt.Errorf("keep the Secrets of %s in Podman: %w", d.Family, err)
	}
	d.Source, d.Kept, d.Digest = source, id, fmt.Sprintf("sha256:%x", sha256.Sum256(source))
	r, _, err = m.Catalog.Register(ctx, d, at)
	return r, err
}

// Release removes the content of Secrets that no active revision, service or task refers to.
func (m SecretManifests) Release(ctx context.Context) error {
	return m.Catalog.Release(ctx, m.used, m.Engine.Secrets.RemoveManifest)
}

// used reports whether a record of a task or of a service refers to a secret with this ID.
func (m SecretManifests) used(id string) (bool, error) {
	services, err := state.OpenIn(filepath.Join(m.Engine.Runtime.StateDir, "services"), state.OS{})
	if err != nil {
		return false, err
	}
	name := []byte(tasksecrets.ManifestPrefix(id))
	for _, store := range []*state.Store{services, m.Engine.Tasks.Store} {
		for r, err := range store.All(nil) {
			if err != nil {
				return false, err // an unreadable record may refer to it
			}
			if bytes.Contains(r.Data, name) {
				return true, nil
			}
		}
	}
	return false, nil
}
