package enginetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/podtask/podtask/internal/host/libpod"
)

// Call is one request to Podman's API. An engine's method makes one or more.
type Call struct {
	// Seq counts the calls of a Fake from 1.
	Seq int
	At  time.Time
	// Op is libpod.Error's word for it, such as "create container".
	Op string
	// Object is the name or reference the call is about.
	Object string
	// Acted: Podman did what was asked, or it was done already.
	Acted bool
	// Err is what the caller was told; empty for success.
	Err string
}

func (c Call) String() string {
	s := fmt.Sprintf("%d %s %s", c.Seq, c.Op, c.Object)
	if c.Err != "" {
		s += fmt.Sprintf(" (acted %t): %s", c.Acted, c.Err)
	}
	return s
}

// Moment is the time at which a call fails.
type Moment int

// The moments.
const (
	Never  Moment = iota
	Before        // nothing was done
	After         // it was done, and the answer got lost
	During        // Podman's service was killed in the middle, where that leaves something; else Before
)

// Fault says how a call fails. The zero value is: not at all.
type Fault struct {
	Moment Moment
	// Class is that of the error.
	Class libpod.Class
}

// Faults decides how a call fails. It is called with the Fake locked, and must
// not call it.
type Faults func(Call) Fault

// Script makes the calls of one Op fail in turn, one for each fault given; then
// they work again.
func Script(op string, faults ...Fault) Faults {
	return func(c Call) Fault {
		if c.Op != op || len(faults) == 0 {
			return Fault{}
		}
		next := faults[0]
		faults = faults[1:]
		return next
	}
}

// Seeded makes one call in rate fail, with every moment and class that a call
// may fail with whatever it asks for.
func Seeded(r *rand.Rand, rate int) Faults {
	classes := []libpod.Class{libpod.Temporary, libpod.QuotaExceeded, libpod.Temporary, libpod.Timeout, libpod.Unavailable, libpod.Other}
	return func(Call) Fault {
		if r.IntN(rate) > 0 {
			return Fault{}
		}
		f := Fault{Moment: Before + Moment(r.IntN(3)), Class: classes[r.IntN(len(classes))]}
		if f.Class == libpod.Unavailable {
			f.Moment = Before // there was no service
		}
		return f
	}
}

// Fail decides from now on how calls fail; nil: they work.
func (f *Fake) Fail(faults Faults) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = faults
}

// Down makes all calls fail until then. Containers run on. With the class ReadOnly the storage
// is read-only, or was and the service hangs since: a container can be stopped, which
// Podman cannot answer.
func (f *Fake) Down(until time.Time, class libpod.Class) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.downUntil, f.down = until, class
}

// request makes one call of Podman's API: it does act, unless the call is to fail
// before, and forgets the answer if it is to fail after.
func request[T any](ctx context.Context, f *Fake, op, object string, act func() (T, error)) (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return locked(ctx, f, op, object, act)
}

// locked is request for a Fake that is locked already.
func locked[T any](ctx context.Context, f *Fake, op, object string, act func() (T, error)) (answer T, err error) {
	var none T
	if err := given(ctx, op, object); err != nil {
		return none, err
	}
	f.settle()
	call := Call{Seq: len(f.calls) + 1, At: f.clock.Now(), Op: op, Object: object}
	var fault Fault
	switch {
	case call.At.Before(f.downUntil):
		fault = Fault{Before, f.down}
		if f.down == libpod.ReadOnly && op == "stop container" {
			fault.Moment = After
		}
	case f.faults != nil:
		fault = f.faults(call)
	}
	switch {
	case fault.Moment == During && op == "create pod":
		if answer, err = act(); err == nil {
			delete(f.containers, object+"-infra")
		}
	case fault.Moment == During:
		f.interrupt(op, object)
	case fault.Moment != Before:
		answer, err = act()
		call.Acted = err == nil
	}
	if fault.Moment != Never && err == nil {
		err = refusal(fault.Class, "fault on order")
		if fault.Moment == During && fault.Class == libpod.Temporary {
			err = refusal(fault.Class, libpod.ConnectionBroke+" (fault on order)")
		}
	}
	if err != nil {
		err = &libpod.Error{Op: op, Object: object, Class: classOf(err), Cause: causeOf(err)}
		answer, call.Err = none, err.Error()
	}
	f.calls = append(f.calls, call)
	f.notify()
	return answer, err
}

// interrupt is the death of Podman's service in the middle of a start: the OCI runtime knows
// the container, or its address is assigned, or, if it was initialized, its program runs,
// and Podman has recorded nothing of that. The next start fails, also because the root of the
// container counts as mounted and is not. Or Podman has recorded half of
// that, and crashes at each further start. Or the container was to get another address, and has
// none now.
func (f *Fake) interrupt(op, object string) {
	switch op {
	case "start container", "initialize container":
	case "start pod":
		object += "-infra"
	default:
		return
	}
	c := f.containers[object]
	switch {
	case c != nil && op == "initialize container" && c.status == libpod.Exited && f.addressFree(c) != nil:
		c.disconnected = true // and not yet connected with another address
	case c == nil || c.status != libpod.Created || c.process != nil:
	case !c.setUp && c.bridged() && len(f.calls)%2 == 0:
		f.keepAddress(c)
	case !c.setUp && op == "initialize container" && len(f.calls)%3 == 0:
		c.setUp, c.crashes = true, true
	case !c.setUp && op == "initialize container" && len(f.calls)%3 == 1:
		c.stuck = refusal(libpod.CommandNotFound, "crun: executable file `%s` not found: OCI runtime attempted to invoke a command that was not found", c.argv()[0])
	case !c.setUp:
		c.stuck = refusal(libpod.Interrupted, "crun: container %q already exists", c.id)
	case !c.infra:
		c.stuck = refusal(libpod.Other, "%s", libpod.UnrecordedStart)
	}
}

// given is the error of a call whose context has ended.
func given(ctx context.Context, op, object string) error {
	switch ctx.Err() {
	case nil:
		return nil
	case context.DeadlineExceeded:
		return &libpod.Error{Op: op, Object: object, Class: libpod.Timeout, Cause: "no answer from Podman within the time limit"}
	default:
		return &libpod.Error{Op: op, Object: object, Class: libpod.Canceled, Cause: "canceled"}
	}
}

// refusal is an error in the making: request adds what it was about.
func refusal(c libpod.Class, format string, a ...any) error {
	return &libpod.Error{Class: c, Cause: fmt.Sprintf(format, a...)}
}

func classOf(err error) libpod.Class { return err.(*libpod.Error).Class }
func causeOf(err error) string       { return err.(*libpod.Error).Cause }
