// Package reason makes sentences of the reasons of a task, for `podtask why` and the views of tasks.
package reason

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// NoOwner is the code of the reason of a task without an owner.
const NoOwner = "no-owner"

// ECS is the code of what podtask-ecs waits for. It comes after the other reasons.
const ECS = "ecs"

// Explanation is the output for a task or service; templates see its fields.
type Explanation struct {
	ID     string `json:"id"`
	Name   string `json:"name,omitempty"`
	Status string `json:"status"`
	// Sentence is printed without --format.
	Sentence string       `json:"sentence"`
	Why      []api.Reason `json:"why"`
}

// Task makes sentences of the reasons of a task. Without an owner, that is the first reason.
func Task(t api.Task, now time.Time) Explanation {
	a := Explanation{ID: t.ID, Name: t.Name, Status: t.Status, Why: t.Why}
	if !t.Settled && !t.Owner.Alive {
		ref := cmp.Or(t.Name, lifecycle.ShortID(t.ID))
		text := fmt.Sprintf("the podtask process that ran it has died. Take it over with `podtask wait %s`, or stop it with `podtask stop %s`", ref, ref)
		if len(t.Why) > 0 {
			text += ". Last known: " + t.Why[0].Text
		}
		a.Why = append([]api.Reason{{Code: NoOwner, Text: text}}, t.Why...)
	}
	name := lifecycle.ShortID(t.ID)
	if shown := cmp.Or(t.Name, t.Family); shown != "" {
		name = shown + " (" + name + ")"
	}
	a.Sentence = name + " " + stateClause(t, a.Why, now) + ": "
	if len(a.Why) > 0 {
		first := a.Why[0]
		if first.Code == lifecycle.WhyRunning { // stateClause has that
			first.Since = time.Time{}
		}
		a.Sentence += console.Reason(first, now) + advice(t, first)
	}
	for i, r := range a.Why {
		if i > 0 && (r.Code == lifecycle.WhyProtected || r.Code == lifecycle.WhyFault || r.Code == api.WhyLogsStalled || r.Code == api.WhyUpdateWaits || r.Code == api.WhyNames || r.Code == ECS) {
			a.Sentence += ". " + console.Capital(console.Reason(r, now))
		}
	}
	a.Sentence += "."
	return a
}

// stateClause says what a task does, with a verb: "has been running for 3s", "stopped 2 minutes ago".
func stateClause(t api.Task, why []api.Reason, now time.Time) string {
	ago := ""
	if len(why) > 0 && why[0].Code == lifecycle.WhyEnded && !why[0].Since.IsZero() {
		ago = " " + console.Ago(now, why[0].Since)
	}
	t.Owner.Alive = true // what happens to a task without an owner is among its reasons
	switch state := console.TaskState(t, ""); {
	case state == "failed to start":
		return state + ago
	case t.Status == lifecycle.StatusStopped.String() && ago == "":
		return "has stopped"
	case t.Status == lifecycle.StatusStopped.String():
		return "stopped" + ago
	case state == "running" && len(why) > 0 && why[0].Code == lifecycle.WhyRunning && now.Sub(why[0].Since) < time.Second:
		return "has just started"
	case state == "running" && len(why) > 0 && why[0].Code == lifecycle.WhyRunning && !why[0].Since.IsZero():
		return "has been running for " + console.ReasonSpan(now.Sub(why[0].Since))
	default:
		return "is " + state
	}
}

// advice returns a sentence more: what a user can do, or that there is nothing to do.
func advice(t api.Task, r api.Reason) string {
	ref := cmp.Or(t.Name, lifecycle.ShortID(t.ID))
	ran := func(c api.Container) bool { return !c.StartedAt.IsZero() }
	switch r.Code {
	case lifecycle.WhyQueued:
		return ". It starts by itself when that is free"
	case lifecycle.WhyPaused:
		return fmt.Sprintf(". Resume it with `podtask unpause %s`", ref)
	case lifecycle.WhyRetry:
		if t.Goal == lifecycle.Up.String() {
			return fmt.Sprintf(". Give up with `podtask stop %s`", ref)
		}
	case lifecycle.WhyUnhealthy, lifecycle.WhyRestart:
		return fmt.Sprintf(". See `podtask logs %s`", ref)
	case lifecycle.WhyEnded:
		switch {
		case strings.Contains(r.Text, lifecycle.ErrOutOfMemory):
			return ". Give it more `memory` in its definition, or with `podtask run --memory`"
		case strings.Contains(r.Text, "of its stop signal and was killed"):
			return ". Have the program exit on its stop signal, or raise its `stopTimeout`"
		case t.Goal == lifecycle.Gone.String():
		case slices.ContainsFunc(t.Containers, ran):
			return fmt.Sprintf(". See `podtask logs %s`", ref)
		}
	}
	return ""
}
