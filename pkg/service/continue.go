package service

import (
	"errors"
	"fmt"
	"slices"
)

// ErrNotPaused says that the attempt does not wait at the pause.
var ErrNotPaused = errors.New("the deployment does not wait at this pause")

// ContinueAttempt returns the input that answers the pause of an id at which the attempt of a
// number waits: it continues, or is rolled back.
func ContinueAttempt(s State, number int, id string, rollback bool) (Input, error) {
	i := slices.IndexFunc(s.History, func(a Attempt) bool { return a.Number == number })
	if i < 0 {
		return nil, ErrNoAttempt
	}
	a := s.History[i]
	switch {
	case a.Status != AttemptRunning:
		return nil, fmt.Errorf("%w: it is %s", ErrNotPaused, a.Status)
	case a.Progress == nil:
		return nil, fmt.Errorf("%w: it has no stages", ErrNotPaused)
	}
	n := slices.IndexFunc(a.Progress.Calls, func(c HookCall) bool { return c.ID == id })
	if n < 0 {
		return nil, fmt.Errorf("%w: it is in the stage %s", ErrNotPaused, a.Progress.Stage)
	}
	if c := a.Progress.Calls[n]; c.Status != HookAwaiting {
		return nil, fmt.Errorf("%w: it was answered, with %s", ErrNotPaused, c.Status)
	}
	return ContinueRequested{ID: id, Rollback: rollback}, nil
}
