package lifecycle

import (
	"time"
)

// OpID numbers the operations of a task. 0 is none.
type OpID uint64

// Op is an operation in flight.
type Op struct {
	ID    OpID      `json:"id,omitempty"`
	Kind  Kind      `json:"kind,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Probe is the check that a Probe makes.
	Probe ProbeKind `json:"probe,omitempty"`
	// Canceled: CancelOp was sent for it.
	Canceled bool `json:"canceled,omitempty"`
	// Gentle: a Stop that leaves the container time to end by itself.
	Gentle bool `json:"gentle,omitempty"`
	// Overdue is the time at which a Probe next counts as failed for taking too long.
	Overdue time.Time `json:"overdue,omitzero"`
	// Overran: it has counted as failed already; its answer does not matter.
	Overran bool `json:"overran,omitempty"`
	// Overruns is the number of times that it has counted as failed for taking too long.
	Overruns int `json:"overruns,omitempty"`
	// Outdated: something may have happened since an Inspect or a Create began that it did
	// not see.
	Outdated bool `json:"outdated,omitempty"`
}

// Busy reports whether there is an operation in flight.
func (o Op) Busy() bool { return o.ID != 0 }

// Unconfirmed is a failed call whose effect is not known yet.
type Unconfirmed struct {
	Kind    Kind    `json:"kind,omitempty"`
	Failure Failure `json:"failure,omitzero"`
}
