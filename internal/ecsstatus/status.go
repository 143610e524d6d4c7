// Package ecsstatus has what a process of podtask-ecs tells others about its instance: people, and the agent,
// which has metrics of it. It is a package of its own because the agent links no client of AWS.
package ecsstatus

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/state"
)

// Status describes a running instance for commands and metrics.
type Status struct {
	// PID is the process that wrote it: one that was killed leaves its status.
	PID      int    `json:"pid"`
	Cluster  string `json:"cluster"`
	Region   string `json:"region"`
	Instance string `json:"containerInstanceArn,omitempty"`
	// Since is the start of the process, Registered the time at which ECS last accepted the registration.
	Since      time.Time `json:"since"`
	Registered time.Time `json:"registeredAt,omitzero"`
	ACS        Link      `json:"acs"`
	TCS        Link      `json:"tcs"`
	// Inactive: ECS says that the instance was deregistered.
	Inactive bool `json:"inactive,omitempty"`
	// Waits lists the waits of the instance and its tasks, except those for links.
	Waits []Wait `json:"waits,omitempty"`
}

// Link is the state of a web socket.
type Link struct {
	Connected bool      `json:"connected"`
	Since     time.Time `json:"since,omitzero"`
	// Problem explains why it is not connected.
	Problem string `json:"problem,omitempty"`
	// Connections counts those of the process.
	Connections int `json:"connections"`
}

// Kind says what is waited for.
type Kind string

// The kinds of waits.
const (
	// WaitAgent is for an answer of the podtask agent: to make, watch, stop or remove a task, or to tell its version.
	WaitAgent Kind = "agent"
	// WaitRegistration is for ECS to take the registration.
	WaitRegistration Kind = "registration"
	// WaitCredentials is for the credentials of an execution role.
	WaitCredentials Kind = "credentials"
	// WaitValue is for a secret, a file with variables or a password of a registry.
	WaitValue Kind = "value"
	// WaitState is for ECS to take the state of a task.
	WaitState Kind = "state"
	// WaitImage is for a registry, of a task that cannot start: it ends when the attempts are used up.
	WaitImage Kind = "image"
	// WaitPort is for a host port that a task which stops still has, WaitRoom for cpu, memory or another share of the host.
	WaitPort Kind = "port"
	WaitRoom Kind = "room"
	// WaitDisk is for a record that can be written.
	WaitDisk Kind = "disk"
)

// Kinds are all kinds.
func Kinds() []Kind {
	return []Kind{WaitAgent, WaitCredentials, WaitDisk, WaitImage, WaitPort, WaitRegistration, WaitRoom, WaitState, WaitValue}
}

// Wait is something that an instance waits for.
type Wait struct {
	Kind Kind `json:"kind"`
	// Task is the ARN of the task that waits; empty: the instance does.
	Task string `json:"taskArn,omitempty"`
	// Since is the time at which the wait began. Text names its reason, with the last error.
	Since time.Time `json:"since"`
	Text  string    `json:"text"`
}

// Wait notes a wait. One that is known keeps its beginning.
func (s *Status) Wait(kind Kind, task, text string, at time.Time) {
	i, known := s.find(kind, task)
	s.Waits = slices.Clone(s.Waits)
	if !known {
		s.Waits = slices.Insert(s.Waits, i, Wait{Kind: kind, Task: task, Since: at})
	}
	s.Waits[i].Text = text
}

// Done ends a wait, if it is known.
func (s *Status) Done(kind Kind, task string) {
	if i, known := s.find(kind, task); known {
		s.Waits = slices.Delete(slices.Clone(s.Waits), i, i+1)
	}
}

func (s *Status) find(kind Kind, task string) (int, bool) {
	return slices.BinarySearchFunc(s.Waits, Wait{Kind: kind, Task: task}, func(a, b Wait) int {
		return cmp.Or(strings.Compare(a.Task, b.Task), strings.Compare(string(a.Kind), string(b.Kind)))
	})
}

// Of are the waits of a task.
func (s *Status) Of(task string) (out []Wait) {
	for _, w := range s.Waits {
		if w.Task == task {
			out = append(out, w)
		}
	}
	return out
}

// Dirs are the directories of an instance below those of podtask: for records, and in memory.
func Dirs(stateDir, runtimeDir string) (records, runtime string) {
	return filepath.Join(stateDir, "ecs"), filepath.Join(runtimeDir, "ecs")
}

// Path is the file with the status of an instance that runs, in its runtime directory.
func Path(runtime string) string { return filepath.Join(runtime, "status.json") }

// Read returns the status that the process of an instance wrote last; nil if there is none.
func Read(path string) (*Status, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := new(Status)
	return s, json.Unmarshal(text, s)
}

// Key is the key of the lock and of the record of the instance.
var Key = strings.Repeat("0", 32)

// Find returns the status of the instance of a user who has one: its process runs, or it is recorded. Running
// reports whether the process is there; without it the status is what it wrote last, or nil.
func Find(stateDir, runtimeDir string) (s *Status, running, is bool) {
	records, runtime := Dirs(stateDir, runtimeDir)
	if _, err := os.Stat(filepath.Join(records, "instance")); err != nil {
		return nil, false, false
	}
	var holder state.Holder
	if locks, err := state.OpenLocks(records, state.Holder{}); err == nil {
		holder, running, _ = locks.Holder(Key)
	}
	s, err := Read(Path(runtime))
	if err != nil || s != nil && running && s.PID != holder.PID {
		s = nil // the next change writes it again
	}
	kept, err := os.ReadDir(filepath.Join(records, "instance"))
	return s, running, running || err == nil && len(kept) > 0
}
