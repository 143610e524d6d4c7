package conn

import (
	"context"
	"sync"
	"time"

	"github.com/podtask/podtask/pkg/libpod"
)

// Facts is what Podman says about the machine, remembered for a minute.
type Facts struct {
	Podman func(context.Context) (HostReader, error)

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
	facts, err := podman.Host(ctx)
	if err == nil {
		f.facts, f.at = facts, time.Now()
	}
	return facts, err
}
