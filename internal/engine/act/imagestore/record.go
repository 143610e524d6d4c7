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

// Records stores a record of each target that podtask pulled. All processes of the user share
// the records; a process writes one only while it holds its lock.
type Records struct {
	store *state.Store
	locks *state.Locks
}

// PulledImage is the record of an image that podtask pulled. Podman records neither who pulled
// an image nor when it was last used.
type PulledImage struct {
	// Reference is the name in the task, normalized; empty if the image was already in local
	// storage under that name.
	Reference string `json:"reference"`
	// Given are further names that podtask gave the image, because other tags resolve to it.
	Given []string `json:"given,omitempty"`
	// Asked are names that the image had already and that the registry resolves to it.
	Asked []string `json:"asked,omitempty"`
	// Target is the reference that was pulled: name@digest, or Reference if the digest was
	// not known.
	Target string `json:"target"`
	// ID is Podman's; empty until the pull has ended.
	ID string `json:"id,omitempty"`
	// BegunAt is the time before the pull, PulledAt the time after it. PulledAt is zero if no
	// pull has succeeded.
	BegunAt  time.Time `json:"begunAt"`
	PulledAt time.Time `json:"pulledAt,omitzero"`
	// UsedAt is the time at which a task last needed the image to create a container, to the minute.
	UsedAt time.Time `json:"usedAt"`
	// Ours: the image was not in local storage before. Only such images are removed.
	Ours bool `json:"ours,omitempty"`
	// Kept: a task with prefer-cached pulled the image. The ECS agent turns automatic clean-up
	// off in that mode.
	Kept bool `json:"kept,omitempty"`
}

// usePrecision is the minimum time between two updates of UsedAt.
const usePrecision = time.Minute

// OpenRecords opens the records in a directory.
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

// imageKey is the key of a target's record and lock.
func imageKey(target string) string { return lockKey("image", target) }

// Find returns the record of a target. A damaged record counts as none, so the image is not
// removed.
func (r Records) Find(target string) (m PulledImage, found bool, err error) {
	data, err := r.store.Get(imageKey(target))
	var bad *state.CorruptError
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.As(err, &bad):
		return PulledImage{}, false, nil
	case err != nil:
		return PulledImage{}, false, fmt.Errorf("read the record of image %s: %w", target, err)
	case json.Unmarshal(data, &m) != nil || m.Target != target:
		return PulledImage{}, false, nil
	}
	return m, true, nil
}

// Write replaces the record of m.Target, whose lock the caller holds.
func (r Records) Write(m PulledImage) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := r.store.Put(imageKey(m.Target), data); err != nil {
		return fmt.Errorf("write the record of image %s: %w", m.Target, err)
	}
	return nil
}

// all returns the readable records.
func (r Records) all() []PulledImage {
	var out []PulledImage
	for found, err := range r.store.All(nil) {
		var m PulledImage
		if err == nil && json.Unmarshal(found.Data, &m) == nil && imageKey(m.Target) == found.Key {
			out = append(out, m)
		}
	}
	return out
}

// PulledBefore reports whether podtask has pulled this name, or has found the image that the
// registry resolves it to in local storage. Images that others pulled or loaded do not count
// (ECS: pull behavior once).
func (r Records) PulledBefore(reference string) bool {
	for _, m := range r.all() {
		known := m.Reference == reference || slices.Contains(m.Given, reference) || slices.Contains(m.Asked, reference)
		if known && !m.PulledAt.IsZero() {
			return true
		}
	}
	return false
}

// confirm records the use of an image in local storage to which the registry resolves the
// reference. It counts as a pull for PulledBefore. named is false if podtask gives the image
// the name. The caller holds the target's lock.
func (r Records) confirm(target, id, reference string, named bool, at time.Time) error {
	m, found, err := r.Find(target)
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
		return r.use(target, at)
	}
	if !found {
		m.Target, m.BegunAt = target, at
	}
	if m.PulledAt.IsZero() {
		m.PulledAt = at
	}
	m.ID, m.UsedAt = id, at
	return r.Write(m)
}

// use records the use of an image, if it has a record. That keeps the image until the record
// of the task names it. The caller holds the target's lock.
func (r Records) use(target string, at time.Time) error {
	m, found, err := r.Find(target)
	if err != nil || !found || at.Sub(m.UsedAt) < usePrecision {
		return err
	}
	m.UsedAt = at
	return r.Write(m)
}
