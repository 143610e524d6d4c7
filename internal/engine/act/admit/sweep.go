package admit

import (
	"context"
	"time"
)

// sweepPace is the time between two sweeps of this host.
const sweepPace = 10 * time.Minute

// SweepIsDue reports whether the last sweep was long ago, and if so records a new one.
func (l *Ledger) SweepIsDue(ctx context.Context) (due bool) {
	isDue := func(l Content, now time.Time) bool {
		pace := sweepPace
		if now.Before(l.SuspectUntil) {
			pace = suspectPace
		}
		return now.Sub(l.SweptAt) >= pace || now.Before(l.SweptAt) // a clock was set back
	}
	if l, err := l.Read(); err == nil && !l.SweptAt.IsZero() && !isDue(l, time.Now()) {
		return false // the usual case; it needs no lock
	}
	err := l.Change(ctx, func(l *Content) {
		if now := time.Now().UTC(); isDue(*l, now) {
			l.SweptAt, due = now, true
		}
	})
	if err != nil {
		l.Log.Debug("cannot read whether a sweep is due", "error", err)
	}
	return due && err == nil
}

// suspectFor limits the time that Podman may take to finish a request of a dead owner: the time limit
// for creating a pod. Sweeps are suspectPace apart during that time.
const (
	suspectFor  = 4 * time.Minute
	suspectPace = 10 * time.Second
)

// RequestSweep makes a sweep due at once.
func (l *Ledger) RequestSweep(ctx context.Context) error {
	return l.Change(ctx, func(l *Content) {
		l.SweptAt, l.SuspectUntil = time.Time{}, time.Now().UTC().Add(suspectFor)
	})
}
