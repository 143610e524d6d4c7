package conn

import (
	"context"
	"encoding/json"
	"os"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/atomicfile"
	"github.com/podtask/podtask/internal/host/libpod"
)

// Facts is what Podman says about the machine, remembered for a minute.
type Facts struct {
	Podman func(context.Context) (HostReader, error)
	// File is where the user's processes share the facts; "" means that they do not.
	File string

	mu    sync.Mutex // guards the fields below; one caller asks at a time
	facts libpod.Host
	at    time.Time
}

// factsAge is how long what Podman said about the machine is taken for true.
const factsAge = time.Minute

// Get is what Podman says about the machine. It is asked at most once a minute,
// because the answer takes it as long as a pod, and by one caller at a time.
func (f *Facts) Get(ctx context.Context) (libpod.Host, error) {
	podman, err := f.Podman(ctx)
	if err != nil {
		return libpod.Host{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.at) < factsAge {
		return f.facts, nil
	}
	service := ""
	if of, ok := podman.(interface{ Identity() string }); ok {
		service = of.Identity()
	}
	if shared, ok := f.read(service, time.Now()); ok {
		f.facts, f.at = shared.Facts, shared.At
		return f.facts, nil
	}
	facts, err := podman.Host(ctx)
	if err == nil {
		f.facts, f.at = facts, time.Now()
		f.write(sharedFacts{Service: service, At: f.at, Facts: facts})
	}
	return facts, err
}

// sharedFacts is the content of the file.
type sharedFacts struct {
	Service string // that said so
	At      time.Time
	Facts   libpod.Host
}

// read returns what another process was told by the same service within the last minute.
func (f *Facts) read(service string, now time.Time) (shared sharedFacts, ok bool) {
	if f.File == "" || service == "" {
		return shared, false
	}
	data, err := os.ReadFile(f.File)
	if err != nil || json.Unmarshal(data, &shared) != nil {
		return shared, false
	}
	age := now.Sub(shared.At)
	return shared, shared.Service == service && age >= 0 && age < factsAge
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
