package instance

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/aws/instance/wire"
	"github.com/podtask/podtask/internal/ecsstatus"
	"github.com/podtask/podtask/internal/state"
)

// Identity is what an instance is known by. It is recorded: without it, the host would be another
// instance, and its tasks would be orphaned.
type Identity struct {
	Cluster string `json:"cluster"`
	Region  string `json:"region"`
	// ARN is that of the instance; empty before the first registration has succeeded.
	ARN string `json:"containerInstanceArn,omitempty"`
	// Token is the client token of a registration that is under way, so that a repetition makes no
	// second instance.
	Token string `json:"token,omitempty"`
	// Timeline is the highest number of payloads and manifests.
	Timeline int64 `json:"timeline,omitempty"`
}

// record is a task of ECS.
type record struct {
	// Task is what ECS sent, without the secrets of its credentials.
	Task wire.Task `json:"task"`
	// Agent is the agent's ID of the task; empty while there is none.
	Agent string `json:"agent,omitempty"`
	// Stop: ECS wants the task to have stopped.
	Stop bool `json:"stop,omitempty"`
	Told told `json:"told"`
	// Queue are changes that ECS has not accepted yet, in order.
	Queue []wire.StateChange `json:"queue,omitempty"`
	// Ended is the time at which the end of the task was seen.
	Ended time.Time `json:"ended,omitzero"`
}

// identityKey is the key of the identity.
var identityKey = ecsstatus.Key

// Records are the durable records of an instance.
type Records struct {
	identity, tasks *state.Store
	locks           *state.Locks
}

// OpenRecords opens the records in a directory, which it makes if it is missing.
func OpenRecords(dir string) (*Records, error) { return openRecords(dir, state.OS{}) }

func openRecords(dir string, fsys state.FS) (*Records, error) {
	identity, err := state.OpenIn(filepath.Join(dir, "instance"), fsys)
	if err != nil {
		return nil, err
	}
	tasks, err := state.OpenIn(filepath.Join(dir, "tasks"), fsys)
	if err != nil {
		return nil, err
	}
	locks, err := state.OpenLocks(dir, state.Holder{Since: time.Now(), Command: "podtask-ecs"})
	if err != nil {
		return nil, err
	}
	return &Records{identity, tasks, locks}, nil
}

// Lock takes the lock of the instance, which one process at a time may have.
func (r *Records) Lock() (release func(), err error) {
	lock, err := r.locks.Lock(identityKey)
	if held, ok := errors.AsType[*state.LockedError](err); ok {
		return nil, fmt.Errorf("%s is this instance already: %w", held.Holder.Process(), state.ErrLocked)
	}
	if err != nil {
		return nil, err
	}
	return func() { _ = lock.Unlock() }, nil
}

// Holder returns the process that has the lock; held is false if none has.
func (r *Records) Holder() (pid int, held bool) {
	h, held, err := r.locks.Holder(identityKey)
	return h.PID, held && err == nil
}

// Identity returns the identity; zero if the host was never an instance.
func (r *Records) Identity() (Identity, error) {
	var id Identity
	text, err := r.identity.Get(identityKey)
	if errors.Is(err, fs.ErrNotExist) {
		return id, nil
	}
	if err != nil {
		return id, err
	}
	if err := json.Unmarshal(text, &id); err != nil {
		return id, fmt.Errorf("the record of the instance: %w", err)
	}
	return id, nil
}

// SetIdentity records the identity.
func (r *Records) SetIdentity(id Identity) error { return put(r.identity, identityKey, id) }

// Forget removes the identity and all tasks.
func (r *Records) Forget(ctx context.Context) error {
	keys, err := r.tasks.Keys()
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err := r.tasks.Delete(key); err != nil {
			return err
		}
	}
	err = r.identity.Delete(identityKey)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Task is a task of an instance for people.
type Task struct {
	ARN    string `json:"taskArn"`
	Family string `json:"family"`
	// Agent is the agent's ID of the task.
	Agent string `json:"task,omitempty"`
	// Desired is RUNNING or STOPPED, Told the state that ECS was told last, and Unsent how many
	// changes it has not accepted.
	Desired string `json:"desiredStatus"`
	Told    string `json:"toldStatus"`
	Unsent  int    `json:"unsentChanges"`
}

// Tasks returns the tasks of the instance, running ones first, then by family and ARN.
func (r *Records) Tasks() ([]Task, error) {
	all, _, err := r.all() // podtask-ecs tells of those that are damaged
	if err != nil {
		return nil, err
	}
	out := make([]Task, 0, len(all))
	for _, rec := range all {
		t := Task{ARN: rec.Task.ARN, Family: rec.Task.Family, Agent: rec.Agent, Desired: wire.StatusRunning, Told: "NONE", Unsent: len(rec.Queue)}
		if rec.Stop {
			t.Desired = wire.StatusStopped
		}
		switch {
		case rec.Told.Stopped:
			t.Told = wire.StatusStopped
		case rec.Told.Running:
			t.Told = wire.StatusRunning
		case rec.Told.Digests:
			t.Told = wire.StatusPending
		}
		out = append(out, t)
	}
	order := map[string]int{wire.StatusRunning: 0, wire.StatusPending: 1, "NONE": 2, wire.StatusStopped: 3}
	slices.SortFunc(out, func(a, b Task) int {
		return cmp.Or(order[a.Told]-order[b.Told], strings.Compare(a.Family, b.Family), strings.Compare(a.ARN, b.ARN))
	})
	return out, nil
}

// all returns the records of tasks. One that is damaged or of a newer version keeps no other from being
// read: it stays where it is, and damaged says what is wrong with it.
func (r *Records) all() (out []record, damaged []error, err error) {
	keys, err := r.tasks.Keys()
	if err != nil {
		return nil, nil, err
	}
	for _, key := range keys {
		text, err := r.tasks.Get(key)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // removed meanwhile
		case errors.Is(err, state.ErrCorrupt), errors.Is(err, state.ErrFuture):
			damaged = append(damaged, err)
			continue
		case err != nil:
			return nil, nil, err
		}
		var rec record
		if err := json.Unmarshal(text, &rec); err != nil || rec.Task.ARN == "" {
			damaged = append(damaged, fmt.Errorf("the record %s is not one of a task", key))
			continue
		}
		out = append(out, rec)
	}
	return out, damaged, nil
}

func (r *Records) put(rec record) error { return put(r.tasks, keyOf(rec.Task.ARN), rec) }

func (r *Records) remove(arn string) error {
	err := r.tasks.Delete(keyOf(arn))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// put records a value. After a write whose durability is in doubt, the record is read and written again.
func put(s *state.Store, key string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	err = s.Put(key, text)
	if errors.Is(err, state.ErrInDoubt) {
		if _, err := s.Get(key); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return s.Put(key, text)
	}
	return err
}

// keyOf is the key of the record of a task.
func keyOf(arn string) string {
	sum := sha256.Sum256([]byte(arn))
	return hex.EncodeToString(sum[:16])
}

// withoutSecrets returns a task whose credentials are names only.
func withoutSecrets(t wire.Task) wire.Task {
	for _, c := range []**wire.RoleCredentials{&t.Role, &t.ExecutionRole} {
		if *c != nil {
			*c = &wire.RoleCredentials{ID: (*c).ID, RoleARN: (*c).RoleARN, Expiration: (*c).Expiration}
		}
	}
	return t
}
