package imagestore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"time"

	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/engine/conn"
	"github.com/podtask/podtask/internal/engine/record"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/images"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Pruner removes images that podtask pulled and that nothing uses.
type Pruner struct {
	Log     *slog.Logger
	Getenv  func(string) string
	Policy  *config.Images
	Podman  func(context.Context) (Podman, error)
	Facts   *conn.Facts
	Tasks   *record.Tasks
	Records Records
	Free    func(dir string) (int64, error) // bytes the user may still write
}

// imageLease is the minimum time an image is kept after its last use: long enough for a
// task that found it to record that it uses it.
const imageLease = 10 * time.Minute

// LocalImage is an image that podtask pulled and that is in local storage.
type LocalImage struct {
	// ID is Podman's; Names are its tags, including those that podtask did not give.
	ID    string   `json:"id"`
	Names []string `json:"names"`
	// Target is what was pulled, name@digest; the latest, if there were several.
	Target   string    `json:"target"`
	Size     int64     `json:"size"`
	PulledAt time.Time `json:"pulledAt"`
	UsedAt   time.Time `json:"usedAt"`
	// Keep says why no clean-up removes it now; empty if one may.
	Keep string `json:"keep,omitempty"`
	// Manual: only a clean-up on demand removes it, because it was pulled with
	// prefer-cached.
	Manual bool `json:"manual,omitempty"`

	targets []string // all that podtask pulled it as
	image   libpod.Image
}

// List lists the images that podtask pulled and that are still there,
// least recently used first.
func (p *Pruner) List(ctx context.Context) ([]LocalImage, error) {
	podman, err := p.Podman(ctx)
	if err != nil {
		return nil, err
	}
	local, err := podman.Images(ctx)
	if err != nil {
		return nil, err
	}
	tasks, errs := p.Tasks.States()
	list := joinImages(p.Records.all(), local, tasks, p.Policy.Exclude)
	for i := range list {
		l := &list[i]
		if len(errs) > 0 { // it may use any of them
			l.Keep = cmp.Or(l.Keep, "the record of a task cannot be read")
		}
		if time.Since(l.UsedAt) < imageLease {
			l.Keep = cmp.Or(l.Keep, "it was used in the last ten minutes")
		}
	}
	return list, nil
}

// joinImages puts together what podtask remembers, what Podman has and what tasks
// need. It is pure.
func joinImages(book []PulledImage, local []libpod.Image, tasks []lifecycle.State, exclude []string) []LocalImage {
	var out []LocalImage
	for _, m := range local {
		l := LocalImage{ID: m.ID, Names: slices.Sorted(slices.Values(m.Names)), Size: m.Size, image: m}
		ours, known := false, map[string]bool{}
		for _, r := range book {
			if r.ID != m.ID {
				continue
			}
			ours = ours || r.Ours
			known[r.Reference] = true
			for _, name := range r.Given {
				known[name] = true
			}
			l.targets = append(l.targets, r.Target)
			if r.PulledAt.After(l.PulledAt) {
				l.PulledAt, l.Target = r.PulledAt, r.Target
			}
			if r.UsedAt.After(l.UsedAt) {
				l.UsedAt = r.UsedAt
			}
			l.Manual = l.Manual || r.Kept
		}
		if len(l.targets) == 0 {
			continue
		}
		l.Keep = whyInUse(l, ours, known, tasks, exclude)
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b LocalImage) int { return cmp.Or(a.UsedAt.Compare(b.UsedAt), cmp.Compare(a.ID, b.ID)) })
	return out
}

// whyInUse returns why no process may remove an image.
func whyInUse(l LocalImage, ours bool, known map[string]bool, tasks []lifecycle.State, exclude []string) string {
	if !ours {
		return "it was there before podtask pulled it"
	}
	if l.image.Containers == 1 {
		return "1 container uses it"
	}
	if l.image.Containers > 1 {
		return fmt.Sprintf("%d containers use it", l.image.Containers)
	}
	for _, s := range tasks {
		if s.Status() != lifecycle.StatusStopped && needs(s, l) {
			return "task " + s.ID[:12] + " needs it"
		}
	}
	for _, name := range l.Names {
		if !known[name] {
			return "it has the name " + name + ", which podtask did not give"
		}
		for _, pattern := range exclude {
			if ok, _ := path.Match(pattern, name); ok {
				return "its name is excluded by " + pattern
			}
		}
	}
	return ""
}

// needs reports whether a task that has not stopped has anything to do with an
// image.
func needs(s lifecycle.State, l LocalImage) bool {
	for i, c := range s.Containers {
		if c.ImageID == l.ID {
			return true
		}
		ref, err := images.ParseRef(s.Task.Containers[i].Image)
		if err == nil && (slices.Contains(l.Names, ref.String()) || slices.Contains(l.targets, ref.At(c.Digest))) {
			return true
		}
	}
	return false
}

// PruneOptions choose what a clean-up removes.
type PruneOptions struct {
	// MinAge is how long an image must not have been used; never less than ten
	// minutes.
	MinAge time.Duration
	// Limit bounds how many are removed; 0: no limit.
	Limit int
	// Demanded means that a user asked for it, so Manual images may be removed too.
	Demanded bool
	// DryRun removes nothing.
	DryRun bool

	enough func() bool // stop before the next; nil: never
}

// Prune removes images that podtask pulled, that were not there before and
// that nothing uses, least recently used first. It returns those it removed, or
// would have. An image that is being pulled, or that
// came into use meanwhile, stays.
func (p *Pruner) Prune(ctx context.Context, o PruneOptions) ([]LocalImage, error) {
	podman, err := p.Podman(ctx)
	if err != nil {
		return nil, err
	}
	list, err := p.List(ctx)
	if err != nil {
		return nil, err
	}
	var removed []LocalImage
	var errs []error
	for _, l := range list {
		if o.Limit > 0 && len(removed) == o.Limit || o.enough != nil && o.enough() {
			break
		}
		if !removable(l, o, time.Now()) {
			continue
		}
		if !o.DryRun {
			gone, err := p.removeImage(ctx, podman, l, o)
			if err != nil {
				errs = append(errs, err)
			}
			if !gone {
				continue
			}
		}
		removed = append(removed, l)
	}
	return removed, errors.Join(errs...)
}

func removable(l LocalImage, o PruneOptions, now time.Time) bool {
	return l.Keep == "" && (o.Demanded || !l.Manual) && now.Sub(l.UsedAt) >= max(o.MinAge, imageLease)
}

// removeImage removes one image while it holds the locks of all that it was pulled
// as, so that no task finds it meanwhile, and looks again at what it knows of it.
func (p *Pruner) removeImage(ctx context.Context, podman Podman, l LocalImage, o PruneOptions) (gone bool, err error) {
	slices.Sort(l.targets) // the order of the locks
	var held []*state.Lock
	for _, target := range slices.Compact(l.targets) {
		lock, err := p.Records.locks.Lock(imageKey(target))
		if errors.Is(err, state.ErrLocked) {
			return false, nil // in use this very moment
		}
		if err != nil {
			return false, err
		}
		defer lock.Unlock()
		held = append(held, lock)
	}
	list, err := p.List(ctx)
	if err != nil {
		return false, err
	}
	i := slices.IndexFunc(list, func(again LocalImage) bool { return again.ID == l.ID })
	if i < 0 || !removable(list[i], o, time.Now()) || len(list[i].targets) != len(l.targets) {
		return false, nil
	}
	err = podman.RemoveUnusedImage(ctx, list[i].image)
	if errors.Is(err, libpod.Conflict) {
		return false, nil // a container was made of it
	}
	if err != nil {
		return false, err
	}
	var errs []error
	for _, target := range l.targets {
		errs = append(errs, p.Records.store.Delete(imageKey(target)))
	}
	for _, lock := range held {
		errs = append(errs, lock.Remove())
	}
	return true, errors.Join(errs...)
}

// Rounds does the rounds of automatic clean-up that come due while a task runs:
// the first at once, and another each time the interval has passed. A round that has
// begun when the task ends is done to its end.
func (p *Pruner) Rounds(ctx, running context.Context) {
	if !p.Policy.Cleanup {
		return
	}
	for {
		p.PruneIfDue(ctx)
		select {
		case <-running.Done():
			return
		case <-time.After(max(p.Policy.Interval, time.Second)):
		}
	}
}

// PruneIfDue does a round of automatic clean-up if the last one, of whatever
// process, is long enough ago.
func (p *Pruner) PruneIfDue(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, pruneLimit)
	defer cancel()
	removed, err := p.round(ctx, time.Now().UTC())
	for _, l := range removed {
		p.Log.Info("an image that nothing has used for long was removed", "image", l.Target, "bytes", l.Size)
	}
	if err != nil && ctx.Err() == nil {
		p.Log.Warn("not all unused images are removed", "error", err)
	}
}

func (p *Pruner) round(ctx context.Context, now time.Time) ([]LocalImage, error) {
	key := lockKey("image-round", "")
	lock, err := p.Records.locks.Lock(key)
	if errors.Is(err, state.ErrLocked) {
		return nil, nil // another process is removing it
	}
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	var last time.Time
	if data, err := p.Records.store.Get(key); err == nil {
		_ = last.UnmarshalText(data) // what cannot be read was long ago
	}
	if since := now.Sub(last); since >= 0 && since < p.Policy.Interval {
		return nil, nil
	}
	data, err := now.MarshalText()
	if err != nil {
		return nil, err
	}
	if err := p.Records.store.Put(key, data); err != nil {
		return nil, err
	}
	if _, err := p.RefreshGraphRoot(ctx); err != nil {
		return nil, err
	}
	return p.Prune(ctx, PruneOptions{MinAge: p.Policy.MinAge, Limit: p.Policy.PerRound})
}

// GraphRoot is where Podman keeps images. Podman takes as long to tell as for a small
// pull (on Debian it asks dpkg for the versions of its helpers), so it is remembered,
// for each address of Podman; every round of clean-up asks again.
func (p *Pruner) GraphRoot(ctx context.Context) (string, error) {
	if root, err := p.Records.store.Get(p.graphRootKey()); err == nil {
		return string(root), nil
	}
	return p.RefreshGraphRoot(ctx)
}

func (p *Pruner) RefreshGraphRoot(ctx context.Context) (string, error) {
	host, err := p.Facts.Get(ctx)
	if err != nil {
		return "", err
	}
	key := p.graphRootKey()
	lock, err := p.Records.locks.Lock(key)
	if errors.Is(err, state.ErrLocked) {
		return host.GraphRoot, nil // another process is recording it
	}
	if err != nil {
		return "", err
	}
	defer lock.Unlock()
	return host.GraphRoot, p.Records.store.Put(key, []byte(host.GraphRoot))
}

func (p *Pruner) graphRootKey() string { return lockKey("graph-root", p.Getenv("CONTAINER_HOST")) }

// MakeRoom cleans up when there is less than MinFree where images are, or when a
// disk was found to be full, until there is half as much again. It reports whether
// anything was removed. What goes wrong is logged: the pull itself will tell.
func (p *Pruner) MakeRoom(ctx context.Context, full bool) bool {
	if !p.Policy.Cleanup {
		return false
	}
	root, err := p.GraphRoot(ctx)
	if err != nil || root == "" {
		return false
	}
	below := func(bytes int64) bool {
		free, err := p.Free(root)
		return err == nil && free < bytes
	}
	var o PruneOptions
	switch {
	case full: // though it need not be this disk
		o.Limit = p.Policy.PerRound
	case below(p.Policy.MinFree):
		o.enough = func() bool { return !below(p.Policy.MinFree * 3 / 2) }
	default:
		return false
	}
	removed, err := p.Prune(ctx, o)
	for _, l := range removed {
		p.Log.Warn("an unused image was removed to make room", "image", l.Target, "bytes", l.Size)
	}
	if err != nil {
		p.Log.Warn("making room for an image", "error", err)
	}
	return len(removed) > 0
}

// pruneLimit bounds a round of automatic pruning.
const pruneLimit = 30 * time.Second

// FreeSpace is what the user may still write where dir is, in bytes.
func FreeSpace(dir string) (int64, error) {
	bytes, _, err := conn.FreeSpace(dir)
	return int64(bytes), err
}
