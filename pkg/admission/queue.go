package admission

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/pkg/ports"
)

// Queue lists the tasks that have a share of the host and those that wait for one. It is a value: its
// methods return another and leave it as it is. The zero value is empty.
type Queue struct {
	// Last is the number of the latest entry; numbers are not used again.
	Last uint64 `json:"last,omitempty"`
	// Entries are in the order in which they asked.
	Entries []Entry `json:"entries,omitempty"`
	// Others is the use of each quota by others than tasks, as last seen.
	Others map[string]int64 `json:"others,omitempty"`
}

// Entry is a task that has asked.
type Entry struct {
	// Task is the task's id, Name what people call it.
	Task   string    `json:"task"`
	Name   string    `json:"name,omitempty"`
	Number uint64    `json:"number"`
	Since  time.Time `json:"since"` // when it asked, or was let in
	// Held: it is in. Otherwise it waits.
	Held bool `json:"held,omitempty"`
	Need Need `json:"need"`
	// GPUs are the devices that the task has, or has to get again; none before it is in for
	// the first time.
	GPUs []string `json:"gpus,omitempty"`
	// Passed counts the later tasks that were let in before it and took something that it lacks.
	Passed int `json:"passed,omitempty"`
	// Heir is the task that replaces this one and gets its place when it is released.
	Heir string `json:"heir,omitempty"`
	// Inherited: the task has the place of the one that it replaces since Since, and has not asked yet.
	Inherited bool `json:"inherited,omitempty"`
}

// label is the name of the entry in messages.
func (e Entry) label() string {
	id := e.Task[:min(len(e.Task), 12)]
	if e.Name == "" {
		return id
	}
	return e.Name + " (" + id + ")"
}

// Find returns the entry of a task.
func (q Queue) Find(task string) (Entry, bool) {
	if i := q.index(task); i >= 0 {
		return q.Entries[i], true
	}
	return Entry{}, false
}

func (q Queue) index(task string) int {
	return slices.IndexFunc(q.Entries, func(e Entry) bool { return e.Task == task })
}

func (q Queue) clone() Queue {
	q.Entries = slices.Clone(q.Entries)
	return q
}

// Ask lets a task in or puts it at the end of the queue. A task that has asked before
// keeps its place, so it may be asked again and again; its need is what it says now. Present
// reports whether a waiting task still has an owner that would start it: others are
// passed, and keep their place until they come back or are released.
func (q Queue) Ask(b Budget, e Entry, at time.Time, present func(task string) bool) (Queue, Verdict) {
	i := q.index(e.Task)
	if i < 0 {
		q = q.with(e, at)
		i = len(q.Entries) - 1
	}
	q = q.claim(i, e).needing(i, e)
	v := q.judge(b, i, at, present)
	if !v.Admitted || q.Entries[i].Held {
		return q, v
	}
	q = q.admit(b, i, at)
	for _, k := range v.passes {
		q.Entries[k].Passed++
	}
	return q, v
}

// admit lets entry i in, for which there is room.
func (q Queue) admit(b Budget, i int, at time.Time) Queue {
	gpus := chooseGPUs(q, b, q.Entries[i])
	q = b.noteOthers(q, at).clone()
	q.Entries[i].Held, q.Entries[i].Since, q.Entries[i].GPUs = true, at, gpus
	return q
}

// needing changes entry i to what e needs.
func (q Queue) needing(i int, e Entry) Queue {
	if !q.Entries[i].Need.Equal(e.Need) || len(q.Entries[i].GPUs) == 0 && len(e.GPUs) > 0 {
		q = q.clone()
		q.Entries[i].Need = e.Need
		if len(e.GPUs) > 0 {
			q.Entries[i].GPUs = e.GPUs
		}
	}
	return q
}

// Take lets a task in whether or not there is room: it runs already. It waits only for a GPU
// of its own that another task got in the meantime.
func (q Queue) Take(e Entry, at time.Time) (Queue, Verdict) {
	i := q.index(e.Task)
	if i < 0 {
		q = q.with(e, at)
		i = len(q.Entries) - 1
	}
	q = q.needing(i, e)
	if q.Entries[i].Held {
		return q, Verdict{Admitted: true, GPUs: q.Entries[i].GPUs}
	}
	if short := heldGPUs(q, q.Entries[i]); len(short) > 0 {
		return q, Verdict{Short: short}
	}
	q = q.clone()
	q.Entries[i].Held, q.Entries[i].Since = true, at
	return q, Verdict{Admitted: true, GPUs: q.Entries[i].GPUs}
}

// with adds an entry at the end.
func (q Queue) with(e Entry, at time.Time) Queue {
	q = q.clone()
	q.Last++
	e.Number, e.Since, e.Held, e.Passed = q.Last, at, false, 0
	q.Entries = append(q.Entries, e)
	return q
}

// Release forgets a task. One that is not there is no error.
func (q Queue) Release(task string) Queue {
	if q.index(task) < 0 {
		return q
	}
	q = q.clone()
	q.Entries = slices.DeleteFunc(q.Entries, func(e Entry) bool { return e.Task == task })
	return q
}

// Bequeath names the task that is to have the place of another one when that is released; "" for none. A
// task that is not in has nothing to leave.
func (q Queue) Bequeath(task, heir string) Queue {
	if i := q.index(task); i >= 0 && q.Entries[i].Held {
		q = q.clone()
		q.Entries[i].Heir = heir
	}
	return q
}

// PassOn is Release for a task that may have an heir, who is then in with what the task had.
func (q Queue) PassOn(task string, at time.Time) Queue {
	i := q.index(task)
	if i < 0 || q.Entries[i].Heir == "" {
		return q.Release(task)
	}
	q = q.Release(q.Entries[i].Heir).clone() // it has asked for nothing yet
	e := &q.Entries[q.index(task)]
	e.Task, e.Heir, e.Since, e.Inherited = e.Heir, "", at, true
	return q
}

// claim turns the place that entry i has inherited into its own. Who needs something else than the task before
// waits in that place.
func (q Queue) claim(i int, e Entry) Queue {
	if !q.Entries[i].Inherited {
		return q
	}
	q = q.clone()
	mine := &q.Entries[i]
	mine.Inherited, mine.Name, mine.Held = false, e.Name, mine.Need.Equal(e.Need)
	if !mine.Held && mine.Need.GPUs != e.Need.GPUs {
		mine.GPUs = nil
	}
	return q
}

// Holder returns the task that is in with a port that p cannot be open beside.
func (q Queue) Holder(p ports.HostPort) (Entry, bool) {
	for _, e := range q.Entries {
		if e.Held && slices.ContainsFunc(e.Need.Ports, p.Conflicts) {
			return e, true
		}
	}
	return Entry{}, false
}

// Judge says at a time whether a task could be let in now, and if not, what it waits for. A
// task that has not asked waits for nothing.
func (q Queue) Judge(b Budget, task string, at time.Time, present func(task string) bool) Verdict {
	if i := q.index(task); i >= 0 {
		return q.judge(b, i, at, present)
	}
	return Verdict{}
}

// Behind reports whether an earlier task of the queue waits, too.
func (q Queue) Behind(task string, present func(task string) bool) bool {
	for _, e := range q.Entries {
		switch {
		case e.Task == task:
			return false
		case !e.Held && present(e.Task):
			return true
		}
	}
	return false
}

func (q Queue) judge(b Budget, i int, at time.Time, present func(string) bool) Verdict {
	e := q.Entries[i]
	if e.Held {
		return Verdict{Admitted: true, GPUs: e.GPUs}
	}
	v := Verdict{Short: q.shortages(b, e, at), Ahead: q.ahead(i)}
	if len(v.Short) > 0 {
		return v
	}
	after := q.admit(b, i, at)
	for k, earlier := range q.Entries[:i] {
		if earlier.Held || !present(earlier.Task) {
			continue
		}
		lost := after.shortages(b, earlier.sharedWith(after.Entries[i]), at)
		switch {
		case len(lost) == 0: // it takes nothing that the earlier task lacks
		// Cpu and memory may be taken from under it, which Passed bounds; not its port.
		case earlier.Passed < b.Overtake && len(earlier.Need.meets(e.Need)) == 0:
			v.passes = append(v.passes, k)
		default:
			return Verdict{Behind: earlier.label(), First: q.shortages(b, earlier, at), lost: lost, Ahead: v.Ahead}
		}
	}
	v.Admitted, v.GPUs, v.Ahead = true, after.Entries[i].GPUs, 0
	return v
}

// sharedWith returns the entry with only those of its needs of which o takes something, too.
func (e Entry) sharedWith(o Entry) Entry {
	n := Need{Ports: e.Need.meets(o.Need)}
	if o.Need.CPU > 0 {
		n.CPU = e.Need.CPU
	}
	if o.Need.Memory > 0 {
		n.Memory = e.Need.Memory
	}
	if o.Need.Containers > 0 {
		n.Containers, n.NoInfra = e.Need.Containers, e.Need.NoInfra
	}
	var devices []string
	for _, name := range e.GPUs {
		if slices.Contains(o.GPUs, name) {
			devices = append(devices, name)
		}
	}
	if o.Need.GPUs > 0 && (len(e.GPUs) == 0 || len(devices) > 0) {
		n.GPUs = e.Need.GPUs
	}
	e.Need, e.GPUs = n, devices
	return e
}

// ahead counts the entries before the one at i that wait.
func (q Queue) ahead(i int) (n int) {
	for _, e := range q.Entries[:i] {
		if !e.Held {
			n++
		}
	}
	return n
}

// shortages are the resources missing for e, in the order cpu, memory, quotas, GPUs, ports.
func (q Queue) shortages(b Budget, e Entry, at time.Time) []Shortage {
	var cpu, memory int64
	var cpuBy, memoryBy []string
	var ports []Shortage
	for _, h := range q.Entries {
		if !h.Held {
			continue
		}
		if cpu += h.Need.CPU; h.Need.CPU > 0 {
			cpuBy = append(cpuBy, h.label())
		}
		if memory += h.Need.Memory; h.Need.Memory > 0 {
			memoryBy = append(memoryBy, h.label())
		}
		for _, p := range e.Need.meets(h.Need) {
			ports = append(ports, Shortage{What: "port " + p.String(), Holders: []string{h.label()}})
		}
	}
	var short []Shortage
	if e.Need.CPU > 0 && b.CPU != Unlimited && e.Need.CPU > b.CPU-cpu {
		short = append(short, Shortage{What: "cpu", Want: cpuText(e.Need.CPU), Free: cpuText(max(0, b.CPU-cpu)), Of: cpuText(b.CPU), Holders: cpuBy})
	}
	if e.Need.Memory > 0 && b.Memory != Unlimited && e.Need.Memory > b.Memory-memory {
		short = append(short, Shortage{What: "memory", Want: memoryText(e.Need.Memory) + " of memory", Free: memoryText(max(0, b.Memory-memory)), Of: memoryText(b.Memory), Holders: memoryBy})
	}
	short = append(short, b.quotaShortages(q, e.Need, at)...)
	short = append(short, gpuShortages(q, b, e)...)
	return append(short, ports...)
}

// Verdict is the answer to a task that asks.
type Verdict struct {
	Admitted bool
	// GPUs are the devices that an admitted task has.
	GPUs []string
	// Short lists what is short; empty if there is room but another task is first.
	Short []Shortage
	// Behind names the earlier task that is first, and First what that one waits for.
	Behind string
	First  []Shortage
	// Ahead is the number of earlier tasks that wait, whether or not their owners live.
	Ahead int

	lost   []Shortage // what Behind would lack if the task were let in
	passes []int      // the entries that are passed by letting the task in
}

// Shortage is one thing there is too little of.
type Shortage struct {
	// What is cpu, memory, the name of a quota, gpu, a GPU such as "GPU nvidia.com/gpu=0", or a
	// port such as "port 8080/tcp".
	What string
	// Want, Free and Of are amounts with their units; empty for a port and a certain GPU.
	Want, Free, Of string
	// Others is the use of a quota by others than tasks; empty for none.
	Others string
	// Holders name the tasks that have it.
	Holders []string
}

// maxNamed is the number of holders that a message names.
const maxNamed = 3

// String says what is wanted, what is free and who has it, in words that follow "waits
// for".
func (s Shortage) String() string {
	text := s.What
	if s.Want != "" {
		used := ""
		if s.Others != "" {
			used = ", " + s.Others + " used by others"
		}
		free := s.Free
		if _, unit, ok := strings.Cut(s.Of, " "); ok {
			free = strings.TrimSuffix(free, " "+unit)
		}
		text = fmt.Sprintf("%s (%s of %s free%s)", s.Want, free, s.Of, used)
	}
	named := s.Holders
	if len(named) > maxNamed {
		named = append(slices.Clone(named[:maxNamed]), fmt.Sprintf("%d more", len(s.Holders)-maxNamed))
	}
	switch len(s.Holders) {
	case 0:
		return text
	case 1:
		return text + ", used by " + named[0]
	default:
		return text + ", used by " + strings.Join(named[:len(named)-1], ", ") + " and " + named[len(named)-1]
	}
}

// String says what the task waits for; empty when it is in.
func (v Verdict) String() string {
	switch {
	case v.Admitted:
		return ""
	case v.Behind != "" && len(v.First) > 0:
		return v.turn()
	case v.Behind != "":
		return fmt.Sprintf("its turn: %s is ahead", v.Behind)
	}
	var parts []string
	for _, s := range v.Short {
		parts = append(parts, s.String())
	}
	return strings.Join(parts, "; ")
}

// turn says what the earlier task waits for: something that this one takes, too, if there is such.
func (v Verdict) turn() string {
	for _, first := range v.First {
		if slices.ContainsFunc(v.lost, func(l Shortage) bool { return l.What == first.What }) {
			return fmt.Sprintf("its turn: %s is ahead and waits for %s", v.Behind, first)
		}
	}
	return fmt.Sprintf("its turn: %s is ahead, waits for %s and needs %s too", v.Behind, v.First[0], v.lost[0].What)
}

// Word is the same in a word or two: cpu, memory, a port, or turn.
func (v Verdict) Word() string {
	switch {
	case v.Admitted:
		return ""
	case len(v.Short) > 0:
		return v.Short[0].What
	default:
		return "turn"
	}
}
