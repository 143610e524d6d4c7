package program

import (
	"maps"
	"slices"
	"sync"

	"github.com/podtask/podtask/internal/forward"
	"github.com/podtask/podtask/internal/ingress"
	"github.com/podtask/podtask/internal/ingress/routefile"
)

// uses note the requests and connections to services. Its methods may be called concurrently.
type uses struct {
	changed func()

	mu     sync.Mutex
	all    map[string]*forward.Use // by service
	sleeps map[string]bool
}

// follow learns from routes which services sleep, and after what time.
func (u *uses) follow(t routefile.Table) {
	rests := make(map[string]routefile.Sleep)
	for _, r := range t.Routes {
		rests[r.Service] = r.Sleep
	}
	for _, l := range t.Listeners {
		rests[l.Service] = l.Sleep
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sleeps = make(map[string]bool)
	for service, use := range u.all {
		if _, known := rests[service]; !known {
			use.Close()
			delete(u.all, service)
		}
	}
	for service, s := range rests {
		u.get(service).Rests(s.After)
		u.sleeps[service] = s.After > 0
	}
}

// of is the use of a service.
func (u *uses) of(service string) *forward.Use {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.get(service)
}

func (u *uses) get(service string) *forward.Use {
	if u.all == nil {
		u.all = make(map[string]*forward.Use)
	}
	if u.all[service] == nil {
		u.all[service] = forward.NewUse(u.changed)
	}
	return u.all[service]
}

// close has no timer run any more.
func (u *uses) close() { u.follow(routefile.Table{}) }

// status returns the use of the services that may sleep.
func (u *uses) status() (all []ingress.Use) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, service := range slices.Sorted(maps.Keys(u.sleeps)) {
		if u.sleeps[service] {
			now := u.all[service].Usage()
			all = append(all, ingress.Use{Service: service, Busy: now.Busy, IdleSince: now.IdleSince.UTC(), Waiting: now.Waiting})
		}
	}
	return all
}
