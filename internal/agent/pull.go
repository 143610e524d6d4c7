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
func (p *Puller) fetch(ctx context.Context, podman Podman, j job) (fetched, error) {
	return p.flights.Do(ctx, j, func(ctx context.Context) (got fetched, err error) {
		tell := &progressReporter{hub: p.hub, further: p.progress, image: j.ref.String()}
		defer func() { tell.end(err) }()
		lock, err := p.waitLock(ctx, imageKey(j.target), tell)
		if err != nil {
			return fetched{}, err
		}
		defer lock.Unlock()
		if j.pinned || j.local || j.never {
			image, err := podman.Image(ctx, j.target)
			wrong := suits(image, j.ref, j.platform)
			switch {
			case err == nil && wrong == nil:
				return fetched{id: image.ID}, p.found(j, image)
			case err == nil && j.never:
				return fetched{}, wrong
			case err != nil && !errors.Is(err, libpod.NotFound):
				return fetched{}, err
			}
		}
		if j.never {
			return fetched{}, notLocal(j.ref.String())
		}
		id, err := p.pullNow(ctx, podman, j, tell)
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
func (p *Puller) found(j job, image libpod.Image) error {
	now, name := time.Now().UTC(), j.ref.String()
	named := j.ref.Pinned() || slices.Contains(image.Names, name)
	if j.ref.Pinned() || named && (j.local || j.never) {
		return p.records.use(j.target, now) // nobody was asked, and it gets no name
	}
	return p.records.confirm(j.target, image.ID, name, named, now)
}

// waitLock takes a lock that processes share, and says so if it has to wait.
func (p *Puller) waitLock(ctx context.Context, key string, tell *progressReporter) (*state.Lock, error) {
	lock, err := p.records.locks.Lock(key)
	if errors.Is(err, state.ErrLocked) {
		tell.step(PullWaiting, libpod.Progress{})
		lock, err = p.records.locks.LockWait(ctx, key)
	}
	return lock, err
}

// pullSlot takes one of the places for pulls that run at once on this host.
func (p *Puller) pullSlot(ctx context.Context, tell *progressReporter) (*state.Lock, error) {
	n := p.policy.PullsAtOnce
	slot := func(i int) string { return lockKey("pull-slot", fmt.Sprint(i)) }
	for i := range n {
		lock, err := p.records.locks.Lock(slot(i))
		if !errors.Is(err, state.ErrLocked) {
			return lock, err
		}
	}
	// Any place will do; who waits for the same one is spread by the image's name.
	return p.waitLock(ctx, slot(int(imageKey(tell.image)[0])%n), tell)
}

// pullNow pulls. The caller holds the target's lock.
func (p *Puller) pullNow(ctx context.Context, podman Podman, j job, tell *progressReporter) (id string, err error) {
	slot, err := p.pullSlot(ctx, tell)
	if err != nil {
		return "", err
	}
	defer slot.Unlock()
	given, err := p.resolver.login(ctx, j.credentials, j.ref)
	if err != nil {
		return "", err
	}
	target, err := images.ParseRef(j.target) // a digest may have mirrors that a tag has not
	if err != nil {
		return "", err
	}
	login, authFile, err := p.registry.Access(target, given)
	if err != nil {
		return "", err
	}
	p.pruner.MakeRoom(ctx, podman, false)
	var book PulledImage
	var before []string
	both, first := errgroup.WithContext(ctx)
	both.Go(func() error { return p.checkPlatform(first, j, given) })
	both.Go(func() (err error) { book, before, err = p.beginPull(first, podman, j); return err })
	if err := both.Wait(); err != nil {
		return "", err
	}
	options := libpod.PullOptions{
		Login:    libpod.Login{Username: login.Username, Password: login.Password, IdentityToken: login.IdentityToken},
		AuthFile: authFile, FirstByte: p.policy.FirstByte, Idle: p.policy.Idle,
		Progress: func(p libpod.Progress) { tell.step(Pulling, p) },
	}
	if j.platform != images.Here() {
		options.OS, options.Arch = j.platform.OS, j.platform.Architecture
	}
	tell.step(Pulling, libpod.Progress{})
	id, err = podman.Pull(ctx, j.target, options)
	if errors.Is(err, libpod.NoSpace) && p.pruner.MakeRoom(ctx, podman, true) {
		id, err = podman.Pull(ctx, j.target, options)
	}
	if err != nil {
		return "", err
	}
	p.fail.effect(midEffect, lifecycle.PullImage{})
	return id, p.endPull(book, id, slices.Contains(before, id))
}

// progressReporter reports the progress of one image. What was begun is ended, whether or
// not it succeeded.
type progressReporter struct {
	hub     *ProgressHub
	further func(PullProgress) // nil: none
	image   string
	begun   bool
}

func (t *progressReporter) step(phase PullPhase, step libpod.Progress) {
	t.begun = true
	p := PullProgress{Image: t.image, Phase: phase, Step: step}
	t.hub.post(p)
	if t.further != nil {
		t.further(p)
	}
}

func (t *progressReporter) end(err error) {
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
func (p *Puller) checkPlatform(ctx context.Context, j job, login images.Login) error {
	if !j.pinned {
		return nil
	}
	// It is a courtesy, for which a registry that hangs is not waited long.
	limited, cancel := context.WithTimeout(ctx, p.policy.Idle)
	defer cancel()
	d, err := p.registry.Describe(limited, j.target, login, j.platform)
	if err != nil {
		p.log.Debug("the platforms of an image are not known before its pull", "image", j.target, "error", err)
		return ctx.Err()
	}
	return d.Check(j.platform)
}

// beginPull writes down that a pull begins, and returns the record and the images
// that are there before it.
func (p *Puller) beginPull(ctx context.Context, podman Podman, j job) (m PulledImage, before []string, err error) {
	now := time.Now().UTC()
	m, found, err := p.records.find(j.target)
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
	return m, before, p.records.write(m)
}

// endPull writes down that a pull has ended well. An image is podtask's to remove
// if it was not there before; or if it was, because podtask had pulled it.
func (p *Puller) endPull(m PulledImage, id string, before bool) error {
	m.Ours = !before || p.ours(id)
	m.ID, m.PulledAt = id, time.Now().UTC()
	m.UsedAt = m.PulledAt
	return p.records.write(m)
}

// ours reports whether podtask pulled the image that has this id.
func (p *Puller) ours(id string) bool {
	return slices.ContainsFunc(p.records.all(), func(m PulledImage) bool { return m.ID == id && m.Ours })
}
