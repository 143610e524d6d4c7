package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/podtask/podtask/pkg/images"
	"github.com/podtask/podtask/pkg/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/secrets"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Registry is what podtask asks of registries; *images.Resolver is one.
type Registry interface {
	Resolve(ctx context.Context, ref string, login images.Login) (images.Resolution, error)
	Describe(ctx context.Context, ref string, login images.Login, want images.Platform) (images.Description, error)
	Access(ref images.Ref, given images.Login) (login images.Login, authFile string, err error)
}

var _ Registry = (*images.Resolver)(nil)

// Resolve finds the digest of an image: in local storage where the pull behaviour
// prefers that, else at the registry (ECS: pullContainerManifest).
func (r *Resolver) Resolve(ctx context.Context, s lifecycle.State, e lifecycle.ResolveImage) (lifecycle.Result, error) {
	if s.Task.Containers[e.Index].Unpinned {
		return lifecycle.Result{}, nil
	}
	ref, err := images.ParseRef(e.Ref)
	if err != nil {
		return lifecycle.Result{}, err
	}
	if r.prefersLocal(s.Options.Pull, ref) {
		podman, err := r.podman(ctx)
		if err != nil {
			return lifecycle.Result{}, err
		}
		image, err := podman.Image(ctx, ref.String())
		if err == nil {
			return lifecycle.Result{Digest: localDigest(ref, image)}, nil
		}
		if !errors.Is(err, libpod.NotFound) {
			return lifecycle.Result{}, err
		}
		if s.Options.Pull == lifecycle.PullNever {
			return lifecycle.Result{}, notLocal(e.Ref)
		}
	}
	login, err := r.login(ctx, credentials(s.Task.Containers[e.Index]), ref)
	if err != nil {
		return lifecycle.Result{}, err
	}
	res, err := r.registry.Resolve(ctx, e.Ref, login)
	return lifecycle.Result{Digest: res.Digest}, err
}

func notLocal(ref string) error {
	return fmt.Errorf("%s is not in local storage and must not be pulled (--pull never): `podman pull` it first, or choose another --pull", ref)
}

// prefersLocal reports whether a local copy will do without the registry being
// asked; with once only if podtask itself has pulled the name before.
func (r *Resolver) prefersLocal(b lifecycle.PullBehavior, ref images.Ref) bool {
	switch b {
	case lifecycle.PullNever, lifecycle.PullPreferCached:
		return true
	case lifecycle.PullOnce:
		return r.records.pulledBefore(ref.String())
	default:
		return false
	}
}

// localDigest is the digest a local image was pulled by from the reference's
// repository; empty for one that was built or loaded.
func localDigest(ref images.Ref, image libpod.Image) string {
	for _, d := range image.RepoDigests {
		if r, err := images.ParseRef(d); err == nil && r.Name() == ref.Name() {
			return r.Digest()
		}
	}
	return ""
}

// authError says that the credentials for a container's image cannot be had.
type authError struct{ err error }

func (e *authError) Error() string { return "registry credentials: " + e.err.Error() }
func (e *authError) Unwrap() error { return e.err }

// credentials is the source of a container's own credentials; empty for none.
func credentials(c taskdef.Container) string {
	if c.RepositoryCredentials == nil {
		return ""
	}
	return c.RepositoryCredentials.Source
}

// login reads credentials for the registry of ref, right before they are used;
// zero for no source. Nothing keeps them.
func (r *Resolver) login(ctx context.Context, from string, ref images.Ref) (images.Login, error) {
	if from == "" {
		return images.Login{}, nil
	}
	source, err := secrets.Parse(from)
	if err != nil {
		return images.Login{}, &authError{err}
	}
	reader := secrets.Reader{Getenv: r.getenv, Podman: func(ctx context.Context, name string) ([]byte, error) {
		podman, err := r.podman(ctx)
		if err != nil {
			return nil, err
		}
		return podman.Secret(ctx, name)
	}}
	value, err := reader.Read(ctx, source)
	if err != nil {
		return images.Login{}, &authError{err}
	}
	defer value.Clear()
	login, err := images.ParseLogin(value.Bytes(), ref)
	if err != nil {
		return images.Login{}, &authError{fmt.Errorf("%s: %w", source, err)}
	}
	return login, nil
}

// platform is what the task's images must be made for.
func platform(t taskdef.Task) images.Platform {
	p := images.Here()
	if t.Platform.OS != "" {
		p.OS = t.Platform.OS
	}
	if t.Platform.Architecture != "" {
		p.Architecture = t.Platform.Architecture
	}
	return p
}

// Pull brings the image into local storage by digest and gives it the name the
// user wrote. An image that is there by that digest is not pulled again.
func (p *Puller) Pull(ctx context.Context, podman Podman, s lifecycle.State, e lifecycle.PullImage) (lifecycle.Result, error) {
	ref, err := images.ParseRef(e.Ref)
	if err != nil {
		return lifecycle.Result{}, err
	}
	local := p.resolver.prefersLocal(s.Options.Pull, ref)
	got, err := p.fetchFor(ctx, podman, s, e, ref, local)
	if err == nil {
		source := lifecycle.SourceRegistry
		if local && !got.pulled {
			source = lifecycle.SourceCache // nobody compared it
		}
		return lifecycle.Result{ImageID: got.id, Source: source, Digest: e.Digest}, tagBack(ctx, podman, ref, got.id)
	}
	late := errors.Is(ctx.Err(), context.DeadlineExceeded)
	if late {
		err = fmt.Errorf("pull %s: not done after %v, which is the most it may take (pull-timeout); check the network and the registry: %w", e.Ref, p.policy.PullLimit, ctx.Err())
	}
	if s.Options.Pull == lifecycle.PullDefault && (late || ctx.Err() == nil) && !distrusted(err) {
		if image, localErr := localCopy(ctx, podman, ref); localErr == nil && suits(image, ref, platform(s.Task)) == nil {
			p.log.Warn("image could not be pulled, the local copy is used", "image", e.Ref, "error", err)
			return lifecycle.Result{ImageID: image.ID, Source: lifecycle.SourceCache, Digest: localDigest(ref, image)}, nil
		}
	}
	return lifecycle.Result{}, err
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

func (p *Puller) fetchFor(ctx context.Context, podman Podman, s lifecycle.State, e lifecycle.PullImage, ref images.Ref, local bool) (fetched, error) {
	j := job{
		ref: ref, target: ref.String(), platform: platform(s.Task), local: local,
		never: s.Options.Pull == lifecycle.PullNever, keep: s.Options.Pull == lifecycle.PullPreferCached,
		credentials: credentials(s.Task.Containers[e.Index]),
	}
	if e.Digest != "" {
		j.target, j.pinned = ref.At(e.Digest), true
	}
	return p.fetch(ctx, podman, j)
}

// tagBack names an image that was pulled by digest as the user wrote it.
func tagBack(ctx context.Context, podman Podman, ref images.Ref, id string) error {
	if ref.Pinned() {
		return nil
	}
	return podman.Tag(ctx, id, ref.String())
}

// Describe asks the registry what a reference stands for, and with quick for
// its digest only. The error is an *images.Error.
func (r *Resolver) Describe(ctx context.Context, ref string, want images.Platform, quick bool) (images.Description, error) {
	if quick {
		r, err := r.registry.Resolve(ctx, ref, images.Login{})
		return images.Description{Resolution: r}, err
	}
	return r.registry.Describe(ctx, ref, images.Login{}, want)
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
