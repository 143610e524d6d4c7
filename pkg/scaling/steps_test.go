package scaling

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func steps(t *testing.T, words ...string) Policy {
	t.Helper()
	p := Policy{Name: "cpu", Metric: CPU, OutCooldown: DefaultCooldown, InCooldown: DefaultCooldown}
	for _, w := range words {
		s, err := ParseStep(w)
		if err != nil {
			t.Fatal(err)
		}
		p.Steps = append(p.Steps, s)
	}
	return p
}

// The rounding is that of Application Auto Scaling: towards no change, but by one copy at least.
func TestApplyStep(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		step                string
		copies, least, want int
	}{
		{"70..=+2", 3, 0, 5},
		{"70..=-2", 1, 0, 0},
		{"70..=4", 9, 0, 4},
		{"70..=+50%", 3, 0, 4},
		{"70..=+10%", 3, 0, 4},
		{"70..=+10%", 3, 2, 5},
		{"70..=-10%", 3, 0, 2},
		{"70..=-67%", 10, 0, 4},
		{"70..=-10%", 30, 5, 25},
		{"70..=+9999%", 900, 0, MaxCopies},
	} {
		s, err := ParseStep(c.step)
		if err != nil || s.String() != c.step {
			t.Errorf("%s is %s, %v", c.step, s, err)
		}
		if got := s.apply(c.copies, c.least); got != c.want {
			t.Errorf("%s of %d copies, at least %d: %d, want %d", c.step, c.copies, c.least, got, c.want)
		}
	}
	for _, bad := range []string{"", "..", "70=+1", "70..60=+1", "70..70=+1", "70..=0", "70..=+0", "70..=50%", "a..b=+1", "70..=+99999", "1e9..=+1", "70..80..90=+1", "70..=+1.5", " 70..=+1"} {
		if s, err := ParseStep(bad); err == nil || !strings.Contains(err.Error(), "is no step") {
			t.Errorf("%q is %s", bad, s)
		}
	}
}

func TestStepsAddAndRemoveCopies(t *testing.T) {
	t.Parallel()
	w := newWorld(2, Config{Min: 1, Max: 9, Policies: []Policy{steps(t, "70..90=+1", "90..=+100%", "..30=-1")}})
	at := func(cpu float64, d time.Duration) {
		for end := w.now.Add(d); w.now.Before(end); {
			w.sample(w.f.Desired, map[Metric]float64{CPU: cpu})
		}
	}
	at(80, 2*Interval)
	w.want(t, 2, "")
	at(80, Interval)
	w.want(t, 3, "")
	at(89.9, DefaultCooldown-Interval) // the step was made already
	w.want(t, 3, "")
	at(80, 2*Interval) // the cool-down is over
	w.want(t, 4, "")
	at(95, 3*Interval) // a larger step in the cool-down counts from the three before
	w.want(t, 6, "")
	at(50, time.Hour) // no step
	w.want(t, 6, "")
	at(10, InAfter+Interval)
	w.want(t, 5, "")
	at(10, 24*time.Hour)
	w.want(t, 1, "")
	if a := w.s.Activities[0]; !strings.Contains(a.Cause, "cpu is 80, in a step of policy cpu") {
		t.Errorf("the cause is %s", a.Cause)
	}
}

// A step to a number of copies fits a metric that does not shrink with more copies, such as the length of a queue that all share.
func TestStepsToANumberOfCopies(t *testing.T) {
	t.Parallel()
	const queue = Metric("app:9090/metrics jobs")
	p := steps(t, "..10=1", "10..100=3", "100..=8")
	p.Metric = queue
	w := newWorld(1, Config{Min: 1, Max: 9, Policies: []Policy{p}})
	at := func(jobs float64, d time.Duration) {
		for end := w.now.Add(d); w.now.Before(end); {
			w.sample(w.f.Desired, map[Metric]float64{queue: jobs})
		}
	}
	at(50, time.Hour)
	w.want(t, 3, "")
	at(100, time.Hour)
	w.want(t, 8, "")
	at(99, time.Hour)
	w.want(t, 3, "")
	at(0, time.Hour)
	w.want(t, 1, "")
}

// Steps that only add copies do not keep others from removing some.
func TestStepsThatOnlyAddHaveNoVoice(t *testing.T) {
	t.Parallel()
	adds := steps(t, "80..=+1")
	adds.Name, adds.Metric = "memory", Memory
	w := newWorld(4, Config{Min: 1, Max: 9, Policies: []Policy{cpu(50), adds}})
	for range 100 {
		w.sample(w.f.Desired, map[Metric]float64{CPU: 1, Memory: 50})
	}
	w.want(t, 1, "")
}

func TestStepsThatCannotBe(t *testing.T) {
	t.Parallel()
	both, many, least, overlap := steps(t, "70..=+1"), steps(t), steps(t, "70..=+1"), steps(t, "70..=+1", "..71=-1")
	both.Target = 5
	for i := range MaxSteps + 1 {
		many.Steps = append(many.Steps, Step{From: float64(i), To: float64(i + 1), By: 1})
	}
	least.MinAdjustment = 2
	for want, p := range map[string]Policy{"one of them": both, "more than 20": many, "for steps in percent": least, "70..=+1 and ..71=-1 overlap": overlap} {
		if err := (Config{Min: 1, Max: 2, Policies: []Policy{p}}).Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in %v", want, err)
		}
	}
	var p Policy
	if err := json.Unmarshal([]byte(`{"steps":["70..=+1","..20=-1"]}`), &p); err != nil || StepsText(p.Steps) != "70..=+1 ..20=-1" {
		t.Errorf("%+v, %v", p, err)
	}
	if err := json.Unmarshal([]byte(`{"steps":["70"]}`), &p); err == nil {
		t.Error("a record with no step is read")
	}
}
