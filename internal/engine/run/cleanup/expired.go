package cleanup

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/run/owner"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Expired removes tasks that stopped long ago.
type Expired struct {
	Log      *slog.Logger
	StateDir string
	Tasks    *record.Tasks
	Owners   *owner.Owners
	// Before is called before tasks are removed; nil for nothing.
	Before func()
}

const (
	// cleanUpPace is how often any process looks for stopped tasks.
	cleanUpPace = time.Minute
	// cleanUpRound is how many are removed in one round, oldest first.
	cleanUpRound = 8
	// cleanUpJobs is how many are removed concurrently.
	cleanUpJobs = 4
)

// Remove removes tasks that stopped longer ago than keep (ECS agent: 3 h), those of
// run --rm without a foreground process, temporary tasks whose process was killed, and what is left of interrupted
// removals. A task that has an owner is left to its owner. Until then its logs and exit codes can be read.
//
// No agent is needed: each command calls it before it exits. So it is limited by ctx and a
// number of tasks, and works at most once a minute for all processes. What cannot be
// removed is logged and tried again by a later round.
func (c *Expired) Remove(ctx context.Context, now time.Time, keep time.Duration) {
	if !c.due(now) {
		return
	}
	if c.Before != nil {
		c.Before()
	}
	var wg sync.WaitGroup
	jobs := make(chan struct{}, cleanUpJobs)
	for _, s := range c.overdue(now, keep) {
		jobs <- struct{}{}
		wg.Go(func() {
			defer func() { <-jobs }()
			if err := c.removeOne(ctx, s.ID, now, keep); err != nil {
				c.Log.Info("a stopped task is not removed yet", "task", s.ID, "error", err)
			}
		})
	}
	wg.Wait()
}

// due reports whether the last round was over a minute ago, and if so records a new one.
// A clock that was set back makes it due.
func (c *Expired) due(now time.Time) bool {
	stamp := filepath.Join(c.StateDir, "cleaned-up")
	if info, err := os.Stat(stamp); err == nil {
		if age := now.Sub(info.ModTime()); age >= 0 && age < cleanUpPace {
			return false
		}
	}
	if err := os.WriteFile(stamp, nil, 0o600); err != nil {
		c.Log.Debug("the time of the clean-up is not noted", "error", err)
		return false
	}
	if err := os.Chtimes(stamp, now, now); err != nil {
		c.Log.Debug("the time of the clean-up is not noted", "error", err)
	}
	return true
}

// overdue lists the tasks to be removed now.
func (c *Expired) overdue(now time.Time, keep time.Duration) []lifecycle.State {
	all, _ := c.Tasks.States() // commands that list tasks report unreadable records
	all = slices.DeleteFunc(all, func(s lifecycle.State) bool {
		if !c.expired(s, now, keep) {
			return true
		}
		_, owned := c.Tasks.Holder(s.ID)
		return owned
	})
	slices.SortFunc(all, func(a, b lifecycle.State) int { return a.StoppedAt().Compare(b.StoppedAt()) })
	return all[:min(len(all), cleanUpRound)]
}

func (c *Expired) expired(s lifecycle.State, now time.Time, keep time.Duration) bool {
	switch {
	case s.Goal == lifecycle.Gone, s.Options.Temporary:
		return true // its removal was interrupted, or the process that created it was killed
	case s.Options.Remove && c.Tasks.InForeground(s.ID):
		return false // run --rm may still be reading its logs
	case s.Options.Remove:
		keep = 0
	}
	return s.Settled() && now.Sub(s.StoppedAt()) >= keep
}

// removeOne removes a task if it is still expired once this process holds its lock.
func (c *Expired) removeOne(ctx context.Context, id string, now time.Time, keep time.Duration) error {
	o, err := c.Owners.Own(id)
	if err != nil {
		return err
	}
	defer o.Close()
	if !c.expired(o.State(), now, keep) {
		return nil
	}
	o.Send(lifecycle.RemoveRequested{By: "the clean-up of stopped tasks"})
	return o.Run(ctx)
}
