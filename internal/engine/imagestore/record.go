package imagestore

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/podtask/podtask/internal/state"
)

// Records holds the records of pulled images, one for each target. The records
// are shared by all processes of the user; who writes one holds its lock.
type Records struct {
	store *state.Store
	locks *state.Locks
}

// PulledImage is what podtask remembers of an image that it pulled. Podman cannot
// tell who pulled an image, nor when it was last used.
type PulledImage struct {
	// Reference is the name in the task, normalised; empty if the image was there
	// already, by that name.
	Reference string `json:"reference"`
	// Given are further names that podtask gave it, because other tags led to it.
	Given []string `json:"given,omitempty"`
	// Asked are names, not given by podtask, for which the registry said that this is
	// the image.
	Asked []string `json:"asked,omitempty"`
	// Target is what was pulled: name@digest, or Reference where no digest was known.
	Target string `json:"target"`
	// ID is Podman's; empty until the pull has ended.
	ID string `json:"id,omitempty"`
	// BegunAt is before the pull, PulledAt after it; zero if it has never ended.
	BegunAt  time.Time `json:"begunAt"`
	PulledAt time.Time `json:"pulledAt,omitzero"`
	// UsedAt is when a task last was about to make a container of it, give or take
	// a minute.
	UsedAt time.Time `json:"usedAt"`
	// Ours: the image was not in local storage before. Only such an image is ever
	// removed.
	Ours bool `json:"ours,omitempty"`
	// Kept: pulled by a task with prefer-cached, for which the ECS agent turns its
	// automatic clean-up off.
	Kept bool `json:"kept,omitempty"`
}

// usePrecision bounds how often the use of an image is written down.
const usePrecision = time.Minute

func OpenRecords(dir string, fsys state.FS) (Records, error) {
	store, err := state.OpenIn(dir, fsys)
	if err != nil {
		return Records{}, err
	}
	locks, err := state.OpenLocks(dir, state.Holder{Command: "podtask"})
	if err != nil {
		return Records{}, fmt.Errorf("open locks in %s: %w", dir, err)
	}
	return Records{store, locks}, nil
}

// lockKey is the key of the lock, and of the record, that belongs to a name.
func lockKey(kind, name string) string {
	sum := sha256.Sum256([]byte(kind + "\x00" + name))
	return hex.EncodeToString(sum[:16])
}

func imageKey(target string) string { return lockKey("image", target) }

// Find returns the record of a target. A damaged one counts as none: the image
// then just is not podtask's to remove.
func (b Records) Find(target string) (m PulledImage, found bool, err error) {
	data, err := b.store.Get(imageKey(target))
	var bad *state.CorruptError
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.As(err, &bad):
		return PulledImage{}, false, nil
	case err != nil:
		return PulledImage{}, false, fmt.Errorf("read what is known of image %s: %w", target, err)
	case json.Unmarshal(data, &m) != nil || m.Target != target:
		return PulledImage{}, false, nil
	}
	return m, true, nil
}

// Write replaces the record of m.Target, whose lock the caller holds.
func (b Records) Write(m PulledImage) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := b.store.Put(imageKey(m.Target), data); err != nil {
		return fmt.Errorf("write down image %s: %w", m.Target, err)
	}
	return nil
}

// all returns the records that can be read.
func (b Records) all() []PulledImage {
	var out []PulledImage
	for r, err := range b.store.All(nil) {
		var m PulledImage
		if err == nil && json.Unmarshal(r.Data, &m) == nil && imageKey(m.Target) == r.Key {
			out = append(out, m)
		}
	}
	return out
}

// PulledBefore reports whether podtask itself has pulled this name successfully
// (ECS: once), or found that there was nothing to pull. What was loaded or pulled by
// others does not count.
func (b Records) PulledBefore(reference string) bool {
	for _, m := range b.all() {
		known := m.Reference == reference || slices.Contains(m.Given, reference) || slices.Contains(m.Asked, reference)
		if known && !m.PulledAt.IsZero() {
			return true
		}
	}
	return false
}

// confirm notes that an image is about to be used that is here and that the registry was
// asked about: for once that is a pull. Where named is false, podtask gives it the name.
// The caller holds the target's lock.
func (b Records) confirm(target, id, reference string, named bool, at time.Time) error {
	m, found, err := b.Find(target)
	if err != nil {
		return err
	}
	before := len(m.Given) + len(m.Asked)
	switch {
	case m.Reference == reference || slices.Contains(m.Given, reference) || slices.Contains(m.Asked, reference):
	case named:
		m.Asked = append(m.Asked, reference)
	default:
		m.Given = append(m.Given, reference)
	}
	if found && !m.PulledAt.IsZero() && len(m.Given)+len(m.Asked) == before {
		return b.use(target, at)
	}
	if !found {
		m.Target, m.BegunAt = target, at
	}
	if m.PulledAt.IsZero() {
		m.PulledAt = at
	}
	m.ID, m.UsedAt = id, at
	return b.Write(m)
}

// use notes that an image is about to be used, if podtask pulled it. The caller
// holds the target's lock; the note is what keeps a clean-up away until the task's
// record names the image.
func (b Records) use(target string, at time.Time) error {
	m, found, err := b.Find(target)
	if err != nil || !found || at.Sub(m.UsedAt) < usePrecision {
		return err
	}
	m.UsedAt = at
	return b.Write(m)
}
