package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/podtask/podtask/pkg/images"
	"github.com/podtask/podtask/pkg/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/state"
)

// PullProgress is a step of a pull, for people who watch.
type PullProgress struct {
	// Image is the name in the task, normalised.
	Image string
	Phase PullPhase
	// Step is set in phase Pulling.
	Step libpod.Progress
}

// PullPhase is where a pull stands.
type PullPhase string

// The phases of a pull; the last two end it.
const (
	PullWaiting PullPhase = "waiting" // for another pull to end
	Pulling     PullPhase = "pulling"
	PullDone    PullPhase = "done"
	PullFailed  PullPhase = "failed"
)

// job is one image to be brought into local storage.
type job struct {
	ref      images.Ref
	target   string // what is pulled: name@digest, or the reference
	pinned   bool   // target has a digest
	platform images.Platform
	// credentials is where a login comes from; empty: what is configured.
	credentials string
	local       bool // a local copy will do without asking
	never       bool // only a local copy will do
	keep        bool
}

// fetched is what a job came to.
type fetched struct {
	id     string
	pulled bool // and not there already
}

// fetch does a job. Callers of one process that want the same share one pull,
// which ends when the last of them has given up; other processes wait for it.
func (h *Host) fetch(ctx context.Context, podman Podman, j job) (fetched, error) {
	return h.pulls.Do(ctx, j, func(ctx context.Context) (got fetched, err error) {
		tell := &teller{host: h, image: j.ref.String()}
		defer func() { tell.end(err) }()
		lock, err := h.waitLock(ctx, imageKey(j.target), tell)
		if err != nil {
			return fetched{}, err
		}
		defer lock.Unlock()
		if j.pinned || j.local || j.never {
			image, err := podman.Image(ctx, j.target)
			wrong := suits(image, j.ref, j.platform)
			switch {
			case err == nil && wrong == nil:
				return fetched{id: image.ID}, h.found(j, image)
			case err == nil && j.never:
				return fetched{}, wrong
			case err != nil && !errors.Is(err, libpod.NotFound):
				return fetched{}, err
			}
		}
		if j.never {
			return fetched{}, notLocal(j.ref.String())
		}
		id, err := h.pullNow(ctx, podman, j, tell)
		return fetched{id, true}, err
	})
}

// suits refuses an image in local storage that is made for another platform than is
// wanted: under the digest of an index there may be one for each.
func suits(image libpod.Image, ref images.Ref, want images.Platform) error {
	made := images.Platform{OS: image.OS, Architecture: image.Arch}
	if made.OS == "" || made.Architecture == "" || made.OS == want.OS && made.Architecture == want.Architecture {
		return nil
	}
	return images.Description{Resolution: images.Resolution{Reference: ref.String()}, Variants: []images.Variant{{Platform: made}}}.Check(want)
}

// found notes that what is wanted is here. The caller holds the target's lock.
func (h *Host) found(j job, image libpod.Image) error {
	now, name := time.Now().UTC(), j.ref.String()
	named := j.ref.Pinned() || slices.Contains(image.Names, name)
	if j.ref.Pinned() || named && (j.local || j.never) {
		return h.book.use(j.target, now) // nobody was asked, and it gets no name
	}
	return h.book.confirm(j.target, image.ID, name, named, now)
}

// waitLock takes a lock that processes share, and says so if it has to wait.
func (h *Host) waitLock(ctx context.Context, key string, tell *teller) (*state.Lock, error) {
	lock, err := h.book.locks.Lock(key)
	if errors.Is(err, state.ErrLocked) {
		tell.step(PullWaiting, libpod.Progress{})
		lock, err = h.book.locks.LockWait(ctx, key)
	}
	return lock, err
}

// pullSlot takes one of the places for pulls that run at once on this host.
func (h *Host) pullSlot(ctx context.Context, tell *teller) (*state.Lock, error) {
	n := h.policy.PullsAtOnce
	slot := func(i int) string { return lockKey("pull-slot", fmt.Sprint(i)) }
	for i := range n {
		lock, err := h.book.locks.Lock(slot(i))
		if !errors.Is(err, state.ErrLocked) {
			return lock, err
		}
	}
	// Any place will do; who waits for the same one is spread by the image's name.
	return h.waitLock(ctx, slot(int(imageKey(tell.image)[0])%n), tell)
}

// pullNow pulls. The caller holds the target's lock.
func (h *Host) pullNow(ctx context.Context, podman Podman, j job, tell *teller) (id string, err error) {
	slot, err := h.pullSlot(ctx, tell)
	if err != nil {
		return "", err
	}
	defer slot.Unlock()
	given, err := h.login(ctx, j.credentials, j.ref)
	if err != nil {
		return "", err
	}
	target, err := images.ParseRef(j.target) // a digest may have mirrors that a tag has not
	if err != nil {
		return "", err
	}
	login, authFile, err := h.cfg.Registry.Access(target, given)
	if err != nil {
		return "", err
	}
	h.makeRoom(ctx, podman, false)
	var book PulledImage
	var before []string
	both, first := errgroup.WithContext(ctx)
	both.Go(func() error { return h.checkPlatform(first, j, given) })
	both.Go(func() (err error) { book, before, err = h.beginPull(first, podman, j); return err })
	if err := both.Wait(); err != nil {
		return "", err
	}
	options := libpod.PullOptions{
		Login:    libpod.Login{Username: login.Username, Password: login.Password, IdentityToken: login.IdentityToken},
		AuthFile: authFile, FirstByte: h.policy.FirstByte, Idle: h.policy.Idle,
		Progress: func(p libpod.Progress) { tell.step(Pulling, p) },
	}
	if j.platform != images.Here() {
		options.OS, options.Arch = j.platform.OS, j.platform.Architecture
	}
	tell.step(Pulling, libpod.Progress{})
	id, err = podman.Pull(ctx, j.target, options)
	if errors.Is(err, libpod.NoSpace) && h.makeRoom(ctx, podman, true) {
		id, err = podman.Pull(ctx, j.target, options)
	}
	if err != nil {
		return "", err
	}
	h.failpointOf(midEffect, lifecycle.PullImage{})
	return id, h.endPull(book, id, slices.Contains(before, id))
}

// teller tells who watches how one image gets on. What was begun is ended, whichever way.
type teller struct {
	host  *Host
	image string
	begun bool
}

func (t *teller) step(phase PullPhase, step libpod.Progress) {
	t.begun = true
	p := PullProgress{Image: t.image, Phase: phase, Step: step}
	t.host.board.post(p)
	if t.host.cfg.Progress != nil {
		t.host.cfg.Progress(p)
	}
}

func (t *teller) end(err error) {
	switch {
	case !t.begun: // it was here, and nobody had to wait
	case err != nil:
		t.step(PullFailed, libpod.Progress{})
	default:
		t.step(PullDone, libpod.Progress{})
	}
}

// checkPlatform refuses an image that is known to be for another platform before
// anything of it is pulled. What the registry does not say now it says to Podman.
func (h *Host) checkPlatform(ctx context.Context, j job, login images.Login) error {
	if !j.pinned {
		return nil
	}
	// It is a courtesy, for which a registry that hangs is not waited long.
	limited, cancel := context.WithTimeout(ctx, h.policy.Idle)
	defer cancel()
	d, err := h.cfg.Registry.Describe(limited, j.target, login, j.platform)
	if err != nil {
		h.log.Debug("the platforms of an image are not known before its pull", "image", j.target, "error", err)
		return ctx.Err()
	}
	return d.Check(j.platform)
}

// beginPull writes down that a pull begins, and returns the record and the images
// that are there before it.
func (h *Host) beginPull(ctx context.Context, podman Podman, j job) (m PulledImage, before []string, err error) {
	now := time.Now().UTC()
	m, found, err := h.book.find(j.target)
	if err != nil {
		return m, nil, err
	}
	if !found {
		m = PulledImage{Target: j.target, BegunAt: now}
	}
	m.Reference, m.Given, m.Asked = j.ref.String(), nil, nil // other names went with the image
	m.UsedAt = now
	m.Kept = j.keep
	local, err := podman.Images(ctx)
	if err != nil {
		return m, nil, err
	}
	for _, i := range local {
		before = append(before, i.ID)
	}
	return m, before, h.book.write(m)
}

// endPull writes down that a pull has ended well. An image is podtask's to remove
// if it was not there before; or if it was, because podtask had pulled it.
func (h *Host) endPull(m PulledImage, id string, before bool) error {
	m.Ours = !before || h.ours(id)
	m.ID, m.PulledAt = id, time.Now().UTC()
	m.UsedAt = m.PulledAt
	return h.book.write(m)
}

// ours reports whether podtask pulled the image that has this id.
func (h *Host) ours(id string) bool {
	return slices.ContainsFunc(h.book.all(), func(m PulledImage) bool { return m.ID == id && m.Ours })
}
