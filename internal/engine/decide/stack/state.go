package stack

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/images/imageage"
)

// Kind names what a member is.
type Kind string

// The kinds of members.
const (
	Service  Kind = "service"  // copies that are kept running
	Job      Kind = "job"      // a task that runs to its end, and succeeds
	Schedule Kind = "schedule" // times at which a task is run
)

// Condition names what a member waits for, in the order in which they come true.
type Condition string

// The conditions of dependencies.
const (
	Started   Condition = "started"   // a copy runs, or the schedule is there
	Healthy   Condition = "healthy"   // all copies are healthy
	Completed Condition = "completed" // the job has succeeded
)

// Dependency is a member that another one waits for.
type Dependency struct {
	Name string    `json:"name"`
	Is   Condition `json:"is"`
}

// Met reports whether a service with these numbers of copies satisfies the dependency: one copy runs, or as many as desired are healthy.
func (d Dependency) Met(running, healthy, desired int) bool {
	if d.Is == Started {
		return running > 0
	}
	return healthy >= desired
}

// Member is a service, a job or a schedule as a stack wants it.
type Member struct {
	// Name is unique in the stack, Object on the host: that of the service, and the beginning of those of a job's tasks.
	Name   string `json:"name"`
	Object string `json:"object"`
	Kind   Kind   `json:"kind"`
	// After are the members that it waits for, each once.
	After []Dependency `json:"after,omitempty"`
	// Print is the same for two members that are applied alike, and never empty.
	Print string `json:"print"`
	// Takes are addresses that only one service can have.
	Takes []string `json:"takes,omitempty"`
	// Definition is the FAMILY:REVISION that is run; empty until it is registered.
	Definition string `json:"definition,omitempty"`
	// Images lists what is run for each image of the definition: NAME:TAG@DIGEST, or the name of an image without a digest.
	Images map[string]string `json:"images,omitempty"`
	// Request names what the agent is asked for, without definition and images. No step reads it.
	Request json.RawMessage `json:"request,omitempty"`
}

// Revision names what a stack was, or is to be.
type Revision struct {
	// Number is the one of the change that made it.
	Number int `json:"number"`
	// Source are the files that it was read from.
	Source  []string `json:"source,omitempty"`
	Members []Member `json:"members"`
	// Volumes lists those that Podman makes for it.
	Volumes []string `json:"volumes,omitempty"`
}

// Find returns a member; nil if there is none.
func (r Revision) Find(name string) *Member {
	if i := slices.IndexFunc(r.Members, func(m Member) bool { return m.Name == name }); i >= 0 {
		return &r.Members[i]
	}
	return nil
}

// Had names what a member has on the host, as far as is known.
type Had struct {
	Object string `json:"object"`
	Kind   Kind   `json:"kind"`
	// Print is the one of the Member that was applied last; empty if that is not sure, or the job is to run again.
	Print string   `json:"print,omitempty"`
	Takes []string `json:"takes,omitempty"`
	// Run is the number of the change in which a job ran last: its task is OBJECT-RUN. 0: there is no task.
	Run int `json:"run,omitempty"`
	// Mark names what the agent called what was applied: the deployment of a service.
	Mark string `json:"mark,omitempty"`
	// Made is the time at which the agent made the service; zero if it is not known. Another service of the name has another one.
	Made time.Time `json:"made,omitzero"`
	// Definition is the one that was applied last, if that has ended or not.
	Definition string `json:"definition,omitempty"`
	// Token names the run of a job: no other task has the ID that follows from it.
	Token string `json:"token,omitempty"`
	// Unseen: no change has seen the last run of a job complete yet.
	Unseen bool `json:"unseen,omitempty"`
}

// Way names the place where a change goes.
type Way string

// The ways.
const (
	Forward  Way = "forward"  // to its target
	Back     Way = "back"     // to the revision before
	Clearing Way = "clearing" // the members are as wanted, and what is left over is removed
)

// Change is a change that has not ended.
type Change struct {
	Number int       `json:"number"`
	Began  time.Time `json:"began"`
	Target Revision  `json:"target"`
	Way    Way       `json:"way"`
	// Remove: nothing is to be left, not even the record; with Volumes also no volumes.
	Remove  bool `json:"remove,omitempty"`
	Volumes bool `json:"volumes,omitempty"`
	// SkipJobs: no job runs, because the target was there before.
	SkipJobs bool `json:"skipJobs,omitempty"`
	// Keep: a failure leaves everything as it is then.
	Keep bool `json:"keep,omitempty"`
	// Touched are the members that were applied, with the latest condition that was seen of them; empty for none.
	Touched map[string]Condition `json:"touched,omitempty"`
	// Seen are the conditions that were seen of others, for which a member waits.
	Seen map[string]Condition `json:"seen,omitempty"`
	// Failed is the member that failed, Reason why the change is put back.
	Failed string `json:"failed,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Stuck lists what could not be put back or removed, and why; it is tried again when the change is continued.
	Stuck map[string]string `json:"stuck,omitempty"`
}

// Result describes how a change ended.
type Result string

// The results.
const (
	Done      Result = "done"
	PutBack   Result = "put back"
	Abandoned Result = "abandoned" // another change took its place before it had ended
	Kept      Result = "failed"    // and was left as it was
)

// Past is a change that has ended.
type Past struct {
	Number int       `json:"number"`
	Result Result    `json:"result"`
	Began  time.Time `json:"began"`
	Ended  time.Time `json:"ended"`
	Source []string  `json:"source,omitempty"`
	Failed string    `json:"failed,omitempty"`
	Reason string    `json:"reason,omitempty"`
}

// Preview makes a stack a copy of another one that ends by itself.
type Preview struct {
	// Of is the stack whose files it has, and Name tells it from other previews of that.
	Of   string `json:"of"`
	Name string `json:"name"`
	// Until is the time of its end by the clock as it was at At. What is left of it is counted in time that passes: a clock that is set
	// ends no preview.
	Until time.Time       `json:"until"`
	At    imageage.Moment `json:"at"`
	// Filled are the volumes that were filled by a command. Filling are those that were missing and that a command has not filled yet:
	// if they are there, they are of a command that failed or was killed.
	Filled  []string `json:"filled,omitempty"`
	Filling []string `json:"filling,omitempty"`
}

// Left returns the time that a preview has until its end. A record of an earlier version has no At.
func (p Preview) Left(now imageage.Moment) time.Duration {
	if p.At.Wall.IsZero() {
		return p.Until.Sub(now.Wall)
	}
	return p.Until.Sub(p.At.Wall) - now.Since(p.At)
}

// Ending returns the preview with its end that long after now.
func (p Preview) Ending(left time.Duration, now imageage.Moment) *Preview {
	p.Until, p.At = now.Wall.UTC().Add(left), now
	return &p
}

// Stack returns the name of the stack that a preview is.
func (p Preview) Stack() string { return p.Of + "-" + p.Name }

// State is the record of a stack.
type State struct {
	Name string `json:"name"`
	// Preview is nil for a stack that stays.
	Preview *Preview `json:"preview,omitempty"`
	// Last is the number of the latest change.
	Last int `json:"last"`
	// Current is the revision that the stack is put back to; without a number there is none.
	Current Revision `json:"current"`
	// Before are the revisions before Current, the latest last.
	Before []Revision `json:"before,omitempty"`
	// Have lists what members may be on the host, by name.
	Have    map[string]Had `json:"have,omitempty"`
	Change  *Change        `json:"change,omitempty"`
	History []Past         `json:"history,omitempty"`
	// Volumes are all that Podman was ever to make for the stack.
	Volumes []string `json:"volumes,omitempty"`
}

// Bounds of a record.
const (
	maxBefore  = 9
	maxHistory = 20
	// MaxMembers describes how many members a stack may have.
	MaxMembers = 100
)

var name = lazy.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// CheckName returns what is wrong with the name of a stack; nil for a good one.
func CheckName(text string) error {
	if !name.MatchString(text) {
		return fmt.Errorf("the name of a stack is 1 to 63 lower-case letters, digits, dashes and underscores, and begins with a letter or a digit, not %q", text)
	}
	return nil
}

// Check returns what is wrong with a record.
func Check(s State) error {
	errs := []error{CheckName(s.Name)}
	revisions := append(slices.Clone(s.Before), s.Current)
	if s.Change != nil {
		revisions = append(revisions, s.Change.Target)
	}
	for _, r := range revisions {
		errs = append(errs, r.Check())
	}
	for n, h := range s.Have {
		if h.Object == "" || h.Kind != Service && h.Kind != Job && h.Kind != Schedule {
			errs = append(errs, fmt.Errorf("the member %s of the record is no service, job or schedule", n))
		}
	}
	return errors.Join(errs...)
}

// Check returns what is wrong with a revision: what Problems finds.
func (r Revision) Check() error {
	var errs []error
	for _, p := range Problems(r.Members) {
		errs = append(errs, errors.New(p.Text))
	}
	return errors.Join(errs...)
}
