//go:build e2e

//e2e:bed systemd

//e2e:nightly

package engine

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/engine/run/owner"
	"github.com/podtask/podtask/internal/testing/faults"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// call is a kind of call to Podman that faults hit: the first that matches, after some.
type call struct {
	name         string
	method, path string
	// skip is how many of them pass first.
	skip int
	// side: the task gets a third container, which has to be stopped.
	side bool
	// empty: the answer has no body.
	empty bool
	// makes: the call is part of bringing the task up, which may be given up.
	makes bool
	// cancels: a forced stop gives the call up.
	cancels bool
	// joined: the call is made only where containers share a network namespace that an infra container holds.
	joined bool
}

var calls = []call{
	{name: "pod create", method: "POST", path: "/pods/create$", makes: true, cancels: true},
	{name: "infra start", method: "POST", path: "-infra/start$", empty: true, makes: true, cancels: true, joined: true},
	{name: "pull", method: "POST", path: "/images/pull$", makes: true, cancels: true},
	{name: "container create", method: "POST", path: "/containers/create$", makes: true, cancels: true},
	{name: "start", method: "POST", path: "-app/start$", empty: true, makes: true, cancels: true},
	// The first inspection finds the process of the initialized container, which the start needs.
	{name: "inspect before the start", method: "GET", path: "-app/json$", makes: true},
	{name: "inspect", method: "GET", path: "-app/json$", skip: 1},
	{name: "probe", method: "GET", path: "-app/healthcheck$", cancels: true},
	{name: "stop signal", method: "POST", path: "-side/kill$", side: true, empty: true},
	{name: "stop", method: "POST", path: "-side/stop$", side: true, empty: true},
	{name: "infra stop", method: "POST", path: "-infra/stop$", empty: true, joined: true},
	{name: "pod remove", method: "DELETE", path: "/pods/"},
}

// fault is what goes wrong, once, with a call.
type fault struct {
	name string
	do   func(w *world, release <-chan struct{}) faults.Action
	// then is done when the fault has struck.
	then func(ctx context.Context, w *world, o *owner.Owner, release chan<- struct{})
	// fits says which calls it is tried with; nil for all.
	fits func(call) bool
	// slow: it takes long, and is left to the nightly run.
	slow bool
	// permanent: asking again is not known to help, so a call that makes something
	// is given up and the task ends. Others are repeated all the same.
	permanent bool
}

func nothing(context.Context, *world, *owner.Owner, chan<- struct{}) {}

func release(_ context.Context, _ *world, _ *owner.Owner, release chan<- struct{}) { close(release) }

// comeBack lets the service come back once podtask has noticed that it is gone, or
// has ended without.
func comeBack(ctx context.Context, w *world, _ *owner.Owner, _ chan<- struct{}) {
	w.ops.awaitFailures(ctx, 2)
	if err := w.proxy.Up(); err != nil {
		w.t.Error(err)
	}
}

// stall is the time that a stalled answer takes: longer than an inspection is waited for.
const stall = 31 * time.Second

// holdOn releases the answer after the stall, or when the task has ended without it.
func holdOn(ctx context.Context, _ *world, _ *owner.Owner, release chan<- struct{}) {
	over := time.NewTimer(stall)
	defer over.Stop()
	select {
	case <-over.C:
	case <-ctx.Done():
	}
	close(release)
}

// inLines are faults of an answer in lines, which that to a pull is.
func inLines(c call) bool { return c.name == "pull" }

// missing leaves out the line with the result.
func missing() faults.Action {
	return faults.OmitLines(func(_ int, line []byte) bool { return bytes.Contains(line, []byte(`"id"`)) })
}

func answer(status int, cause string) func(*world, <-chan struct{}) faults.Action {
	return func(*world, <-chan struct{}) faults.Action { return faults.Status(status, cause, cause) }
}

func always(a func() faults.Action) func(*world, <-chan struct{}) faults.Action {
	return func(*world, <-chan struct{}) faults.Action { return a() }
}

const byForce = "held for ever, then stopped by force"

var faultKinds = []fault{
	{name: "request lost", do: always(faults.Drop), then: nothing},
	{name: "answer lost", do: always(faults.Lose), then: nothing},
	{
		name: "answer cut in half", do: always(faults.Reset), then: nothing,
		fits: func(c call) bool { return !c.empty }, // with no body it is lost whole
	},
	{name: "held, then passed on", do: func(_ *world, r <-chan struct{}) faults.Action { return faults.Hang(r) }, then: release},
	{
		name: "answer held at half", do: func(_ *world, r <-chan struct{}) faults.Action { return faults.Stall(20, r) }, then: release,
		fits: func(c call) bool { return c.name == "pull" || strings.HasPrefix(c.name, "inspect") }, // long ones
	},
	{name: "answer stalled", do: func(_ *world, r <-chan struct{}) faults.Action { return faults.Stall(0, r) }, then: holdOn, slow: true},
	{name: "half a line", do: always(func() faults.Action { return faults.HalfLine(1) }), then: nothing, fits: inLines},
	{name: "every line twice", do: always(faults.DoubleLines), then: nothing, fits: inLines},
	{name: "last line missing", do: always(missing), then: nothing, fits: inLines},
	{name: "service killed before", do: func(w *world, _ <-chan struct{}) faults.Action { return w.proxy.Kill(false) }, then: comeBack},
	{name: "service killed after", do: func(w *world, _ <-chan struct{}) faults.Action { return w.proxy.Kill(true) }, then: comeBack},
	{name: "500 locked", do: answer(500, "database is locked"), then: nothing},
	{name: "500", do: answer(500, "something went wrong"), then: nothing, permanent: true},
	{name: "409", do: answer(409, "the name is already in use"), then: nothing, permanent: true},
	{
		name: "404", do: answer(404, "no such container"), then: nothing, permanent: true,
		// To a stop it says that there is nothing to stop, and that is believed.
		fits: func(c call) bool { return c.name != "infra stop" },
	},
	{
		name: byForce,
		do:   func(*world, <-chan struct{}) faults.Action { return faults.Hang(nil) },
		then: func(_ context.Context, _ *world, o *owner.Owner, _ chan<- struct{}) {
			o.Send(lifecycle.StopRequested{By: "test", Force: true})
		},
		fits: func(c call) bool { return c.cancels },
	},
}

// small is a task of two containers, or three where a stop is needed. The app
// ends when its health check has told it to.
func (w *world) small(side, joined bool) {
	w.t.Helper()
	containers := []container{
		{"name": "init", "command": "print started", "essential": false},
		{"name": "app", "command": "print started -- wait /tmp/go -- exit 3", "healthCheck": check("write /tmp/go"), "dependsOn": after("init", "SUCCESS")},
	}
	if side {
		containers = append(containers, container{"name": "side", "command": "print started -- sleep forever", "essential": false})
		containers[1]["dependsOn"] = after("init", "SUCCESS", "side", "START")
	}
	createJoined(w, joined, "small", containers...)
}

// hit are the calls that a fault is tried with: all that it fits in the nightly run, and
// otherwise one, not the same for each fault.
func (f fault) hit(number int) (hit []call) {
	for _, c := range calls {
		if f.fits == nil || f.fits(c) {
			hit = append(hit, c)
		}
	}
	switch {
	case everyFault:
		return hit
	case f.slow:
		return nil
	}
	return hit[number%len(hit):][:1]
}

// TestFaultsOfPodmanLoseNothing breaks each kind of call in each way.
func TestFaultsOfPodmanLoseNothing(t *testing.T) {
	needBed(t)
	t.Parallel()
	var mu sync.Mutex
	table := map[string]string{}
	t.Cleanup(func() {
		var lines []string
		for _, cell := range slices.Sorted(maps.Keys(table)) {
			lines = append(lines, fmt.Sprintf("%-53s %s", cell, table[cell]))
		}
		t.Logf("call: fault, how the task ended, operations in all\n%s", strings.Join(lines, "\n"))
	})
	for n, f := range faultKinds {
		for _, c := range f.hit(n) {
			t.Run(c.name+"/"+f.name, func(t *testing.T) {
				t.Parallel()
				s, w := oneFault(t, c, f)
				mu.Lock()
				defer mu.Unlock()
				table[c.name+": "+f.name] = outcome(s) + "; " + w.ops.summary()
			})
		}
	}
}

func outcome(s lifecycle.State) string { return s.Stop.Code + ", " + codes(s) }

// wanted lists how a task may end after a fault. Which of two containers a fault
// hits that are made side by side is open.
func wanted(c call, f fault) []string {
	switch {
	case f.name == byForce:
		return []string{"UserInitiated, init app: 125", "UserInitiated, init=0 app: 125", "UserInitiated, init=0 app=137: 137"}
	case f.name == "404" && c.makes && c.name != "pod create" && c.name != "pull": // it is made again
		return []string{"EssentialContainerExited, init=0 app=3: 3"}
	case f.permanent && c.makes:
		return []string{"TaskFailedToStart, init app: 125", "TaskFailedToStart, init=0 app: 125", "TaskFailedToStart, init app=143: 125"}
	case c.side:
		return []string{"EssentialContainerExited, init=0 app=3 side=143: 3"}
	default:
		return []string{"EssentialContainerExited, init=0 app=3: 3"}
	}
}

// oneFault runs a task and removes it, with one fault on the way.
func oneFault(t *testing.T, c call, f fault) (lifecycle.State, *world) {
	t.Helper()
	w := newWorld(t, faults.Start(t, bed.service.Socket()))
	if c.name == "pull" {
		w.fresh()
	}
	w.small(c.side, c.joined)
	hold := make(chan struct{})
	rule := w.proxy.Fault(faults.Match{Method: c.method, Path: c.path, Skip: c.skip, Times: 1}, f.do(w, hold))
	s := w.runWith(rule, func(ctx context.Context, o *owner.Owner) { f.then(ctx, w, o, hold) })
	w.checkEvents(s)
	w.checkObjects(s)
	w.checkStartedOnce(s)
	if got, want := outcome(s), wanted(c, f); !slices.Contains(want, got) {
		t.Errorf("the task ended with %s, want one of %q", got, want)
	}
	gone := w.runWith(rule, func(ctx context.Context, o *owner.Owner) { f.then(ctx, w, o, hold) }, lifecycle.RemoveRequested{By: "test"})
	if refused := c.name == "pod remove" && f.name == "409"; refused != (gone.Goal == lifecycle.Down) {
		t.Errorf("after the removal: %s, %+v", gone.Goal, gone.Sandbox.Failures)
	}
	if rule.Hits() != 1 {
		t.Errorf("the fault struck %d times", rule.Hits())
	}
	// A run without faults takes 13, with a third container 18.
	if _, total := w.ops.counts(); total > 26 {
		t.Errorf("%d operations for one fault", total)
	}
	if t.Failed() {
		t.Log(outcome(s))
		w.dump(s)
	}
	return s, w
}

// runWith drives the task as run does, and does then once the rule has struck in
// the meantime.
func (w *world) runWith(rule *faults.Rule, then func(context.Context, *owner.Owner), events ...lifecycle.Event) lifecycle.State {
	w.t.Helper()
	hits := rule.Hits()
	o := w.own()
	ctx, cancel := context.WithCancel(w.t.Context())
	var wg sync.WaitGroup
	if hits == 0 {
		wg.Go(func() {
			select {
			case <-rule.Arrived():
				then(ctx, o)
			case <-ctx.Done():
			}
		})
	}
	s := w.run(o, events...)
	cancel()
	wg.Wait()
	return s
}

// TestPodmanServiceRefusesAtFirst starts a task while nothing listens on the socket: it is
// waited for, and the task is none the worse.
func TestPodmanServiceRefusesAtFirst(t *testing.T) {
	needBed(t)
	t.Parallel()
	w := newWorld(t, faults.Start(t, bed.service.Socket()))
	w.small(false, false)
	w.proxy.Down()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		w.ops.awaitFailures(ctx, 2)
		if err := w.proxy.Up(); err != nil {
			t.Error(err)
		}
	})
	s := w.run(w.own())
	cancel()
	wg.Wait()
	w.checkEvents(s)
	w.checkObjects(s)
	w.checkStartedOnce(s)
	if got, want := outcome(s), "EssentialContainerExited, init=0 app=3: 3"; got != want {
		t.Errorf("the task ended with %s, want %s", got, want)
	}
	if w.ops.failures() < 2 {
		t.Errorf("%d operations have failed, want two that were refused", w.ops.failures())
	}
}
