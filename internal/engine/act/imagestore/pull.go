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
	"github.com/podtask/podtask/internal/engine/facts/failpoint"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/images"
	"github.com/podtask/podtask/pkg/images/flight"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/transient"
	"golang.org/x/sync/errgroup"
)

// Puller pulls images into local storage.
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
	flights  flight.Group[job, fetchResult]
}

// Progress is a step of a pull, for display.
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

// job describes an image that must be in local storage.
type job struct {
	ref      images.Ref
	target   string // the reference to pull: name@digest if the digest is known
	pinned   bool   // target has a digest
	platform images.Platform
	// credentials is the source of the container's credentials; zero means the configured ones.
	credentials loginSource
	local       bool // use a local copy without asking the registry
	never       bool // do not pull
	keep        bool // exclude the image from automatic pruning
}

// fetchResult is the result of a job.
type fetchResult struct {
	id     string
	pulled bool     // false: the image was in local storage
	names  []string // the names of an image that was in local storage
}

// fetch carries out a job. Concurrent calls with the same job share one pull, which is
// canceled when the contexts of all calls have ended. Other processes wait for the pull.
func (p *Puller) fetch(ctx context.Context, podman Podman, j job) (fetchResult, error) {
	return p.flights.Do(ctx, j, func(ctx context.Context) (got fetchResult, err error) {
		reporter := &progressReporter{hub: p.Hub, also: p.Progress, image: j.ref.String()}
		defer func() { reporter.end(err) }()
		lock, err := p.waitLock(ctx, imageKey(j.target), reporter)
		if err != nil {
			return fetchResult{}, err
		}
		defer lock.Unlock()
		if j.pinned || j.local || j.never {
			image, err := podman.Image(ctx, j.target)
			wrong := suits(image, j.ref, j.platform)
			switch {
			case err == nil && wrong == nil:
				return fetchResult{id: image.ID, names: image.Names}, p.found(j, image)
			case err == nil && j.never:
				return fetchResult{}, wrong
			case err != nil && !errors.Is(err, libpod.NotFound):
				return fetchResult{}, err
			}
		}
		if j.never && j.ref.Local() {
			return fetchResult{}, notBuilt(j.ref)
		}
		if j.never {
			return fetchResult{}, notLocal(j.ref.String())
		}
		id, err := p.pullNow(ctx, podman, j, reporter)
		return fetchResult{id: id, pulled: true}, err
	})
}

// suits returns an error if an image in local storage is not for the platform. The digest of
// an index may stand for one image for each platform.
func suits(image libpod.Image, ref images.Ref, want images.Platform) error {
	made := images.Platform{OS: image.OS, Architecture: image.Arch}
	if made.OS == "" || made.Architecture == "" || made.OS == want.OS && made.Architecture == want.Architecture {
		return nil
	}
	return images.Description{Resolution: images.Resolution{Reference: ref.String()}, Variants: []images.Variant{{Platform: made}}}.Check(want)
}

// found records the use of an image in local storage. The caller holds the target's lock.
func (p *Puller) found(j job, image libpod.Image) error {
	now, name := time.Now().UTC(), j.ref.String()
	named := j.ref.Pinned() || slices.Contains(image.Names, name)
	if j.ref.Pinned() || named && (j.local || j.never) {
		return p.Records.use(j.target, now) // the registry was not asked, and the image gets no new name
	}
	return p.Records.confirm(j.target, image.ID, name, named, now)
}

// waitLock takes a lock that processes share, and reports the phase Waiting if it must wait.
func (p *Puller) waitLock(ctx context.Context, key string, reporter *progressReporter) (*state.Lock, error) {
	lock, err := p.Records.locks.Lock(key)
	if errors.Is(err, state.ErrLocked) {
		reporter.step(Waiting, libpod.Progress{})
		lock, err = p.Records.locks.LockWait(ctx, key)
	}
	return lock, err
}

// pullSlot takes the lock of one of the slots that limit the concurrent pulls of all processes.
func (p *Puller) pullSlot(ctx context.Context, reporter *progressReporter) (*state.Lock, error) {
	n := p.Policy.PullsAtOnce
	slot := func(i int) string { return lockKey("pull-slot", fmt.Sprint(i)) }
	for i := range n {
		lock, err := p.Records.locks.Lock(slot(i))
		if !errors.Is(err, state.ErrLocked) {
			return lock, err
		}
	}
	// Any slot will do. The image's name distributes the waiting pulls over the slots.
	return p.waitLock(ctx, slot(int(imageKey(reporter.image)[0])%n), reporter)
}

// pullNow pulls an image. The caller holds the target's lock.
func (p *Puller) pullNow(ctx context.Context, podman Podman, j job, reporter *progressReporter) (id string, err error) {
	if err := p.checkRuns(j); err != nil {
		return "", err
	}
	slot, err := p.pullSlot(ctx, reporter)
	if err != nil {
		return "", err
	}
	defer slot.Unlock()
	given, err := p.Resolver.login(ctx, j.credentials, j.ref)
	if err != nil {
		return "", err
	}
	target, err := images.ParseRef(j.target) // mirrors may be configured for digests only
	if err != nil {
		return "", err
	}
	login, authFile, err := p.Registry.Access(target, given)
	if err != nil {
		return "", err
	}
	p.Pruner.MakeRoom(ctx, false)
	var record PulledImage
	var before func(id string) bool
	both, first := errgroup.WithContext(ctx)
	both.Go(func() error { return p.checkPlatform(first, j, given) })
	both.Go(func() (err error) { record, before, err = p.beginPull(first, podman, j); return err })
	if err := both.Wait(); err != nil {
		return "", err
	}
	options := libpod.PullOptions{
		Login:    libpod.Login{Username: login.Username, Password: login.Password, IdentityToken: login.IdentityToken},
		AuthFile: authFile, FirstByte: p.Policy.FirstByte, Idle: p.Policy.Idle,
		Progress: func(p libpod.Progress) { reporter.step(Pulling, p) },
	}
	if j.platform != images.Here() {
		options.OS, options.Arch = j.platform.OS, j.platform.Architecture
	}
	reporter.step(Pulling, libpod.Progress{})
	id, err = podman.Pull(ctx, j.target, options)
	if errors.Is(err, libpod.NoSpace) && p.Pruner.MakeRoom(ctx, true) {
		id, err = podman.Pull(ctx, j.target, options)
	}
	if err != nil {
		return "", err
	}
	p.Fail.AtEffect(failpoint.MidEffect, lifecycle.PullImage{})
	if err := p.endPull(record, id, before(id)); err != nil {
		return "", err
	}
	return id, checkPulled(ctx, podman, j, id)
}

// checkPulled returns an error if a pulled image is for another platform. A registry that has
// a single image for a reference returns it for every platform.
func checkPulled(ctx context.Context, podman Podman, j job, id string) error {
	image, err := podman.Image(ctx, id)
	if err != nil {
		return err
	}
	return suits(image, j.ref, j.platform)
}

// checkRuns returns an error if this host cannot run programs of the job's platform.
func (p *Puller) checkRuns(j job) error {
	emulator, err := images.RunsOn(p.Root, images.Here(), j.platform)
	if err != nil {
		return fmt.Errorf("pull %s: %w", j.ref, err)
	}
	if emulator != "" {
		p.Log.Info("the image is for another architecture and runs with slow emulation", "image", j.ref.String(), "platform", j.platform.String(), "emulator", emulator)
	}
	return nil
}

// checkPlatform returns an error if the registry describes the image as one for another
// platform, or sends a manifest with another digest, before anything is pulled. Podman before its fix of
// CVE-2026-111361 accepts such a manifest. If the registry fails otherwise, the pull reports it.
func (p *Puller) checkPlatform(ctx context.Context, j job, login images.Login) error {
	if !j.pinned {
		return nil
	}
	// The check is optional, so it does not wait long for a registry that hangs.
	limited, cancel := context.WithTimeout(ctx, p.Policy.Idle)
	defer cancel()
	d, err := p.Registry.Describe(limited, j.target, login, j.platform)
	if errors.Is(err, images.ErrWrongContent) {
		return err
	}
	if err != nil {
		p.Log.Debug("cannot check the platform of an image before its pull", "image", j.target, "error", err)
		return ctx.Err()
	}
	return d.Check(j.platform)
}

// beginPull writes the record of a pull that begins. It returns the record and a function that
// reports whether an image was in local storage before the pull. If Podman cannot list its
// images because one of them is broken, before is always true, so podtask does not remove the
// pulled image.
func (p *Puller) beginPull(ctx context.Context, podman Podman, j job) (m PulledImage, before func(id string) bool, err error) {
	now := time.Now().UTC()
	m, found, err := p.Records.Find(j.target)
	if err != nil {
		return m, nil, err
	}
	if !found {
		m = PulledImage{Target: j.target, BegunAt: now}
	}
	m.Reference, m.Given, m.Asked = j.ref.String(), nil, nil // the image lost its other names
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

// endPull completes the record after a successful pull. podtask may remove the image if it
// was not in local storage before, or if podtask had pulled it before.
func (p *Puller) endPull(m PulledImage, id string, before bool) error {
	m.Ours = !before || p.ours(id)
	m.ID, m.PulledAt = id, time.Now().UTC()
	m.UsedAt = m.PulledAt
	return p.Records.Write(m)
}

// ours reports whether podtask pulled the image with this ID.
func (p *Puller) ours(id string) bool {
	return slices.ContainsFunc(p.Records.all(), func(m PulledImage) bool { return m.ID == id && m.Ours })
}

// Pull pulls an image by its digest and gives it the name that the user wrote. An image that
// local storage has with that digest is not pulled again.
func (p *Puller) Pull(ctx context.Context, s lifecycle.State, e lifecycle.PullImage) (lifecycle.Result, error) {
	podman, err := p.Podman(ctx)
	if err != nil {
		return lifecycle.Result{}, err
	}
	r, err := p.pull(ctx, podman, s, e)
	if def := s.Task.Containers[e.Index]; err == nil && def.Extensions.ImageHealthCheck && !def.HasHealth() {
		if r.HealthCheck, err = imageCheck(ctx, podman, r.ImageID); err == nil && r.HealthCheck == nil {
			err = needsCheck(s.Task, e.Index)
		}
	}
	return r, err
}

// needsCheck returns an error if another container waits until container i is HEALTHY, which it never is without a check.
func needsCheck(t taskdef.Task, i int) error {
	for _, c := range t.Containers {
		if slices.Contains(c.DependsOn, taskdef.Dependency{Container: i, Condition: taskdef.Healthy}) {
			return fmt.Errorf("the image has no HEALTHCHECK, and container %s waits until %s is HEALTHY: give %s a healthCheck, or let %s wait for START", c.Name, t.Containers[i].Name, t.Containers[i].Name, c.Name)
		}
	}
	return nil
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

// pull is Pull without the health check of the image.
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
		// The registry did not return the digest. A local copy is good enough. Without one, an
		// unreachable registry is reported now, before Podman retries for long.
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
			source = lifecycle.SourceCache // the registry was not asked
		}
		return lifecycle.Result{ImageID: got.id, Source: source, Digest: e.Digest}, tagBack(ctx, podman, ref, got)
	}
	late := errors.Is(ctx.Err(), context.DeadlineExceeded)
	if late {
		err = fmt.Errorf("pull %s: not done after %v (pull-timeout); check the network and the registry: %w", e.Ref, p.Policy.PullLimit, ctx.Err())
	}
	if behavior == lifecycle.PullDefault && (late || ctx.Err() == nil) && !distrusted(err) {
		if image, localErr := localCopy(ctx, podman, ref); localErr == nil && suits(image, ref, platform(s.Task)) == nil {
			p.Log.Warn("cannot pull an image; using the local copy", "image", e.Ref, "error", err)
			return lifecycle.Result{ImageID: image.ID, Source: lifecycle.SourceCache, Digest: p.Resolver.localDigest(ref, image)}, nil
		}
	}
	return lifecycle.Result{}, err
}

// reachableLimit limits the time that a registry may take to answer before it counts as unreachable.
const reachableLimit = 4 * time.Second

// reachable returns an error if the registry of an image cannot be reached at all.
func (p *Puller) reachable(ctx context.Context, s lifecycle.State, e lifecycle.PullImage) error {
	limited, cancel := context.WithTimeout(ctx, reachableLimit)
	defer cancel()
	_, err := p.Resolver.Registry.Resolve(limited, e.Ref, images.Login{})
	if failed, ok := errors.AsType[*images.Error](err); ok && (failed.Class == images.DNS || failed.Class == images.Unreachable || failed.Class == images.Timeout && ctx.Err() == nil) {
		return transient.Mark(failed)
	}
	return nil
}

// localCopy returns an image in local storage, even if ctx has ended.
func localCopy(ctx context.Context, podman Podman, ref images.Ref) (libpod.Image, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), localLimit)
	defer cancel()
	return podman.Image(ctx, ref.String())
}

// localLimit limits the time that Podman may take to find a local copy.
const localLimit = 30 * time.Second

// distrusted reports whether an image was refused because the signature policy does not accept
// it or its content does not match its digest. A local copy must not be used instead.
func distrusted(err error) bool {
	return errors.Is(err, libpod.Untrusted) || errors.Is(err, libpod.WrongContent) || errors.Is(err, images.ErrWrongContent)
}

// jobOf returns the job of a pull for a task.
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

// tagBack gives an image that was pulled by digest the name that the user wrote.
func tagBack(ctx context.Context, podman Podman, ref images.Ref, got fetchResult) error {
	if ref.Pinned() || slices.Contains(got.names, ref.String()) {
		return nil
	}
	return podman.Tag(ctx, got.id, ref.String())
}

// imageCheck returns the health check of an image in local storage, with Docker's defaults for
// unset values; nil if the image has none.
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
