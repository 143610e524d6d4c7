package conn

import (
	"context"
	"encoding/json"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/podtask/podtask/internal/atomicfile"
	"github.com/podtask/podtask/internal/host/libpod"
)

// Facts caches Podman's report about the machine for a minute.
type Facts struct {
	Podman func(context.Context) (HostReader, error)
	// File is the file in which the user's processes share the facts; "" means that they do not.
	File string

	mu   sync.Mutex // guards told; one caller asks at a time
	told sharedFacts

	asking  singleflight.Group
	storage atomic.Pointer[sharedFacts] // of which only the service and its GraphRoot count, however old they are
}

// factsAge bounds the age of cached facts.
const factsAge = time.Minute

// Get returns Podman's report about the machine. Podman is asked at most once a minute, because the answer takes it as
// long as a pod, and by one caller at a time.
func (f *Facts) Get(ctx context.Context) (libpod.Host, error) {
	podman, err := f.Podman(ctx)
	if err != nil {
		return libpod.Host{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	service := identity(podman)
	if f.told.Service == service && f.told.fresh(time.Now()) {
		return f.told.Facts, nil
	}
	if shared, ok := f.read(service); ok && shared.fresh(time.Now()) {
		f.told = shared
		return f.told.Facts, nil
	}
	facts, err := podman.Host(ctx)
	if err == nil {
		f.told = sharedFacts{Service: service, At: time.Now(), Facts: facts}
		f.write(f.told)
	}
	return facts, err
}

// Storage returns the directory in which Podman keeps containers. It does not change while a service lives, so it is
// asked once for each, by one caller for all.
func (f *Facts) Storage(ctx context.Context) (string, error) {
	podman, err := f.Podman(ctx)
	if err != nil {
		return "", err
	}
	service := identity(podman)
	if known := f.storage.Load(); known != nil && service != "" && known.Service == service {
		return known.Facts.GraphRoot, nil
	}
	answer := f.asking.DoChan(service, func() (any, error) {
		if shared, ok := f.read(service); ok {
			f.storage.Store(&shared)
			return shared.Facts.GraphRoot, nil
		}
		ask, cancel := context.WithTimeout(context.WithoutCancel(ctx), storageLimit)
		defer cancel()
		facts, err := f.Get(ask)
		if err == nil && identity(podman) == service {
			f.storage.Store(&sharedFacts{Service: service, Facts: facts})
		}
		return facts.GraphRoot, err
	})
	select {
	case got := <-answer:
		storage, _ := got.Val.(string)
		return storage, got.Err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// storageLimit bounds the answer of Podman.
const storageLimit = 30 * time.Second

// identity tells the services of Podman apart; empty where that is not known.
func identity(podman HostReader) string {
	if of, ok := podman.(interface{ Identity() string }); ok {
		return of.Identity()
	}
	return ""
}

// sharedFacts is the content of the file.
type sharedFacts struct {
	Service string // that said so
	At      time.Time
	Facts   libpod.Host
}

// fresh reports whether what Podman said is less than a minute old.
func (s sharedFacts) fresh(now time.Time) bool {
	age := now.Sub(s.At)
	return age >= 0 && age < factsAge
}

// read returns what another process was told by the same service.
func (f *Facts) read(service string) (shared sharedFacts, ok bool) {
	if f.File == "" || service == "" {
		return shared, false
	}
	data, err := os.ReadFile(f.File)
	if err != nil || json.Unmarshal(data, &shared) != nil {
		return shared, false
	}
	return shared, shared.Service == service
}

// write shares the facts. If it fails, the next process asks Podman itself.
func (f *Facts) write(shared sharedFacts) {
	if f.File == "" || shared.Service == "" {
		return
	}
	if data, err := json.Marshal(shared); err == nil {
		_ = atomicfile.Write(f.File, data, 0o600)
	}
}
