package imagelook

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/sleep"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/images/imageage"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Looker looks at tags. It may be used concurrently.
type Looker struct {
	log      *slog.Logger
	images   *imagestore.Resolver
	tasks    *record.Tasks
	stateDir string
}

// New returns a looker at what the tasks and the services below stateDir, the directory of records, follow.
func New(log *slog.Logger, images *imagestore.Resolver, tasks *record.Tasks, stateDir string) *Looker {
	return &Looker{log, images, tasks, stateDir}
}

const (
	// roundEvery is the time between two rounds, in which the tags are looked at that are due.
	roundEvery = 30 * time.Minute
	// lookTimeout limits a look at one tag.
	lookTimeout = time.Minute
)

// Users returns those who follow tags and demand something of an update: tasks, and services also while they have no
// copies. A service is a task without an ID.
func (l *Looker) Users() []lifecycle.State {
	var all []lifecycle.State
	seen := map[string]bool{}
	add := func(s lifecycle.State) {
		if taker := imagestore.TakerOf(s); !seen[taker] && l.images.PolicyOf(s).Demands() {
			seen[taker] = true
			all = append(all, s)
		}
	}
	services, err := state.OpenIn(filepath.Join(l.stateDir, "services"), state.OS{})
	if err != nil {
		l.log.Warn("cannot read the services that follow tags", "error", err)
	} else {
		for r, err := range services.All(nil) {
			var s service.State
			if err == nil && json.Unmarshal(r.Data, &s) == nil && len(s.Deployments) > 0 {
				add(imagestore.OfService(s))
			}
		}
	}
	tasks, _ := l.tasks.States() // a corrupt record follows nothing
	for _, s := range tasks {
		if s.Options.Service == "" && s.Goal == lifecycle.Up {
			add(s)
		}
	}
	return all
}

// Look looks at the tags that are due. The error has those that could not be looked at.
func (l *Looker) Look(ctx context.Context) error {
	book, err := l.images.Sights.Read()
	if err != nil {
		return err
	}
	all := l.Users()
	due := book.Due(0, l.images.Sights.Now())
	var problems []string
	for _, ref := range due {
		if slices.ContainsFunc(book.Takers(ref), ofStack) {
			all = append(all, lifecycle.State{Task: taskdef.Task{Containers: []taskdef.Container{{Image: ref}}}})
		}
	}
	for _, s := range all {
		for _, c := range s.Task.Containers {
			i, follows := imagestore.ImageOf(c.Image)
			at := slices.Index(due, i.Ref)
			if !follows || at < 0 {
				continue
			}
			due = slices.Delete(due, at, at+1)
			if err := l.look(ctx, s, c.Image, i.Ref); err != nil {
				problems = append(problems, err.Error())
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("%d images could not be looked at: %s", len(problems), problems[0])
	}
	return nil
}

func (l *Looker) look(ctx context.Context, s lifecycle.State, image, ref string) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	err := l.images.Look(ctx, s, image)
	if err == nil {
		return nil
	}
	saved := l.images.Sights.Update(context.WithoutCancel(ctx), func(b imageage.Book) imageage.Book {
		return b.Failed(ref, err.Error(), l.images.Sights.Now())
	})
	if saved != nil {
		l.log.Warn("a look that failed cannot be written down", "image", ref, "error", saved)
	}
	return fmt.Errorf("%s: %w", ref, err)
}

// Pending returns the updates that wait, and the tags that could not be looked at, with the reason.
func (l *Looker) Pending() (waiting []imageage.Pending, unseen map[string]string, err error) {
	book, err := l.images.Sights.Read()
	if err != nil {
		return nil, nil, err
	}
	users, unseen := map[string]bool{}, map[string]string{}
	for _, s := range l.Users() {
		users[imagestore.TakerOf(s)] = true
		for _, c := range s.Task.Containers {
			if i, ok := imagestore.ImageOf(c.Image); ok && book.Tags[i.Ref].Failures > 0 {
				unseen[i.Ref] = book.Tags[i.Ref].Problem
			}
		}
	}
	waiting = book.Pending(imagestore.ImageOf, l.images.Rules, l.images.Sights.Now())
	waiting = slices.DeleteFunc(waiting, func(p imageage.Pending) bool { return !users[p.For] && !ofStack(p.For) })
	return waiting, unseen, nil
}

// ofStack reports whether a taker is a stack, whose images have digests in the record of its services.
func ofStack(taker string) bool { return strings.HasPrefix(taker, imagestore.StackTaker) }

// Damaged returns when the book was found damaged last; zero for never.
func (l *Looker) Damaged() time.Time {
	book, err := l.images.Sights.Read()
	if err != nil {
		return time.Time{}
	}
	return book.Damaged
}

// Run looks until ctx ends: a first time within half an hour, and then in rounds.
func (l *Looker) Run(ctx context.Context) {
	pause := time.Duration(rand.Float64() * float64(roundEvery))
	for sleep.For(ctx, pause) {
		if err := l.Look(ctx); err != nil && ctx.Err() == nil {
			l.log.Warn("the daily look at images", "error", err)
		}
		pause = roundEvery/2 + time.Duration(rand.Float64()*float64(roundEvery))
	}
}
