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
	"github.com/podtask/podtask/internal/engine/record"
	"github.com/podtask/podtask/internal/engine/tasksecrets"
	"github.com/podtask/podtask/internal/state"
)

// Keeper registers manifests with Secrets. Their content goes to Podman; the registered
// document names it.
type Keeper struct {
	Catalog *catalog.Catalog
	Engine  *engine.Engine
}

// Register registers a manifest that Parse accepts. It is always a new revision: no record
// says what the content of a Secret was.
func (k Keeper) Register(ctx context.Context, d catalog.Document, at time.Time) (r catalog.Revision, err error) {
	id := record.NewID()
	lock, err := k.Catalog.Reserve(id)
	if err != nil {
		return r, err
	}
	defer func() {
		err = errors.Join(err, lock.Unlock())
		err = errors.Join(err, k.Release(context.WithoutCancel(ctx)))
	}()
	source, contents, err := pod.Strip(d.Source, func(n int) string { return tasksecrets.ManifestSource(id, n) })
	if err != nil {
		return r, err
	}
	if err := k.Engine.Secrets.StoreManifest(ctx, id, contents); err != nil {
		return r, fmt.Errorf("keep the Secrets of %s in Podman: %w", d.Family, err)
	}
	d.Source, d.Kept, d.Digest = source, id, fmt.Sprintf("sha256:%x", sha256.Sum256(source))
	r, _, err = k.Catalog.Register(ctx, d, at)
	return r, err
}

// Release removes the content of Secrets that no active revision, no service and no task
// needs.
func (k Keeper) Release(ctx context.Context) error {
	return k.Catalog.Release(ctx, k.used, k.Engine.Secrets.RemoveManifest)
}

// used reports whether a record of a task or of a service names a secret that is kept under
// an id.
func (k Keeper) used(id string) (bool, error) {
	services, err := state.OpenIn(filepath.Join(k.Engine.Runtime.StateDir, "services"), state.OS{})
	if err != nil {
		return false, err
	}
	name := []byte(tasksecrets.ManifestPrefix(id))
	for _, store := range []*state.Store{services, k.Engine.Tasks.Store} {
		for r, err := range store.All(nil) {
			if err != nil {
				return false, err // an unreadable record may name it
			}
			if bytes.Contains(r.Data, name) {
				return true, nil
			}
		}
	}
	return false, nil
}
