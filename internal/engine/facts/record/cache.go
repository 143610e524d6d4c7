package record

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Cache has the states of tasks for a reader that asks again and again. A record is read again when
// its file is another one, whichever process wrote it, so the states are those of the records. What it returns
// is shared: it must not be changed. It is safe for concurrent use.
type Cache struct {
	tasks *Tasks
	now   func() time.Time

	mu      sync.Mutex
	entries map[string]cacheEntry
	used    time.Time
	idle    *time.Timer // nil without entries
}

// cacheEntry is a state with the identity that its file had before it was read.
type cacheEntry struct {
	identity state.Identity
	state    lifecycle.State
}

// cacheIdle bounds the time that a cache keeps states that are not asked for.
const cacheIdle = 10 * time.Minute

// NewCache returns a cache of the states of tasks.
func NewCache(t *Tasks) *Cache {
	return &Cache{tasks: t, now: time.Now, entries: make(map[string]cacheEntry)}
}

// Get is Tasks.Get.
func (c *Cache) Get(id string) (lifecycle.State, error) {
	s, err := c.get(id)
	if errors.Is(err, fs.ErrNotExist) {
		err = &NotFoundError{Ref: id}
	}
	return s, err
}

// get returns a state of the cache if the record's file is still the one that was read.
func (c *Cache) get(id string) (lifecycle.State, error) {
	identity, identityErr := c.tasks.Store.Identity(id)
	now := c.now()
	c.mu.Lock()
	c.used = now
	entry, ok := c.entries[id]
	c.mu.Unlock()
	if ok && identityErr == nil && entry.identity == identity {
		return entry.state, nil
	}
	data, err := c.tasks.Store.Load(id, c.tasks.Locks)
	var s lifecycle.State
	if err == nil {
		s, err = Decode(data)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && identityErr == nil && identity.Unique(now) {
		c.keep(id, cacheEntry{identity, s})
	} else {
		delete(c.entries, id)
	}
	return s, err
}

// States is Tasks.States. Those that own knows are not read.
func (c *Cache) States(own func(id string) (lifecycle.State, bool)) ([]lifecycle.State, []error) {
	keys, err := c.tasks.Store.Keys()
	if err != nil {
		return nil, []error{err}
	}
	c.forget(keys)
	states := make([]lifecycle.State, 0, len(keys))
	var errs []error
	for _, key := range keys {
		s, ok := own(key)
		var err error
		if !ok {
			s, err = c.get(key)
		}
		switch {
		case err == nil:
			states = append(states, s)
		case !errors.Is(err, fs.ErrNotExist): // else it was deleted since the keys were listed
			errs = append(errs, fmt.Errorf("record %s: %w", key, err))
		}
	}
	slices.SortStableFunc(states, func(a, b lifecycle.State) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return states, errs
}

// forget drops the states of records that are gone.
func (c *Cache) forget(keys []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.entries {
		if _, there := slices.BinarySearch(keys, id); !there {
			delete(c.entries, id)
		}
	}
}

// keep adds a state. c.mu is held.
func (c *Cache) keep(id string, e cacheEntry) {
	c.entries[id] = e
	if c.idle == nil {
		c.idle = time.AfterFunc(cacheIdle, c.dropIdle)
	}
}

// dropIdle drops all states if none was asked for since.
func (c *Cache) dropIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if idle := c.now().Sub(c.used); idle < cacheIdle {
		c.idle.Reset(cacheIdle - idle)
		return
	}
	clear(c.entries)
	c.idle = nil
}
