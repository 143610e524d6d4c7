package scaling

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)

func cpu(target float64) Policy {
	return Policy{Name: "cpu", Metric: CPU, Target: target, OutCooldown: DefaultCooldown, InCooldown: DefaultCooldown}
}

// world is a service with a controller. Its load is what the metric is in the sum of all copies.
type world struct {
	s       State
	f       Facts
	rows    Rows
	now     time.Time
	changes []int
}

func newWorld(desired int, c Config) *world {
	return &world{s: State{Service: "web", Config: c}, f: Facts{Desired: desired}, now: noon}
}

// sample is one step of the controller with the copies that are healthy.
func (w *world) sample(copies int, values map[Metric]float64, due ...Action) {
	w.now = w.now.Add(Interval)
	at := Sample{At: w.now, Copies: copies, Desired: w.f.Desired, Values: values}
	w.rows = w.rows.Observe(w.s.Config, at)
	before := w.f.Desired
	w.s, w.f.Desired, _ = Decide(w.s, w.f, w.rows, at, due)
	if w.f.Desired != before {
		w.rows = nil
		w.changes = append(w.changes, w.f.Desired)
	}
}

// load has a sum of a metric shared by all copies for a time.
func (w *world) load(sum float64, d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); {
		n := w.f.Desired
		w.sample(n, map[Metric]float64{CPU: sum / float64(n)})
	}
}

func (w *world) want(t *testing.T, desired int, held Reason) {
	t.Helper()
	if w.f.Desired != desired || w.s.Held.Reason != held {
		t.Errorf("%d copies, held back because of %q; want %d, %q", w.f.Desired, w.s.Held.Reason, desired, held)
	}
}

func TestThreeSamplesAboveTheTargetScaleOut(t *testing.T) {
	t.Parallel()
	w := newWorld(1, Config{Min: 1, Max: 10, Policies: []Policy{cpu(50)}})
	w.load(180, 2*Interval)
	w.want(t, 1, "")
	w.load(180, Interval)
	w.want(t, 4, "")
	w.load(180, time.Hour)
	w.want(t, 4, "")
}

func TestOnePeakDoesNotScaleOut(t *testing.T) {
	t.Parallel()
	w := newWorld(2, Config{Min: 1, Max: 10, Policies: []Policy{cpu(50)}})
	for range 100 {
		w.load(180, 2*Interval)
		w.load(96, Interval)
	}
	w.want(t, 2, "")
}

func TestFifteenMinutesBelowScaleIn(t *testing.T) {
	t.Parallel()
	w := newWorld(4, Config{Min: 1, Max: 10, Policies: []Policy{cpu(50)}})
	w.load(80, InAfter)
	w.want(t, 4, "")
	w.load(80, Interval)
	w.want(t, 2, "")
	w.load(80, 24*time.Hour) // 40 of 50 with two copies; one would have 80
	w.want(t, 2, "")
}

// Nothing at all, such as no request for a night, is below the target too.
func TestAValueOfZeroScalesIn(t *testing.T) {
	t.Parallel()
	w := newWorld(4, Config{Min: 1, Max: 10, Policies: []Policy{cpu(50)}})
	w.load(0, InAfter+Interval)
	w.want(t, 1, "")
}

// A load at which fewer copies would be just below the target does not scale in.
func TestTheTargetHasAGap(t *testing.T) {
	t.Parallel()
	w := newWorld(2, Config{Min: 1, Max: 10, Policies: []Policy{cpu(50)}})
	w.load(48, 24*time.Hour) // one copy would have 48 of 50
	w.want(t, 2, "")
	if len(w.changes) > 0 {
		t.Errorf("it goes back and forth: %v", w.changes)
	}
}

func TestTheBoundsHold(t *testing.T) {
	t.Parallel()
	w := newWorld(3, Config{Min: 2, Max: 4, Policies: []Policy{cpu(50)}})
	w.load(10_000, time.Hour)
	w.want(t, 4, AtMax)
	w.load(1, time.Hour)
	w.want(t, 2, AtMin)
	w.s.Config.Min = 3
	w.load(1, Interval)
	w.want(t, 3, "")
	w.s.Config = Config{Min: 1, Max: 1}
	w.load(1, Interval)
	w.want(t, 1, "")
}

func TestAStoppedOrSleepingServiceIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(0, Config{Min: 1, Max: 4, Policies: []Policy{cpu(50)}})
	w.sample(0, nil)
	w.want(t, 0, "")
	w = newWorld(1, Config{Min: 2, Max: 4, Policies: []Policy{cpu(50)}})
	w.f.Away = true
	w.load(500, time.Hour)
	w.want(t, 1, "")
}

func TestAHostWithoutRoomGetsNoMoreCopies(t *testing.T) {
	t.Parallel()
	w := newWorld(2, Config{Min: 1, Max: 10, Policies: []Policy{cpu(50)}})
	w.f.Waiting = true
	w.load(400, time.Hour)
	w.want(t, 2, NoRoom)
	w.f.Waiting = false
	w.load(400, Interval)
	w.want(t, 8, "")
}

func TestADeploymentForbidsScalingInOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(4, Config{Min: 1, Max: 10, Policies: []Policy{cpu(50)}})
	w.f.Deploying = true
	w.load(40, time.Hour)
	w.want(t, 4, Deploying)
	w.load(400, time.Hour)
	w.want(t, 8, "")
}

// In the cool-down the load counts as that of the copies before, so that new copies that are not ready yet add none.
func TestTheCooldownCountsTheCopiesBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(2, Config{Min: 1, Max: 20, Policies: []Policy{cpu(50)}})
	w.load(150, 3*Interval)
	w.want(t, 3, "")
	for range 10 { // all three are healthy, and busy with their start
		w.sample(3, map[Metric]float64{CPU: 70})
	}
	w.want(t, 3, "")
	for range 3 { // the load is larger
		w.sample(3, map[Metric]float64{CPU: 110})
	}
	w.want(t, 5, "")
}

func TestAScaleInWaitsForTheCooldown(t *testing.T) {
	t.Parallel()
	p := cpu(50)
	p.InCooldown = time.Hour
	w := newWorld(8, Config{Min: 1, Max: 10, Policies: []Policy{p}})
	w.load(200, InAfter+Interval)
	w.want(t, 5, "")
	w.load(40, InAfter+Interval)
	w.want(t, 5, Cooling)
	if until := w.s.In.Add(time.Hour); !w.s.Held.Until.Equal(until) {
		t.Errorf("until %s, want %s", w.s.Held.Until, until)
	}
	w.load(40, time.Hour)
	w.want(t, 1, "")
}

func TestOfSeveralPoliciesTheHighestWins(t *testing.T) {
	t.Parallel()
	memory := Policy{Name: "memory", Metric: Memory, Target: 80}
	w := newWorld(2, Config{Min: 1, Max: 10, Policies: []Policy{cpu(50), memory}})
	for range 3 {
		w.sample(2, map[Metric]float64{CPU: 60, Memory: 200})
	}
	w.want(t, 5, "")
	for range 100 { // one agrees, the other does not
		w.sample(5, map[Metric]float64{CPU: 10, Memory: 79})
	}
	w.want(t, 5, "")
	for range 100 { // one is not known
		w.sample(5, map[Metric]float64{CPU: 10})
	}
	w.want(t, 5, "")
	for range 100 {
		w.sample(5, map[Metric]float64{CPU: 10, Memory: 10})
	}
	w.want(t, 2, "")
}

func TestAPolicyThatOnlyScalesOutHasNoVoice(t *testing.T) {
	t.Parallel()
	p := Policy{Name: "memory", Metric: Memory, Target: 80, OnlyOut: true}
	w := newWorld(4, Config{Min: 1, Max: 10, Policies: []Policy{cpu(50), p}})
	for range 100 {
		w.sample(4, map[Metric]float64{CPU: 10, Memory: 79})
	}
	w.want(t, 1, "")
	w = newWorld(4, Config{Min: 1, Max: 10, Policies: []Policy{p}})
	for range 100 {
		w.sample(4, map[Metric]float64{Memory: 1})
	}
	w.want(t, 4, "")
}

// A gap in the samples, such as a suspended host, ends a row.
func TestAGapBeginsARowAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(4, Config{Min: 1, Max: 10, Policies: []Policy{cpu(50)}})
	w.load(40, InAfter)
	w.now = w.now.Add(time.Hour)
	w.load(40, Interval)
	w.want(t, 4, "")
	w.load(400, 2*Interval)
	w.now = w.now.Add(-time.Hour)
	w.load(400, 2*Interval)
	w.want(t, 4, "")
	w.load(400, Interval)
	w.want(t, 8, "")
}

func TestActionsChangeTheBounds(t *testing.T) {
	t.Parallel()
	three, one := 3, 1
	w := newWorld(1, Config{Min: 1, Max: 2, Policies: []Policy{cpu(50)}})
	w.sample(1, nil, Action{Name: "morning", Min: &three})
	w.want(t, 3, "")
	if w.s.Config.Min != 3 || w.s.Config.Max != 3 {
		t.Errorf("bounds %d-%d", w.s.Config.Min, w.s.Config.Max)
	}
	w.sample(3, nil, Action{Name: "evening", Max: &one})
	w.want(t, 1, "")
	if w.s.Config.Min != 1 || w.s.Config.Max != 1 {
		t.Errorf("bounds %d-%d", w.s.Config.Min, w.s.Config.Max)
	}
	w.s.Config.Suspended.Scheduled = true
	w.sample(1, nil, Action{Name: "morning", Min: &three})
	w.want(t, 1, "")
	if n := len(w.s.Activities); n != 4 {
		t.Errorf("%d activities: %+v", n, w.s.Activities)
	}
}

func TestSuspendedScalingChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(4, Config{Min: 1, Max: 10, Policies: []Policy{cpu(50)}, Suspended: Suspended{In: true, Out: true}})
	w.load(1000, time.Hour)
	w.want(t, 4, Halted)
	w.load(4, time.Hour)
	w.want(t, 4, Halted)
}

// Whatever the samples are, a decision is within the bounds, and a change has its reason.
func TestDecisionsHoldTheRules(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		least := r.IntN(4)
		c := Config{Min: least, Max: least + 1 + r.IntN(8)}
		for _, m := range Metrics[:1+r.IntN(len(Metrics))] {
			c.Policies = append(c.Policies, Policy{
				Name: string(m), Metric: m, Target: 1 + 99*r.Float64(), OnlyOut: r.IntN(5) == 0,
				OutCooldown: time.Duration(r.IntN(600)) * time.Second, InCooldown: time.Duration(r.IntN(600)) * time.Second,
			})
		}
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		w := newWorld(max(1, c.Min), c)
		for range 300 {
			values, scale := map[Metric]float64{}, math.Pow(10, 4*r.Float64()-2)
			for _, m := range Metrics {
				if r.IntN(20) > 0 {
					values[m] = scale * r.Float64() * 20
				}
			}
			w.f.Waiting, w.f.Deploying = r.IntN(10) == 0, r.IntN(10) == 0
			before, last := w.f.Desired, w.s
			w.sample(r.IntN(before+1), values)
			after := w.f.Desired
			switch {
			case after < max(c.Min, 1) || after > c.Max:
				t.Fatalf("seed %d: %d copies are out of %d-%d", seed, after, c.Min, c.Max)
			case after > before && w.f.Waiting:
				t.Fatalf("seed %d: it scales out without room", seed)
			case after < before && (w.f.Deploying || w.now.Sub(last.Out) < 0 || w.now.Sub(last.In) < InAfter && !last.In.IsZero()):
				t.Fatalf("seed %d: it scales in too soon", seed)
			case after != before && len(w.s.Activities) == 0:
				t.Fatalf("seed %d: a change without an activity", seed)
			}
		}
	}
}

// A day of visitors, replayed: the copies follow the load, few changes are made, and none is taken back soon.
func TestADayOfVisitors(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 2))
		w := newWorld(1, Config{Min: 1, Max: 10, Policies: []Policy{cpu(60)}})
		over, steps := 0, int(24*time.Hour/Interval)
		var at []time.Time
		for i := range steps {
			hour := 24 * float64(i) / float64(steps)
			load := 20 + 250*math.Pow(math.Max(0, math.Sin(math.Pi*(hour-6)/14)), 2) // at rest by night, most at 13 o'clock
			load *= 0.8 + 0.4*r.Float64()
			n, before := w.f.Desired, len(w.changes)
			w.sample(n, map[Metric]float64{CPU: math.Min(100, load/float64(n))})
			if load/float64(n) > 100 {
				over++
			}
			if len(w.changes) > before {
				at = append(at, w.now)
			}
		}
		if over > steps/200 || len(w.changes) > 24 {
			t.Errorf("seed %d: more load than the copies can take in %d of %d samples, %d changes: %v", seed, over, steps, len(w.changes), w.changes)
		}
		for i := 2; i < len(at); i++ {
			if w.changes[i] == w.changes[i-2] && at[i].Sub(at[i-1]) < InAfter && w.changes[i] < w.changes[i-1] {
				t.Errorf("seed %d: a change is taken back after %s: %v", seed, at[i].Sub(at[i-1]), w.changes)
			}
		}
		if w.f.Desired > 2 {
			t.Errorf("seed %d: %d copies at midnight", seed, w.f.Desired)
		}
	}
}

func TestAFailedChangeIsNoted(t *testing.T) {
	t.Parallel()
	w := newWorld(1, Config{Min: 1, Max: 4, Policies: []Policy{cpu(50)}})
	w.load(100, 3*Interval)
	s := w.s.Fail(errors.New("Podman is away"))
	if a := s.Activities[0]; a.Error != "Podman is away" || a.From != 1 || a.To != 2 || a.Policy != "cpu" || !strings.Contains(a.Cause, "above the target 50") {
		t.Errorf("%+v", a)
	}
	if w.s.Activities[0].Error != "" {
		t.Error("the record before was changed")
	}
}

func TestActivitiesAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(1, Config{Min: 1, Max: 2})
	one, two := 1, 2
	for range maxActivities {
		w.sample(1, nil, Action{Name: "a", Min: &one, Max: &one})
		w.sample(1, nil, Action{Name: "b", Min: &two, Max: &two})
	}
	if n := len(w.s.Activities); n != maxActivities || w.s.Activities[n-1].Number < 2*maxActivities {
		t.Errorf("%d activities, the last is %+v", n, w.s.Activities[n-1])
	}
}

func TestCheckNamesAllProblems(t *testing.T) {
	t.Parallel()
	err := Config{
		Min: 3, Max: 2,
		Policies: []Policy{{Name: "a", Metric: "load", Target: -1}, {Name: "a", Metric: CPU, Target: math.NaN(), InCooldown: -1}, {Name: "m", Metric: Memory, Target: 120}},
		Actions:  []Action{{Name: "x", Calendar: []string{"daily"}}, {Name: "x"}},
	}.Check()
	for _, want := range []string{
		"2 is less than the minimum 3", `"load"`, "more than 0, not -1", `"a" is there twice`, "not NaN", "cool-down for scaling in", "at most 100",
		"it changes nothing", "it has no times", `"x" is there twice`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in %v", want, err)
		}
	}
}
