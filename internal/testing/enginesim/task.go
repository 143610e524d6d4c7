package enginesim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// task is one task, with or without an owner.
type task struct {
	id  string
	def taskdef.Task
	// text is def as the records hold it.
	text []byte
	opts lifecycle.Options
	// foreground: the process that submitted it shows it to a user, and lives.
	foreground bool
	// owner is the process that drives it; nil when there is none.
	owner  *process
	phase  phase
	record record
	// log is the task's part of the event log.
	log   []lifecycle.Transition
	truth []truth
	// haunted: Podman made its pod after the death of the owner that asked for it, or no record
	// says that there is one, because the disk was full.
	haunted bool
	// foreign is a user's container in the task's pod; empty for none.
	foreign string
}

// record is what may be found on the disk.
type record struct {
	// acked is the record as last acknowledged, nil for none.
	acked []byte
	// tried are those written since, with an unknown result.
	tried [][]byte
}

type phase int

const (
	fresh  phase = iota // not submitted yet
	alive               // submitted
	erased              // removed, or its submission failed
)

func newTask(w *world, i int) *task {
	t := &task{id: fmt.Sprintf("%016x%016x", w.r.Uint64(), w.r.Uint64()), def: randomTask(w.r, fmt.Sprintf("family%d", i), w.pinned), opts: randomOptions(w.r)}
	if t.id[2]%3 == 0 {
		likePod(rand.New(rand.NewPCG(uint64(i), uint64(t.id[3]))), &t.def)
	}
	if t.id[0]%2 == 0 {
		t.def.Extensions.Network = taskdef.NetworkShared
	}
	if err := t.def.Check(); err != nil {
		panic("enginesim: the random task is not valid: " + err.Error())
	}
	if t.id[4]%2 == 0 {
		t.opts.MetadataKey = t.id
	}
	t.foreground = t.id[1]%2 == 0
	t.recordDefinition()
	t.truth = make([]truth, len(t.def.Containers))
	w.count.Containers += len(t.truth)
	return t
}

// pod and container are the names agent gives.
func (t *task) pod() string { return "podtask-" + t.def.Family + "-" + t.id[:12] }

func (t *task) container(i int) string {
	if i == lifecycle.InfraIndex {
		return t.pod() + "-infra"
	}
	return t.pod() + "-" + t.def.Containers[i].Name
}

func describe(t *task) string {
	return fmt.Sprintf("%s pull %s, remove %t, %s", t.id, t.opts.Pull, t.opts.Remove, t.text)
}

// recordDefinition encodes the definition once for all records, in which it never
// changes, and continues with what is read back.
func (t *task) recordDefinition() {
	text, err := json.Marshal(t.def)
	if err != nil {
		panic("enginesim: a definition cannot be encoded: " + err.Error())
	}
	t.def, t.text = taskdef.Task{}, text
	if err := json.Unmarshal(text, &t.def); err != nil {
		panic("enginesim: a definition cannot be decoded: " + err.Error())
	}
}

// encode makes the record of a state: what changes, and then the definition.
func (t *task) encode(s lifecycle.State) ([]byte, error) {
	head, err := json.Marshal(struct {
		lifecycle.State
		Task struct{} `json:"task,omitzero"`
	}{State: s.Durable()})
	if err != nil {
		return nil, err
	}
	return slices.Concat(head[:len(head)-1], []byte(definitionKey), t.text, []byte("}")), nil
}

// definitionKey stands between the two parts of a record.
const definitionKey = `,"task":`

// decode reads a record and checks the state in it.
func (t *task) decode(data []byte) (s lifecycle.State, err error) {
	head, ok := bytes.CutSuffix(data, slices.Concat([]byte(definitionKey), t.text, []byte("}")))
	if !ok {
		return s, errors.New("the definition is another")
	}
	if err := json.Unmarshal(append(slices.Clip(head), '}'), &s); err != nil {
		return s, err
	}
	s.Task = t.def // valid since newTask
	return s, s.Invariants()
}

// published is the number of the last event in the log.
func (t *task) published() uint64 {
	if n := len(t.log); n > 0 {
		return t.log[n-1].Seq
	}
	return 0
}

// mayBe tells whether data may be what is read back.
func (t *task) mayBe(data []byte) bool {
	same := func(d []byte) bool { return (d == nil) == (data == nil) && bytes.Equal(d, data) }
	return same(t.record.acked) || slices.ContainsFunc(t.record.tried, same)
}
