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
	"github.com/podtask/podtask/internal/engine/facts/conn"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/sleep"
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

// imageLease is the minimum time for which an image is kept after its last use. A task that
// found the image records its use within that time.
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
	// Keep explains why pruning does not remove the image now; empty if it may.
	Keep string `json:"keep,omitempty"`
	// Manual: only pruning by a user removes the image, because it was pulled with
	// prefer-cached.
	Manual bool `json:"manual,omitempty"`

	targets []string // the targets of all records of this image
	image   libpod.Image
}

// List returns the images that podtask pulled and that are still in local storage, least
// recently used first.
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
		if len(errs) > 0 { // that task may use any image
			l.Keep = cmp.Or(l.Keep, "the record of a task cannot be read")
		}
		if time.Since(l.UsedAt) < imageLease {
			l.Keep = cmp.Or(l.Keep, "it was used in the last ten minutes")
		}
	}
	return list, nil
}

// joinImages combines podtask's records, the images in local storage and the tasks that use
// them. It is pure.
func joinImages(records []PulledImage, local []libpod.Image, tasks []lifecycle.State, exclude []string) []LocalImage {
	var out []LocalImage
	for _, m := range local {
		l := LocalImage{ID: m.ID, Names: slices.Sorted(slices.Values(m.Names)), Size: m.Size, image: m}
		ours, known := false, map[string]bool{}
		for _, r := range records {
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

// whyInUse returns why an image must be kept; empty if it may be removed.
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

// needs reports whether a task uses an image, or may when it continues.
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

// PruneOptions limit which images Prune removes.
type PruneOptions struct {
	// MinAge is the time for which an image must not have been used, at least ten minutes.
	MinAge time.Duration
	// Limit is the largest number of images to remove; 0 means no limit.
	Limit int
	// Demanded means that a user asked for the pruning, so Manual images may be removed too.
	Demanded bool
	// DryRun only returns what would be removed.
	DryRun bool

	enough func(removed int) bool // reports whether to stop before the next image; nil: never
}

// Prune removes unused images that podtask pulled and that were not in local storage before,
// least recently used first. It returns the images that it removed, or with DryRun would
// remove. It keeps an image that is being pulled or that came into use meanwhile.
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
		if o.Limit > 0 && len(removed) == o.Limit || o.enough != nil && o.enough(len(removed)) {
			break
		}
		if !removable(l, o, time.Now()) {
			continue
		}
		if !o.DryRun {
			done, err := p.removeImage(ctx, podman, l, o)
			if err != nil {
				errs = append(errs, err)
			}
			if !done {
				continue
			}
		}
		removed = append(removed, l)
	}
	return removed, errors.Join(errs...)
}

// removable reports whether Prune may remove an image.
func removable(l LocalImage, o PruneOptions, now time.Time) bool {
	return l.Keep == "" && (o.Demanded || !l.Manual) && now.Sub(l.UsedAt) >= max(o.MinAge, imageLease)
}

// removeImage removes one image while it holds the locks of all its records, so that no task
// finds the image meanwhile. With the locks held, it checks again that the image is unused.
func (p *Pruner) removeImage(ctx context.Context, podman Podman, l LocalImage, o PruneOptions) (removed bool, err error) {
	slices.Sort(l.targets) // the order of the locks
	var held []*state.Lock
	for _, target := range slices.Compact(l.targets) {
		lock, err := p.Records.locks.Lock(imageKey(target))
		if errors.Is(err, state.ErrLocked) {
			return false, nil // it is being pulled
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
		return false, nil // a container of it was created meanwhile
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

// Rounds prunes automatically while a task runs: at once if it is due, and then after each
// interval. If running ends during a round, the image that is being removed is the last, so that whoever stops a task does not wait
// for all; a task of a second still removes one.
func (p *Pruner) Rounds(ctx, running context.Context) {
	if !p.Policy.Cleanup {
		return
	}
	p.PruneIfDue(ctx, running)
	for sleep.For(running, max(p.Policy.Interval, time.Second)) {
		p.PruneIfDue(ctx, running)
	}
}

// PruneIfDue prunes automatically if the interval since the last round of any process has
// passed. It removes no second image once running has ended.
func (p *Pruner) PruneIfDue(ctx, running context.Context) {
	ctx, cancel := context.WithTimeout(ctx, pruneLimit)
	defer cancel()
	removed, err := p.round(ctx, running, time.Now().UTC())
	for _, l := range removed {
		p.Log.Info("removed an image that was not used for a long time", "image", l.Target, "bytes", l.Size)
	}
	if err != nil && ctx.Err() == nil {
		p.Log.Warn("cannot remove all unused images", "error", err)
	}
}

// round prunes if it is due at this time.
func (p *Pruner) round(ctx, running context.Context, now time.Time) ([]LocalImage, error) {
	key := lockKey("image-round", "")
	lock, err := p.Records.locks.Lock(key)
	if errors.Is(err, state.ErrLocked) {
		return nil, nil // another process prunes
	}
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	var last time.Time
	if data, err := p.Records.store.Get(key); err == nil {
		_ = last.UnmarshalText(data) // an unreadable time counts as long ago
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
	return p.Prune(ctx, PruneOptions{MinAge: p.Policy.MinAge, Limit: p.Policy.PerRound, enough: func(removed int) bool {
		return removed > 0 && running.Err() != nil
	}})
}

// GraphRoot returns the directory where Podman stores images. Asking Podman takes as long as
// a small pull (on Debian it asks dpkg for the versions of its helpers), so the answer is
// saved for each address of Podman. Each round of pruning refreshes it.
func (p *Pruner) GraphRoot(ctx context.Context) (string, error) {
	if root, err := p.Records.store.Get(p.graphRootKey()); err == nil {
		return string(root), nil
	}
	return p.RefreshGraphRoot(ctx)
}

// RefreshGraphRoot asks Podman for the directory of its images and saves the answer.
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

// MakeRoom removes unused images if less than MinFree is left on the disk of Podman's images,
// until one and a half times MinFree is free. With full, which means that a pull has filled
// a disk, it removes as many images as one round may. It reports whether it removed any.
// Errors are only logged, because the pull reports a full disk.
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
	case full: // perhaps another disk than that of the images
		o.Limit = p.Policy.PerRound
	case below(p.Policy.MinFree):
		o.enough = func(int) bool { return !below(p.Policy.MinFree * 3 / 2) }
	default:
		return false
	}
	removed, err := p.Prune(ctx, o)
	for _, l := range removed {
		p.Log.Warn("an unused image was removed to make room", "image", l.Target, "bytes", l.Size)
	}
	if err != nil {
		p.Log.Warn("cannot make room for an image", "error", err)
	}
	return len(removed) > 0
}

// pruneLimit limits the time that a round of automatic pruning may take.
const pruneLimit = 30 * time.Second

// FreeSpace returns how many bytes the user may still write to the file system of dir.
func FreeSpace(dir string) (int64, error) {
	bytes, _, err := conn.FreeSpace(dir)
	return int64(bytes), err
}
