package imagestore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"time"

	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/engine/failpoint"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/images"
	"github.com/podtask/podtask/pkg/images/flight"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/transient"
	"golang.org/x/sync/errgroup"
)

// Puller brings images into local storage.
type Puller struct {
	Log      *slog.Logger
	Root     fs.FS // the host's files
	Policy   *config.Images
	Registry Registry
	Progress func(Progress)
	Fail     *failpoint.Point
	Podman   func(context.Context) (Podman, error)
	Resolver *Resolver
	Pruner   *Pruner
	Records  Records
	Hub      *ProgressHub
	flights  flight.Group[job, fetched]
}

// Progress is a step of a pull, to show to users.
type Progress struct {
	// Image is the name in the task, normalized.
	Image string
	Phase Phase
	// Step is set in phase Pulling.
	Step libpod.Progress
}

// Phase is the phase of a pull.
type Phase string

// The phases of a pull; the last two end it.
const (
	Waiting Phase = "waiting" // for another pull to end
	Pulling Phase = "pulling"
	Done    Phase = "done"
	Failed  Phase = "failed"
)

// job is one image to be brought into local storage.
type job struct {
	ref      images.Ref
	target   string // what is pulled: name@digest, or the reference
	pinned   bool   // target has a digest
	platform images.Platform
	// credentials is where a login comes from; zero: what is configured.
	credentials loginSource
	local       bool // a local copy will do without asking
	never       bool // only a local copy will do
	keep        bool
}

// fetched is what a job came to.
type fetched struct {
	id     string
	pulled bool     // and not there already
	names  []string // that the image had before
}

// fetch does a job. Callers of one process that want the same share one pull,
// which ends when the last of them has given up; other processes wait for it.
func (p *Puller) fetch(ctx context.Context, podman Podman, j job) (fetched, error) {
	return p.flights.Do(ctx, j, func(ctx context.Context) (got fetched, err error) {
		tell := &progressReporter{hub: p.Hub, further: p.Progress, image: j.ref.String()}
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
				return fetched{id: image.ID, names: image.Names}, p.found(j, image)
			case err == nil && j.never:
				return fetched{}, wrong
			case err != nil && !errors.Is(err, libpod.NotFound):
				return fetched{}, err
			}
		}
		if j.never && j.ref.Local() {
			return fetched{}, notBuilt(j.ref)
		}
		if j.never {
			return fetched{}, notLocal(j.ref.String())
		}
		id, err := p.pullNow(ctx, podman, j, tell)
		return fetched{id: id, pulled: true}, err
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
		return p.Records.use(j.target, now) // no registry was asked, and it gets no name
	}
	return p.Records.confirm(j.target, image.ID, name, named, now)
}

// waitLock takes a lock that processes share, and says so if it has to wait.
func (p *Puller) waitLock(ctx context.Context, key string, tell *progressReporter) (*state.Lock, error) {
	lock, err := p.Records.locks.Lock(key)
	if errors.Is(err, state.ErrLocked) {
		tell.step(Waiting, libpod.Progress{})
		lock, err = p.Records.locks.LockWait(ctx, key)
	}
	return lock, err
}

// pullSlot takes one of the places for pulls that run at once on this host.
func (p *Puller) pullSlot(ctx context.Context, tell *progressReporter) (*state.Lock, error) {
	n := p.Policy.PullsAtOnce
	slot := func(i int) string { return lockKey("pull-slot", fmt.Sprint(i)) }
	for i := range n {
		lock, err := p.Records.locks.Lock(slot(i))
		if !errors.Is(err, state.ErrLocked) {
			return lock, err
		}
	}
	// Any place will do; who waits for the same one is spread by the image's name.
	return p.waitLock(ctx, slot(int(imageKey(tell.image)[0])%n), tell)
}

// pullNow pulls. The caller holds the target's lock.
func (p *Puller) pullNow(ctx context.Context, podman Podman, j job, tell *progressReporter) (id string, err error) {
	if err := p.checkRuns(j); err != nil {
		return "", err
	}
	slot, err := p.pullSlot(ctx, tell)
	if err != nil {
		return "", err
	}
	defer slot.Unlock()
	given, err := p.Resolver.login(ctx, j.credentials, j.ref)
	if err != nil {
		return "", err
	}
	target, err := images.ParseRef(j.target) // a digest may have mirrors that a tag has not
	if err != nil {
		return "", err
	}
	login, authFile, err := p.Registry.Access(target, given)
	if err != nil {
		return "", err
	}
	p.Pruner.MakeRoom(ctx, false)
	var book PulledImage
	var before func(id string) bool
	both, first := errgroup.WithContext(ctx)
	both.Go(func() error { return p.checkPlatform(first, j, given) })
	both.Go(func() (err error) { book, before, err = p.beginPull(first, podman, j); return err })
	if err := both.Wait(); err != nil {
		return "", err
	}
	options := libpod.PullOptions{
		Login:    libpod.Login{Username: login.Username, Password: login.Password, IdentityToken: login.IdentityToken},
		AuthFile: authFile, FirstByte: p.Policy.FirstByte, Idle: p.Policy.Idle,
		Progress: func(p libpod.Progress) { tell.step(Pulling, p) },
	}
	if j.platform != images.Here() {
		options.OS, options.Arch = j.platform.OS, j.platform.Architecture
	}
	tell.step(Pulling, libpod.Progress{})
	id, err = podman.Pull(ctx, j.target, options)
	if errors.Is(err, libpod.NoSpace) && p.Pruner.MakeRoom(ctx, true) {
		id, err = podman.Pull(ctx, j.target, options)
	}
	if err != nil {
		return "", err
	}
	p.Fail.AtEffect(failpoint.MidEffect, lifecycle.PullImage{})
	if err := p.endPull(book, id, before(id)); err != nil {
		return "", err
	}
	return id, checkPulled(ctx, podman, j, id)
}

// checkPulled refuses an image that turned out to be for another platform: a registry that
// has only one may give it whatever was asked for.
func checkPulled(ctx context.Context, podman Podman, j job, id string) error {
	image, err := podman.Image(ctx, id)
	if err != nil {
		return err
	}
	return suits(image, j.ref, j.platform)
}

// checkRuns refuses an image for a platform whose programs this host cannot run.
func (p *Puller) checkRuns(j job) error {
	emulator, err := images.RunsOn(p.Root, images.Here(), j.platform)
	if err != nil {
		return fmt.Errorf("pull %s: %w", j.ref, err)
	}
	if emulator != "" {
		p.Log.Info("the image is for another architecture and runs with emulation, which is slow", "image", j.ref.String(), "platform", j.platform.String(), "emulator", emulator)
	}
	return nil
}

// checkPlatform refuses an image that is known to be for another platform before
// anything of it is pulled. What the registry does not say now it says to Podman.
func (p *Puller) checkPlatform(ctx context.Context, j job, login images.Login) error {
	if !j.pinned {
		return nil
	}
	// It is a courtesy, for which a registry that hangs is not waited long.
	limited, cancel := context.WithTimeout(ctx, p.Policy.Idle)
	defer cancel()
	d, err := p.Registry.Describe(limited, j.target, login, j.platform)
	if err != nil {
		p.Log.Debug("the platforms of an image are not known before its pull", "image", j.target, "error", err)
		return ctx.Err()
	}
	return d.Check(j.platform)
}

// beginPull writes down that a pull begins, and returns the record and a function that reports
// whether an image was there before it. Where Podman cannot list its images, because one of them is
// broken, all count as such, and podtask will not remove the one that it pulls.
func (p *Puller) beginPull(ctx context.Context, podman Podman, j job) (m PulledImage, before func(id string) bool, err error) {
	now := time.Now().UTC()
	m, found, err := p.Records.Find(j.target)
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
	switch {
	case errors.Is(err, libpod.Other):
		p.Log.Warn("Podman cannot list its images, so podtask will not remove the one that it pulls", "image", j.target, "error", err)
		before = func(string) bool { return true }
	case err != nil:
		return m, nil, err
	default:
		before = func(id string) bool {
			return slices.ContainsFunc(local, func(i libpod.Image) bool { return i.ID == id })
		}
	}
	return m, before, p.Records.Write(m)
}

// endPull writes down that a pull has ended well. An image is podtask's to remove
// if it was not there before; or if it was, because podtask had pulled it.
func (p *Puller) endPull(m PulledImage, id string, before bool) error {
	m.Ours = !before || p.ours(id)
	m.ID, m.PulledAt = id, time.Now().UTC()
	m.UsedAt = m.PulledAt
	return p.Records.Write(m)
}

// ours reports whether podtask pulled the image that has this id.
func (p *Puller) ours(id string) bool {
	return slices.ContainsFunc(p.Records.all(), func(m PulledImage) bool { return m.ID == id && m.Ours })
}

// Pull brings the image into local storage by digest and gives it the name the
// user wrote. An image that is there by that digest is not pulled again.
func (p *Puller) Pull(ctx context.Context, s lifecycle.State, e lifecycle.PullImage) (lifecycle.Result, error) {
	podman, err := p.Podman(ctx)
	if err != nil {
		return lifecycle.Result{}, err
	}
	r, err := p.pull(ctx, podman, s, e)
	if def := s.Task.Containers[e.Index]; err == nil && def.Extensions.ImageHealthCheck && !def.HasHealth() {
		r.HealthCheck, err = imageCheck(ctx, podman, r.ImageID)
	}
	return r, err
}

// Mounted returns the ID of an image whose file system a container of a task mounts, and
// pulls it if it is not in local storage.
func (p *Puller) Mounted(ctx context.Context, s lifecycle.State, m taskdef.ImageMount) (string, error) {
	podman, err := p.Podman(ctx)
	if err != nil {
		return "", err
	}
	ref, err := images.ParseRef(m.Image)
	if err != nil {
		return "", err
	}
	behavior := s.Options.Pull.Or(m.Pull)
	got, err := p.fetch(ctx, podman, job{
		ref: ref, target: ref.String(), platform: platform(s.Task),
		local: behavior != lifecycle.PullAlways, never: behavior == lifecycle.PullNever,
	})
	return got.id, err
}

func (p *Puller) pull(ctx context.Context, podman Podman, s lifecycle.State, e lifecycle.PullImage) (lifecycle.Result, error) {
	ref, err := images.ParseRef(e.Ref)
	if err != nil {
		return lifecycle.Result{}, err
	}
	behavior := s.Options.Pull.Or(s.Task.Containers[e.Index].Extensions.Kube.Pull)
	if image, ok := p.Resolver.built(ctx, ref, behavior); ok {
		return lifecycle.Result{ImageID: image.ID, Source: lifecycle.SourceCache, Digest: e.Digest}, suits(image, ref, platform(s.Task))
	}
	if ref.Local() && behavior != lifecycle.PullAlways {
		behavior = lifecycle.PullNever
	}
	if behavior == lifecycle.PullDefault && e.Digest == "" && !s.Task.Containers[e.Index].Unpinned {
		// The registry did not give the digest. A local copy will do, and without one Podman need not try
		// for long what has just failed.
		if image, err := localCopy(ctx, podman, ref); err == nil && suits(image, ref, platform(s.Task)) == nil {
			return lifecycle.Result{ImageID: image.ID, Source: lifecycle.SourceCache, Digest: p.Resolver.localDigest(ref, image)}, nil
		}
		if err := p.reachable(ctx, s, e); err != nil {
			return lifecycle.Result{}, err
		}
	}
	local := p.Resolver.prefersLocal(behavior, ref)
	j := jobOf(s, e, ref, behavior)
	j.local = local
	got, err := p.fetch(ctx, podman, j)
	if err == nil {
		source := lifecycle.SourceRegistry
		if local && !got.pulled {
			source = lifecycle.SourceCache // it was not compared with the registry
		}
		return lifecycle.Result{ImageID: got.id, Source: source, Digest: e.Digest}, tagBack(ctx, podman, ref, got)
	}
	late := errors.Is(ctx.Err(), context.DeadlineExceeded)
	if late {
		err = fmt.Errorf("pull %s: not done after %v, which is the most it may take (pull-timeout); check the network and the registry: %w", e.Ref, p.Policy.PullLimit, ctx.Err())
	}
	if behavior == lifecycle.PullDefault && (late || ctx.Err() == nil) && !distrusted(err) {
		if image, localErr := localCopy(ctx, podman, ref); localErr == nil && suits(image, ref, platform(s.Task)) == nil {
			p.Log.Warn("image could not be pulled, the local copy is used", "image", e.Ref, "error", err)
			return lifecycle.Result{ImageID: image.ID, Source: lifecycle.SourceCache, Digest: p.Resolver.localDigest(ref, image)}, nil
		}
	}
	return lifecycle.Result{}, err
}

// reachableLimit is how long a registry may take to show that it is there.
const reachableLimit = 4 * time.Second

// reachable returns an error if the registry of an image cannot be reached at all.
func (p *Puller) reachable(ctx context.Context, s lifecycle.State, e lifecycle.PullImage) error {
	limited, cancel := context.WithTimeout(ctx, reachableLimit)
	defer cancel()
	_, err := p.Resolver.Registry.Resolve(limited, e.Ref, images.Login{})
	var failed *images.Error
	if errors.As(err, &failed) && (failed.Class == images.DNS || failed.Class == images.Unreachable || failed.Class == images.Timeout && ctx.Err() == nil) {
		return transient.Mark(failed)
	}
	return nil
}

// localCopy finds an image in local storage, even where the time for its pull has passed.
func localCopy(ctx context.Context, podman Podman, ref images.Ref) (libpod.Image, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), localLimit)
	defer cancel()
	return podman.Image(ctx, ref.String())
}

// localLimit is how long Podman may take to find a local copy.
const localLimit = 30 * time.Second

// distrusted reports whether an image was refused for what it is: the signature policy
// does not accept it, or its content is not what the digest says. No local copy gets
// around that, unlike a registry that is away.
func distrusted(err error) bool {
	return errors.Is(err, libpod.Untrusted) || errors.Is(err, libpod.WrongContent)
}

// jobOf is what a pull for a task has to do.
func jobOf(s lifecycle.State, e lifecycle.PullImage, ref images.Ref, behavior lifecycle.PullBehavior) job {
	j := job{
		ref: ref, target: ref.String(), platform: platform(s.Task),
		never: behavior == lifecycle.PullNever, keep: behavior == lifecycle.PullPreferCached,
		credentials: credentials(s, e.Index),
	}
	if e.Digest != "" {
		j.target, j.pinned = ref.At(e.Digest), true
	}
	return j
}

// tagBack names an image that was pulled by digest as the user wrote it.
func tagBack(ctx context.Context, podman Podman, ref images.Ref, got fetched) error {
	if ref.Pinned() || slices.Contains(got.names, ref.String()) {
		return nil
	}
	return podman.Tag(ctx, got.id, ref.String())
}

// imageCheck is the health check of an image in local storage; nil for none. What
// the image leaves open has Docker's defaults.
func imageCheck(ctx context.Context, podman Podman, id string) (*taskdef.HealthCheck, error) {
	image, err := podman.Image(ctx, id)
	if err != nil || image.Health == nil {
		return nil, err
	}
	return &taskdef.HealthCheck{
		Command:  image.Health.Command,
		Interval: cmp.Or(image.Health.Interval, 30*time.Second), Timeout: cmp.Or(image.Health.Timeout, 30*time.Second),
		Retries: cmp.Or(image.Health.Retries, 3), StartPeriod: image.Health.StartPeriod,
	}, nil
}
