package service

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/service"
)

// follower shows what a service does while a command waits for it: on a terminal one line that moves,
// else a line for each step and for each copy that stops by itself.
type follower struct {
	out    io.Writer
	moving bool
	begun  time.Time
	last   string          // the latest step
	ended  map[string]bool // the copies, by ID, whose end was told or seen before
	reason string          // why the latest copy ended
	waits  string          // what it said last that the service waits for
	width  int             // of the line that is there
}

// longReason limits, in bytes, the reasons that are printed again for the next copy.
const longReason = 60

// newFollower returns a follower that tells of what comes after a state of the service.
func newFollower(out io.Writer, moving bool, before api.Service, now time.Time) *follower {
	f := &follower{out: out, moving: moving, begun: now, ended: map[string]bool{}}
	for _, t := range before.Tasks {
		f.ended[t.ID] = isEnding(t)
	}
	return f
}

// isEnding reports whether a copy has stopped, or is being stopped.
func isEnding(t api.ServiceTask) bool { return t.Phase != "WANTED" && t.Phase != "LIVE" }

// follow shows a service until fn returns false, ctx ends or the service is gone.
func (f *follower) follow(ctx context.Context, client *api.Client, name string, fn func(api.Service) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	states, ended := make(chan api.Service), make(chan error, 1)
	go func() {
		ended <- client.WatchService(ctx, name, func(s api.Service) bool {
			select {
			case states <- s:
				return true
			case <-ctx.Done():
				return false
			}
		})
	}()
	defer f.end()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	var last api.Service
	for {
		select {
		case last = <-states:
			f.show(last, time.Now())
			if !fn(last) {
				return nil
			}
		case now := <-second.C:
			if last.ServiceName != "" {
				f.show(last, now)
			}
		case err := <-ended:
			return err
		}
	}
}

// show shows the state of a service at a time.
func (f *follower) show(s api.Service, at time.Time) {
	if f.moving {
		line := rolloutLine(s, at)
		if text := waitsFor(s); text != "" {
			line += " · " + text
		}
		f.draw(line)
		return
	}
	for _, t := range s.Tasks {
		if isEnding(t) && !f.ended[t.ID] {
			f.ended[t.ID] = true
			switch {
			case t.Reason == f.reason && len(t.Reason) > longReason:
				f.tell(at, t.Name+" stops: for the same reason")
			case t.Reason != "":
				f.tell(at, t.Name+" stops: "+term.Line(t.Reason))
			}
			f.reason = t.Reason
		}
	}
	if step := rolloutLine(s, time.Time{}); step != f.last {
		f.last = step
		f.tell(at, step)
	}
	if text := waitsFor(s); text != "" && text != f.waits {
		f.waits = text
		f.tell(at, text)
	}
}

// waitsFor says what keeps copies of a service from starting, which may last; empty if nothing does.
func waitsFor(s api.Service) string {
	for _, r := range s.Why {
		switch r.Code {
		case service.WhyPlacement, service.WhyQueued, service.WhyRetry:
			return term.Line(r.Text)
		}
	}
	return ""
}

// tell prints a line with the time since the beginning.
func (f *follower) tell(at time.Time, text string) {
	fmt.Fprintf(f.out, "%7.1fs  %s\n", max(0, at.Sub(f.begun).Seconds()), text)
}

// draw puts a line in the place of the one before.
func (f *follower) draw(line string) {
	runes := []rune(line)
	if width := console.TerminalWidth(f.out); width > 1 && len(runes) >= width {
		runes = runes[:width-1]
		line = string(runes)
	}
	n := len(runes)
	fmt.Fprintf(f.out, "\r%s%s", line, strings.Repeat(" ", max(0, f.width-n)))
	f.width = n
}

// end ends the line.
func (f *follower) end() {
	if f.width > 0 {
		fmt.Fprintln(f.out)
		f.width = 0
	}
}

// deploymentName returns the definition of a deployment; where another deployment has the same one, its own ID.
func deploymentName(s api.Service, d api.Deployment) string {
	for _, other := range s.Deployments {
		if other.ID != d.ID && other.TaskDefinition == d.TaskDefinition {
			return d.ID
		}
	}
	return d.TaskDefinition
}

// rolloutLine says in one line how far a service is: the stage, the healthy copies of each revision, the
// part of the connections that the new one has, and the time that is left, unless at is zero.
func rolloutLine(s api.Service, at time.Time) string {
	p := console.ProgressOf(s)
	parts := []string{s.ServiceName}
	for _, d := range s.Deployments {
		if d.Status == "PRIMARY" || d.RunningCount+d.PendingCount > 0 {
			part := fmt.Sprintf("%s %d/%d healthy", term.Line(deploymentName(s, d)), d.HealthyCount, max(d.DesiredCount, d.RunningCount+d.PendingCount))
			if d.Status != "PRIMARY" {
				part = "old " + part
			}
			parts = append(parts, part)
		}
	}
	if p == nil {
		parts = append(parts, rolloutWord(s.Deployments[0].RolloutState))
		return strings.Join(parts, " · ")
	}
	stage := p.Stage
	if p.Returning {
		stage = "rolling back"
	}
	parts = append(parts, stage)
	for _, h := range p.Hooks {
		switch h.Status {
		case "AWAITING_ACTION":
			parts = append(parts, "paused ("+h.Hook+")")
		case "IN_PROGRESS":
			part := "hook " + h.Hook
			if !at.IsZero() {
				part += ", " + console.Span(at.Sub(h.StartedAt)) + " of " + console.Span(h.ExpiresAt.Sub(h.StartedAt))
			}
			parts = append(parts, part)
		}
	}
	if s.DeploymentConfiguration.Strategy != "ROLLING" || p.Percent > 0 {
		parts = append(parts, fmt.Sprintf("%g %% shifted", p.Percent))
	}
	if left := p.Until.Sub(at); !at.IsZero() && !p.Until.IsZero() && left > 0 {
		parts = append(parts, console.Span(left)+" left")
	}
	return strings.Join(parts, " · ")
}

// rolloutWord is the everyday word for the state of a deployment: "in progress", "completed" or "failed".
func rolloutWord(state string) string { return strings.ReplaceAll(strings.ToLower(state), "_", " ") }

// rolloutCell is how far a service is, in a list.
func rolloutCell(s api.Service) string {
	state := s.Deployments[0].RolloutState
	if p := console.ProgressOf(s); p != nil {
		return state + " (" + p.Stage + ")"
	}
	return state
}

// listenersCell are the addresses of a service, in a list.
func listenersCell(s api.Service) string {
	var words []string
	for _, l := range s.Listeners {
		words = append(words, l.Address+down(l.Problem != ""))
	}
	for _, l := range s.TestListeners {
		words = append(words, l.Address+" (test)"+down(l.Problem != ""))
	}
	for _, n := range s.Names {
		words = append(words, fmt.Sprintf("%s:%d (name)", n.Name, n.Port))
	}
	for _, i := range s.Ingress {
		words = append(words, i.URL+down(i.Down))
	}
	return strings.Join(words, ", ")
}

func down(is bool) string {
	if is {
		return " (down)"
	}
	return ""
}
