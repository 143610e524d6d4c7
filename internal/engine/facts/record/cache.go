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
// its file is another one, whichever process wrote it, so the states are those of the records. While the directory of
// the records is unchanged, no file is looked at. What it returns
// is shared: it must not be changed. It is safe for concurrent use.
type Cache struct {
	tasks *Tasks
	now   func() time.Time

	mu      sync.Mutex
	entries map[string]cacheEntry
	order   listing
	used    time.Time
	idle    *time.Timer // nil without entries
}

// cacheEntry is a state with the identity that its file had before it was read.
type cacheEntry struct {
	identity state.Identity
	state    lifecycle.State
}

// listing has the keys of all records in the order of States, with the identity that their directory had before they were
// listed. Without keys it is none.
type listing struct {
	identity state.Identity
	keys     []string
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
	identity, identityErr := c.tasks.Store.DirectoryIdentity()
	now := c.now()
	keys, listed := c.listed(identity, identityErr)
	if !listed {
		var err error
		if keys, err = c.tasks.Store.Keys(); err != nil {
			return nil, []error{err}
		}
		c.forget(keys)
	}
	states := make([]lifecycle.State, 0, len(keys))
	var errs []error
	for _, key := range keys {
		s, ok := own(key)
		switch {
		case ok:
			c.drop(key) // its owner writes it
		case listed:
			s, ok = c.cached(key)
		}
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
	if !listed {
		slices.SortStableFunc(states, func(a, b lifecycle.State) int { return a.CreatedAt.Compare(b.CreatedAt) })
		if len(errs) == 0 && identityErr == nil && identity.Unique(now) {
			c.keepOrder(identity, states)
		}
	}
	return states, errs
}

// listed returns the keys of all records in the order of States if they are known for the directory as it is.
func (c *Cache) listed(identity state.Identity, err error) (keys []string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil || c.order.keys == nil || c.order.identity != identity {
		return nil, false
	}
	c.used = c.now()
	return c.order.keys, true
}

// keepOrder keeps the order of states, which are those of all records.
func (c *Cache) keepOrder(identity state.Identity, states []lifecycle.State) {
	keys := make([]string, 0, len(states))
	for _, s := range states {
		keys = append(keys, s.ID)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.order = listing{identity, keys}
}

// cached returns the state of a record whose directory is unchanged.
func (c *Cache) cached(key string) (lifecycle.State, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	return e.state, ok
}

// drop drops the state of a record that others write.
func (c *Cache) drop(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, key)
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
	c.order = listing{}
	c.idle = nil
}
