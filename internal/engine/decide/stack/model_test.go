package stack

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// host stands for the agent and its services. A member that was applied has its print; a job has also run.
type host struct {
	is    map[string]string // print of the service, or of the job's last run, by object
	ready map[string]bool   // whether it was seen to be whole since it was applied
	runs  map[string]int    // how often each print of a job has succeeded
	takes map[string]string // the service that has an address
	// completed is the print with which the last run of a job has succeeded; it stays when the task is discarded.
	completed map[string]string
	// volumes: there are some.
	volumes bool
}

func newHost() *host {
	return &host{is: map[string]string{}, ready: map[string]bool{}, runs: map[string]int{}, takes: map[string]string{}, completed: map[string]string{}}
}

// meets reports whether a member is as one that waits for it wants it.
func (h *host) meets(of Member, is Condition) bool {
	if of.Kind == Job {
		return h.completed[of.Object] == of.Print
	}
	return h.is[of.Object] == of.Print && (is == Started || h.ready[of.Object])
}

// free takes the addresses of a service from it.
func (h *host) free(object string) {
	maps.DeleteFunc(h.takes, func(_, by string) bool { return by == object })
}

// do does a step on the host.
func (h *host) do(s State, step Step) (problem string) {
	switch step.Verb {
	case Apply:
		for _, d := range step.Member.After {
			of := s.goal().Find(d.Name)
			if s.skips(*of) {
				continue
			}
			if !h.meets(*of, d.Is) {
				problem = fmt.Sprintf("%s is applied before %s is %s", step.Name, d.Name, d.Is)
			}
		}
		for _, t := range step.Member.Takes {
			if by := h.takes[t]; by != "" && by != step.Member.Object {
				problem = fmt.Sprintf("%s wants %s, which %s has", step.Name, t, by)
			}
		}
		h.free(step.Member.Object)
		for _, t := range step.Member.Takes {
			h.takes[t] = step.Member.Object
		}
		if step.Member.Kind == Job && h.is[step.Member.Object] == step.Member.Print && step.Had.Run == s.Change.Number {
			break // the task is there
		}
		h.is[step.Member.Object], h.ready[step.Member.Object] = step.Member.Print, false
		delete(h.completed, step.Member.Object)
		h.volumes = true
	case Await:
		if h.is[step.Member.Object] != step.Member.Print {
			problem = fmt.Sprintf("it waits for %s, which is not there", step.Name)
		}
		if step.Is == step.Member.Kind.Whole() {
			h.ready[step.Member.Object] = true
		}
		if step.Is == Completed {
			h.runs[step.Member.Print]++
			h.completed[step.Member.Object] = step.Member.Print
		}
	case Remove:
		if m := s.goal().Find(step.Name); m != nil && m.Kind == step.Had.Kind {
			problem = fmt.Sprintf("%s is removed, and it is wanted", step.Name)
		}
		delete(h.is, step.Had.Object)
		h.free(step.Had.Object)
	case Discard:
		delete(h.is, step.Had.Object)
	case Volumes:
		if len(h.is) > 0 {
			problem = "volumes are removed before what uses them"
		}
		h.volumes = false
	}
	return problem
}

// has reports whether the host has exactly the services of a revision.
func (h *host) has(r Revision) string {
	want := map[string]string{}
	for _, m := range r.Members {
		if m.Kind != Job {
			want[m.Object] = m.Print
		}
	}
	got := maps.Clone(h.is)
	for o := range got {
		if strings.HasPrefix(o, "job") {
			delete(got, o)
		}
	}
	if !maps.Equal(got, want) {
		return fmt.Sprintf("it has %v, not %v", got, want)
	}
	return ""
}

func service(name, print string, after ...Dependency) Member {
	return Member{Name: name, Object: "s-" + name, Kind: Service, Print: print, After: after}
}

func job(name, print string, after ...Dependency) Member {
	return Member{Name: name, Object: "job-" + name, Kind: Job, Print: print, After: after}
}

func (m Member) at(address string) Member {
	m.Takes = []string{address}
	return m
}

// before and after are a stack that an update changes in all ways: unchanged, changed, new, removed, run again; web's address moves.
var (
	before = []Member{
		service("db", "db1"), job("migrate", "m1", Dependency{"db", Healthy}), service("cache", "c1"),
		service("web", "w1", Dependency{"migrate", Completed}, Dependency{"cache", Started}).at(":80"), service("old", "o1", Dependency{"web", Healthy}),
	}
	after = []Member{
		service("db", "db1"), job("migrate", "m2", Dependency{"db", Healthy}), service("cache", "c2"),
		service("front", "f1", Dependency{"migrate", Completed}, Dependency{"cache", Healthy}).at(":80"), job("seed", "s1", Dependency{"front", Started}),
		service("worker", "k1", Dependency{"seed", Completed}),
	}
)

// tester is a test, of rapid or not.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// run runs a change to its end. decide says of each step whether it fails, and whether the process is killed before or after it.
func run(t tester, h *host, s State, decide func(step Step) (fails, killBefore, killAfter bool)) State {
	t.Helper()
	for n := 0; s.Change != nil; n++ {
		if n > 500 {
			t.Fatal("the change does not end")
		}
		step := Next(s)
		if step.Verb == Stop {
			return s
		}
		s, step = Begin(s, step)
		if err := Check(s); err != nil {
			t.Fatal(err)
		}
		fails, killBefore, killAfter := decide(step)
		if killBefore {
			s = Resume(saved(t, s))
			continue
		}
		o := Outcome{Mark: "mark"}
		if fails && step.Verb != Finish {
			o.Failed = "it fails"
			if step.Verb == Apply { // nobody knows what it did
				h.is[step.Member.Object] = "broken"
				h.ready[step.Member.Object] = false
				delete(h.completed, step.Member.Object)
			}
		} else if problem := h.do(s, step); problem != "" {
			t.Fatalf("%s %s: %s", step.Verb, step.Name, problem)
		}
		if killAfter {
			s = Resume(saved(t, s))
			continue
		}
		s = End(s, step, o, time.Unix(int64(n), 0))
	}
	return s
}

// saved returns what the next process reads.
func saved(t tester, s State) (read State) {
	text, err := json.Marshal(s)
	if err == nil {
		err = json.Unmarshal(text, &read)
	}
	if err != nil {
		t.Fatal(err)
	}
	return read
}

func never(Step) (bool, bool, bool) { return false, false, false }

func started(s State, members []Member) State {
	return Start(s, Change{Target: Revision{Members: members, Volumes: []string{"data"}}, Began: time.Unix(0, 0)})
}

// TestEveryFailureAndKill: an update of which one step fails, and in which the process is killed at one step, before or after it
// acts, ends with all of the new stack or all of the old one.
func TestEveryFailureAndKill(t *testing.T) {
	t.Parallel()
	ways := map[Result]int{}
	for fail := -1; fail < 25; fail++ {
		for kill := -1; kill < 60; kill++ {
			h := newHost()
			s := run(t, h, started(State{Name: "shop"}, before), never)
			if bad := h.has(Revision{Members: before}); bad != "" || s.Change != nil {
				t.Fatalf("the first change: %s, %+v", bad, s.Change)
			}
			n := -1
			s = run(t, h, started(s, after), func(Step) (bool, bool, bool) {
				n++
				return n == fail, 2*n == kill, 2*n+1 == kill
			})
			if s.Change != nil && fail >= 0 { // something could not be removed: the next process tries again
				s = run(t, h, Resume(s), never)
			}
			checkEnd(t, h, s)
			ways[s.History[len(s.History)-1].Result]++
		}
	}
	if ways[Done] == 0 || ways[PutBack] == 0 {
		t.Errorf("the changes end as %v", ways)
	}
}

// checkEnd checks that the host has what the record says after a change.
func checkEnd(t tester, h *host, s State) {
	t.Helper()
	if s.Change != nil {
		t.Fatalf("the change has not ended: %+v", s.Change)
	}
	last := s.History[len(s.History)-1]
	if bad := h.has(s.Current); bad != "" {
		t.Fatalf("%s: %s", last.Result, bad)
	}
	if (last.Result == Done) != (s.Current.Number == last.Number) {
		t.Fatalf("the change %d is %s, and the revision is %d", last.Number, last.Result, s.Current.Number)
	}
	for _, m := range s.Current.Members {
		if last.Result == Done && m.Kind == Job && h.runs[m.Print] == 0 {
			t.Fatalf("the job %s has not run", m.Name)
		}
	}
}

// TestModel: whatever fails and is killed, whatever is asked for meanwhile, in the end the host has what was asked for last.
func TestModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h, s := newHost(), State{Name: "shop"}
		stacks := [][]Member{before, after, drawStack(t), drawStack(t)}
		for range rapid.IntRange(1, 6).Draw(t, "changes") {
			members := rapid.SampledFrom(stacks).Draw(t, "stack")
			c := Change{Target: Revision{Members: members, Volumes: []string{"data"}}, SkipJobs: rapid.Bool().Draw(t, "skip"), Keep: rapid.IntRange(0, 5).Draw(t, "keep") == 0}
			c.Remove = rapid.IntRange(0, 6).Draw(t, "remove") == 0
			s = Start(s, c)
			steps := rapid.IntRange(0, 40).Draw(t, "steps")
			s = run(t, h, s, func(Step) (bool, bool, bool) {
				steps--
				if steps < 0 {
					return false, false, false
				}
				what := rapid.IntRange(0, 9).Draw(t, "what")
				return what == 0, what == 1, what == 2
			})
		}
		s = run(t, h, Start(Resume(s), Change{Target: Revision{Members: stacks[0]}}), never)
		checkEnd(t, h, s)
		s = run(t, h, Start(s, Change{Remove: true, Volumes: true}), never)
		if s.Change != nil || len(s.Have) > 0 || len(h.is) > 0 || h.volumes {
			t.Fatalf("left: %+v, %+v", s, h)
		}
	})
}

// TestAJobThatAnotherChangeLeft: a job that a change has begun and not seen to complete, because it failed elsewhere and keeps what
// it made or because another one was asked for, has not succeeded: what waits for it waits in the next change too, and it runs once.
func TestAJobThatAnotherChangeLeft(t *testing.T) {
	t.Parallel()
	members := []Member{job("migrate", "m1"), service("cache", "c1"), service("web", "w1", Dependency{"migrate", Completed})}
	for _, kept := range []bool{true, false} {
		h := newHost()
		s := started(State{Name: "shop"}, members)
		s.Change.Keep = kept
		for step := Next(s); step.Verb == Apply; step = Next(s) { // the cache fails, or another change is asked for
			s, step = Begin(s, step)
			if step.Name == "cache" && kept {
				s = End(s, step, Outcome{Failed: "it fails"}, time.Unix(1, 0))
				break
			}
			if problem := h.do(s, step); problem != "" {
				t.Fatal(problem)
			}
			s = End(s, step, Outcome{}, time.Unix(1, 0))
		}
		if s.Have["migrate"].Run != 1 || len(h.completed) > 0 {
			t.Fatalf("kept %t: the job has not begun, or has succeeded: %+v", kept, s)
		}
		if s = run(t, h, started(s, members), never); s.History[0].Result == Done || h.runs["m1"] != 1 || !h.meets(members[0], Completed) || s.Have["migrate"].Run != 1 {
			t.Errorf("kept %t: %+v, %+v", kept, s, h)
		}
		checkEnd(t, h, s)
	}
}

// drawStack draws members that wait for earlier ones.
func drawStack(t *rapid.T) (members []Member) {
	for i := range rapid.IntRange(0, 5).Draw(t, "members") {
		name := string(rune('a' + i))
		m := service(name, name+rapid.SampledFrom([]string{"1", "2"}).Draw(t, "print"))
		if rapid.IntRange(0, 2).Draw(t, "job") == 0 {
			m = job(name, m.Print)
		} else if rapid.IntRange(0, 3).Draw(t, "schedule") == 0 {
			m.Kind = Schedule
		} else if i == 0 {
			m = m.at(":80")
		}
		for _, of := range members {
			if rapid.Bool().Draw(t, "waits") {
				is := rapid.SampledFrom([]Condition{Started, Healthy}).Draw(t, "is")
				if of.Kind != Service {
					is = of.Kind.Whole()
				}
				m.After = append(m.After, Dependency{of.Name, is})
			}
		}
		members = append(members, m)
	}
	return members
}

// TestOnlyWhatDiffers: a change applies what differs, and nothing else.
func TestOnlyWhatDiffers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := newHost()
		s := run(t, h, started(State{Name: "shop"}, before), never)
		applied := func(members []Member) (names []string) {
			s = run(t, h, started(s, members), func(step Step) (bool, bool, bool) {
				if step.Verb != Await && step.Verb != Finish {
					names = append(names, string(step.Verb)+" "+step.Name)
				}
				return false, false, false
			})
			return names
		}
		if got := applied(before); got != nil {
			t.Fatalf("an equal stack: %v", got)
		}
		want := []string{"apply cache", "discard migrate", "apply migrate", "remove web", "apply front", "apply seed", "apply worker", "remove old"}
		if got := applied(after); !slices.Equal(got, want) {
			t.Fatalf("%v, not %v", got, want)
		}
	})
}

func TestProblems(t *testing.T) {
	t.Parallel()
	members := []Member{
		service("a", "1", Dependency{"b", Started}), service("b", "1", Dependency{"c", Healthy}), service("c", "1", Dependency{"a", Healthy}),
		service("d", "1", Dependency{"none", Started}, Dependency{"d", Started}, Dependency{"a", Completed}), job("e", "1"), service("f", "1", Dependency{"e", Healthy}),
		service("d", "2"), {Name: "g", Object: "s-a", Kind: Service, Print: "1"},
	}
	var got []string
	for _, p := range Problems(members) {
		got = append(got, p.Text)
	}
	for _, want := range []string{"a → b → c → a", "d waits for none", "d waits for itself", "a service, which never ends", "that is a job", "two members with the name d", "a and g would both be s-a"} {
		if !slices.ContainsFunc(got, func(text string) bool { return strings.Contains(text, want) }) {
			t.Errorf("nothing is said of %q: %q", want, got)
		}
	}
	if len(got) != 7 {
		t.Errorf("%d problems: %q", len(got), got)
	}
	if p := Problems(before); p != nil {
		t.Errorf("a good stack: %v", p)
	}
}
