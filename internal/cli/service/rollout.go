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
)

// follower shows what a service does while a command waits for it: its events, or on a terminal one line
// that moves.
type follower struct {
	out    io.Writer
	moving bool
	shown  int // the id of the latest event
	width  int // of the line that is there
}

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
	for _, e := range s.Events {
		if e.ID > f.shown && !f.moving {
			fmt.Fprintln(f.out, term.Line(e.Message))
		}
		f.shown = max(f.shown, e.ID)
	}
	if f.moving {
		f.draw(rolloutLine(s, at))
	}
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

// rolloutLine says in one line how far a service is: the stage, the healthy copies of each revision, the
// part of the connections that the new one has, and the time that is left.
func rolloutLine(s api.Service, at time.Time) string {
	var p *api.DeploymentProgress
	if n := len(s.History); n > 0 && s.History[n-1].FinishedAt.IsZero() {
		p = s.History[n-1].Progress
	}
	parts := []string{s.ServiceName}
	for _, d := range s.Deployments {
		if d.Status == "PRIMARY" || d.RunningCount+d.PendingCount > 0 {
			parts = append(parts, fmt.Sprintf("%s %d/%d healthy", term.Line(d.TaskDefinition), d.HealthyCount, max(d.DesiredCount, d.RunningCount+d.PendingCount)))
		}
	}
	if p == nil {
		parts = append(parts, strings.ToLower(s.Deployments[0].RolloutState))
		return strings.Join(parts, " · ")
	}
	stage := p.Stage
	if p.Returning {
		stage = "on the way back"
	}
	parts = append(parts, stage)
	for _, h := range p.Hooks {
		switch h.Status {
		case "AWAITING_ACTION":
			parts = append(parts, "paused ("+h.Hook+")")
		case "IN_PROGRESS":
			parts = append(parts, "hook "+h.Hook+", "+console.Span(at.Sub(h.StartedAt))+" of "+console.Span(h.ExpiresAt.Sub(h.StartedAt)))
		}
	}
	if s.DeploymentConfiguration.Strategy != "ROLLING" || p.Percent > 0 {
		parts = append(parts, fmt.Sprintf("%g %% shifted", p.Percent))
	}
	if left := p.Until.Sub(at); !p.Until.IsZero() && left > 0 {
		parts = append(parts, console.Span(left)+" left")
	}
	return strings.Join(parts, " · ")
}

// rolloutCell is how far a service is, in a list.
func rolloutCell(s api.Service) string {
	state := s.Deployments[0].RolloutState
	if n := len(s.History); n > 0 && s.History[n-1].FinishedAt.IsZero() && s.History[n-1].Progress != nil {
		return state + " (" + s.History[n-1].Progress.Stage + ")"
	}
	return state
}

// listenersCell are the addresses of a service, in a list.
func listenersCell(s api.Service) string {
	var words []string
	for _, l := range s.Listeners {
		words = append(words, l.Address)
	}
	for _, l := range s.TestListeners {
		words = append(words, l.Address+" (test)")
	}
	for _, n := range s.Names {
		words = append(words, fmt.Sprintf("%s:%d (name)", n.Name, n.Port))
	}
	for _, i := range s.Ingress {
		words = append(words, i.URL)
	}
	return strings.Join(words, ", ")
}
