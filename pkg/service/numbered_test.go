package service

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

// numbered gives the copies of a spec numbers: there are definitions of four.
func numbered(s Spec, parallel bool) Spec {
	n := &Numbered{Parallel: parallel}
	for range 4 {
		n.Tasks = append(n.Tasks, s.Task)
	}
	s.Numbered = n
	return s
}

// like returns a spec whose copies have numbers if those of s have.
func (s Spec) like(o Spec) Spec {
	if s.Numbered != nil {
		return numbered(o, s.Numbered.Parallel)
	}
	return o
}

// A copy with a number starts when those before it are healthy; the last one stops first; and no number is there twice.
func TestNumberedCopiesKeepTheirOrder(t *testing.T) {
	t.Parallel()
	for _, parallel := range []bool{false, true} {
		first := numbered(spec(1), parallel)
		first.Numbered.First = 5
		w := newWorld(3, careful, first)
		if n, want := w.state.Count("").Present, map[bool]int{false: 1, true: 3}[parallel]; n != want {
			t.Errorf("parallel %t: %d copies are made at first, want %d", parallel, n, want)
		}
		if err := calm(w, time.Hour); err != nil {
			t.Fatal(err)
		}
		if got := namesOf(w, Live); got != "web-5 web-6 web-7" {
			t.Errorf("parallel %t: %s run", parallel, got)
		}
		next := numbered(spec(2), parallel)
		next.Numbered.First = 5
		w.tell(update(next))
		if got := namesOf(w, Stopping); got != "web-7" {
			t.Errorf("parallel %t: an update stops %q first", parallel, got)
		}
		if err := calm(w, time.Hour); err != nil {
			t.Fatal(err)
		}
		if got := namesOf(w, Live); got != "web-7 web-6 web-5" || w.running()["web:2"] != 3 {
			t.Errorf("parallel %t: %s run in the order of their start: %v", parallel, got, w.running())
		}
		w.tell(scale(1))
		if got, want := namesOf(w, Stopping), map[bool]string{false: "web-7", true: "web-7 web-6"}[parallel]; got != want {
			t.Errorf("parallel %t: fewer copies stop %q, want %q", parallel, got, want)
		}
		if err := calm(w, time.Hour); err != nil {
			t.Fatal(err)
		}
		if got := namesOf(w, Live); got != "web-5" {
			t.Errorf("parallel %t: %s is left", parallel, got)
		}
	}
}

// namesOf returns the names of the tasks in a phase, in the order in which they were wanted.
func namesOf(w *world, phase Phase) string {
	var names []string
	for _, t := range w.state.Tasks {
		if t.Phase == phase {
			names = append(names, w.state.TaskName(t))
		}
	}
	return strings.Join(names, " ")
}

// A definition that is bad is tried on the last copy only, and is given up for the one before.
func TestABadDefinitionReachesOneNumberedCopy(t *testing.T) {
	t.Parallel()
	w := newWorld(3, careful, numbered(spec(1), false))
	if err := calm(w, time.Hour); err != nil {
		t.Fatal(err)
	}
	w.bad["web:2"] = Observation{Stopped: true, Reason: "exit 1"}
	w.tell(update(numbered(spec(2), false)))
	if err := calm(w, 6*time.Hour); err != nil {
		t.Fatal(err)
	}
	if w.running()["web:1"] != 3 || w.state.Rollbacks != 1 || !w.state.Steady {
		t.Errorf("%v run after %d rollbacks:\n%s", w.running(), w.state.Rollbacks, w.said())
	}
	for _, task := range w.state.Tasks {
		if task.Deployment == "web/2" && task.Copy != 3 {
			t.Errorf("the bad definition was tried on the copy %d", task.Copy)
		}
	}
}

// What a count needs is checked before.
func TestValidateNumbered(t *testing.T) {
	t.Parallel()
	good := numbered(spec(1), false)
	ports := numbered(spec(1, 80), false)
	for _, test := range []struct {
		spec   Spec
		count  int
		config Config
		want   string
	}{
		{good, 4, careful, ""},
		{good, 5, careful, "5 copies are asked for, and the service has definitions of 4"},
		{good, 2, Config{Method: Method{Strategy: BlueGreen}}, "a copy with a number is there once"},
		{good, 2, Config{Bounds: &Bounds{MinimumHealthyPercent: 100, MaximumPercent: 100}}, ""},
		{ports, 1, careful, ""},
		{ports, 2, careful, "the copies 0 and 1 cannot both have port"},
	} {
		err := Validate("web", test.spec, test.count, test.config)
		if got := fmt.Sprint(err); test.want == "" && err != nil || !strings.Contains(got, test.want) && test.want != "" {
			t.Errorf("%d copies: %v, want %q", test.count, err, test.want)
		}
	}
}

// Each copy is made of its own definition, and others are added without a deployment.
func TestNumberedCopiesGrow(t *testing.T) {
	t.Parallel()
	s := spec(1)
	named := func(name string) taskdef.Task {
		task := s.Task
		task.Family = name
		return task
	}
	s.Numbered = &Numbered{Tasks: []taskdef.Task{named("a")}}
	w := newWorld(1, careful, s)
	if err := calm(w, time.Hour); err != nil {
		t.Fatal(err)
	}
	two := 2
	s.Numbered = &Numbered{Tasks: []taskdef.Task{named("a"), named("b")}}
	w.tell(Updated{DesiredCount: &two, Grown: &s})
	if err := calm(w, time.Hour); err != nil {
		t.Fatal(err)
	}
	var of []string
	for _, task := range w.state.Tasks {
		d, _ := w.state.Deployment(task.Deployment)
		of = append(of, d.Of(task).Family)
	}
	if !slices.Equal(of, []string{"a", "b"}) || w.state.LastDeployment != 1 {
		t.Errorf("the copies are made of %v in deployment %d", of, w.state.LastDeployment)
	}
}
