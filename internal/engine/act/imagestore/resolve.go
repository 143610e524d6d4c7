package imagestore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/host/secretsource"
	"github.com/podtask/podtask/pkg/images"
	"github.com/podtask/podtask/pkg/images/flight"
	"github.com/podtask/podtask/pkg/images/imageage"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Resolver resolves image references to digests.
type Resolver struct {
	Log      *slog.Logger
	Getenv   func(string) string
	Registry Registry
	Podman   func(context.Context) (Podman, error)
	Secrets  func(context.Context) (SecretReader, error)
	Records  Records
	// AWS reads credentials from the source aws:; nil: there is none.
	AWS secretsource.AWS
	// Sights is the book of what the host has seen; nil: nothing waits. MinimumAge and Rules are those of the host.
	Sights     *Sights
	MinimumAge time.Duration
	Rules      imageage.Rules
	// Timeout limits the time that a program may take to print credentials; 0 means the default of
	// package secretsource.
	Timeout time.Duration

	local flight.Group[string, libpod.Image]
}

// Digest returns the digest to which ref resolves now, with the pull behavior of s and the
// credentials of its first container that has this image. If the behavior prefers local
// copies, it is the digest of the local copy. It is empty for a local image without a digest
// and for a container that is not pinned.
func (r *Resolver) Digest(ctx context.Context, s lifecycle.State, ref string) (string, error) {
	f, err := r.Follow(ctx, s, ref)
	return f.Digest, err
}

// Resolve returns the digest of an image: from local storage if the pull behavior prefers
// local copies, otherwise from the registry (ECS: pullContainerManifest).
func (r *Resolver) Resolve(ctx context.Context, s lifecycle.State, e lifecycle.ResolveImage) (lifecycle.Result, error) {
	f, err := r.resolve(ctx, s, e, true)
	return lifecycle.Result{Digest: f.Digest}, err
}

// resolve is Resolve; with take, the task runs what it gets.
func (r *Resolver) resolve(ctx context.Context, s lifecycle.State, e lifecycle.ResolveImage, take bool) (Followed, error) {
	if s.Task.Containers[e.Index].Unpinned {
		return Followed{}, nil
	}
	ref, err := images.ParseRef(e.Ref)
	if err != nil {
		return Followed{}, err
	}
	behavior := s.Options.Pull.Or(s.Task.Containers[e.Index].Extensions.Kube.Pull)
	if ref.Local() {
		local, err := r.resolveLocal(ctx, ref, behavior)
		return Followed{Digest: local.Digest}, err
	}
	if _, ok := r.built(ctx, ref, behavior); ok {
		return Followed{}, nil // a locally built image has no registry's digest
	}
	if r.prefersLocal(behavior, ref) {
		image, err := r.localImage(ctx, ref.String())
		if err == nil {
			return Followed{Digest: r.localDigest(ref, image)}, nil
		}
		if !errors.Is(err, libpod.NotFound) {
			return Followed{}, err
		}
		if behavior == lifecycle.PullNever {
			return Followed{}, notLocal(e.Ref)
		}
	}
	login, err := r.login(ctx, credentials(s, e.Index), ref)
	if err != nil {
		return Followed{}, err
	}
	res, err := r.Registry.Resolve(ctx, e.Ref, login)
	if err != nil && behavior == lifecycle.PullDefault && ctx.Err() == nil {
		if digest, has := r.held(s, ref); take && has {
			return Followed{Digest: digest}, nil
		}
		// If there is a local copy, the registry is asked only once, so the error is permanent.
		if image, localErr := r.localImage(ctx, ref.String()); localErr == nil && suits(image, ref, platform(s.Task)) == nil {
			return Followed{}, fmt.Errorf("%v; the local copy is used", err)
		}
	}
	if err != nil {
		return Followed{}, err
	}
	return r.gate(ctx, s, ref, res.Digest, take), nil
}

// CheckLocal returns an error for the images of a task that only local storage can have, and does not: those of
// localhost/, and with pull behavior never all images. It names all of them. No registry is asked, and that Podman
// cannot be asked is no error: the start of the task reports it.
func (r *Resolver) CheckLocal(ctx context.Context, t taskdef.Task, o lifecycle.Options) error {
	var errs []error
	seen := map[string]bool{}
	for _, c := range t.Containers {
		ref, err := images.ParseRef(c.Image)
		never := o.Pull.Or(c.Extensions.Kube.Pull) == lifecycle.PullNever
		if err != nil || seen[c.Image] || !ref.Local() && !never {
			continue
		}
		seen[c.Image], c.Unpinned = true, false
		t := t
		t.Containers = []taskdef.Container{c}
		_, err = r.Resolve(ctx, lifecycle.State{Task: t, Options: o}, lifecycle.ResolveImage{Ref: c.Image})
		if away := (*libpod.Error)(nil); err != nil && !errors.As(err, &away) && ctx.Err() == nil {
			errs = append(errs, fmt.Errorf("container %s: %w", c.Name, err))
		}
	}
	return errors.Join(errs...)
}

// resolveLocal resolves an image of localhost/. That is not a registry, so the image must be in
// local storage.
func (r *Resolver) resolveLocal(ctx context.Context, ref images.Ref, behavior lifecycle.PullBehavior) (lifecycle.Result, error) {
	if behavior == lifecycle.PullAlways {
		return lifecycle.Result{}, fmt.Errorf("%s is an image of this host, which no registry has: leave out --pull always, or push the image to a registry and name that one", ref)
	}
	image, err := r.localImage(ctx, ref.String())
	if errors.Is(err, libpod.NotFound) {
		return lifecycle.Result{}, notBuilt(ref)
	}
	if err != nil {
		return lifecycle.Result{}, err
	}
	return lifecycle.Result{Digest: r.localDigest(ref, image)}, nil
}

// notBuilt is the error for an image of localhost/ that is not in local storage.
func notBuilt(ref images.Ref) error {
	return fmt.Errorf("there is no image %s on this host: build it with `podman build -t %s .`", ref, ref)
}

// built returns the locally built image that Podman resolves a short name to, which is
// localhost/app:1 for app:1. There is none if the image must be pulled.
func (r *Resolver) built(ctx context.Context, ref images.Ref, behavior lifecycle.PullBehavior) (libpod.Image, bool) {
	local, short := ref.Built()
	if !short || behavior == lifecycle.PullAlways {
		return libpod.Image{}, false
	}
	image, err := r.localImage(ctx, local.String())
	if err != nil {
		return libpod.Image{}, false
	}
	r.Log.Debug("a short name resolves to a locally built image", "image", ref.String(), "local", local.String())
	return image, true
}

// localImage returns an image in local storage. Concurrent calls for the same reference share
// one call of Podman.
func (r *Resolver) localImage(ctx context.Context, ref string) (libpod.Image, error) {
	return r.local.Do(ctx, ref, func(ctx context.Context) (libpod.Image, error) {
		podman, err := r.Podman(ctx)
		if err != nil {
			return libpod.Image{}, err
		}
		return podman.Image(ctx, ref)
	})
}

// notLocal is the error for an image that is not in local storage and must not be pulled.
func notLocal(ref string) error {
	return fmt.Errorf("there is no image %s on this host, and --pull never forbids to pull it: run `podman pull %s`, or leave out --pull never", ref, ref)
}

// prefersLocal reports whether a local copy is used without asking the registry. With pull
// behavior once, that requires that podtask has pulled the name before.
func (r *Resolver) prefersLocal(b lifecycle.PullBehavior, ref images.Ref) bool {
	switch b {
	case lifecycle.PullNever, lifecycle.PullPreferCached:
		return true
	case lifecycle.PullOnce:
		return r.Records.PulledBefore(ref.String())
	default:
		return false
	}
}

// localDigest returns the digest with which a local image was pulled from the reference's
// repository. It is empty for an image that was built or loaded. It is also empty for an
// image that was pulled only under other names, which is logged.
func (r *Resolver) localDigest(ref images.Ref, image libpod.Image) string {
	digest, err := images.LocalDigest(ref, image.RepoDigests)
	if err != nil {
		r.Log.Warn("cannot determine the digest of a local image", "image", ref.String(), "error", err)
	}
	return digest
}

// CredentialsError reports that the credentials for a container's image cannot be read.
type CredentialsError struct{ err error }

func (e *CredentialsError) Error() string { return "registry credentials: " + e.err.Error() }

func (e *CredentialsError) Unwrap() error { return e.err }

// loginSource is the source of a container's own credentials, with the values that are passed
// to a program. The zero value means that there are none.
type loginSource struct {
	source string
	asked  secretsource.Asked
}

// credentials returns the source of the credentials of container i.
func credentials(s lifecycle.State, i int) loginSource {
	login := s.Task.Containers[i].RepositoryCredentials
	if login == nil {
		return loginSource{}
	}
	return loginSource{login.Source, secretsource.Asked{Reference: cmp.Or(login.ID, login.ValueFrom), TaskID: s.ID, Family: s.Task.Family, TaskRole: s.Task.Identity.TaskRoleARN, ExecutionRole: s.Task.Identity.ExecutionRoleARN}}
}

// login reads the credentials for the registry of ref. They are not stored. Without a source
// they are zero.
func (r *Resolver) login(ctx context.Context, l loginSource, ref images.Ref) (images.Login, error) {
	if l.source == "" {
		return images.Login{}, nil
	}
	source, err := secretsource.Parse(l.source)
	if err != nil {
		return images.Login{}, &CredentialsError{err}
	}
	reader := secretsource.Reader{Timeout: r.Timeout, Asked: l.asked, Getenv: r.Getenv, AWS: r.AWS, Podman: func(ctx context.Context, name string) ([]byte, error) {
		podman, err := r.Secrets(ctx)
		if err != nil {
			return nil, err
		}
		return podman.Secret(ctx, name)
	}}
	value, err := reader.Read(ctx, source)
	if err != nil && l.asked.Reference != l.source {
		err = fmt.Errorf("%s: %w", l.asked.Reference, err)
	}
	if err != nil {
		return images.Login{}, &CredentialsError{err}
	}
	defer value.Clear()
	login, err := images.ParseLogin(value.Bytes(), ref)
	if err != nil {
		return images.Login{}, &CredentialsError{fmt.Errorf("%s: %w", source, err)}
	}
	return login, nil
}

// platform is the platform that the task's images must have.
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

// Describe returns what the registry reports about a reference; with quick, only its digest.
// The error is an *images.Error.
func (r *Resolver) Describe(ctx context.Context, ref string, want images.Platform, quick bool) (images.Description, error) {
	if quick {
		r, err := r.Registry.Resolve(ctx, ref, images.Login{})
		return images.Description{Resolution: r}, err
	}
	return r.Registry.Describe(ctx, ref, images.Login{}, want)
}

// Podman is the part of *libpod.Client that manages images in local storage.
type Podman interface {
	Image(ctx context.Context, ref string) (libpod.Image, error)
	Pull(ctx context.Context, ref string, o libpod.PullOptions) (string, error)
	Tag(ctx context.Context, imageID, ref string) error
	Images(ctx context.Context) ([]libpod.Image, error)
	RemoveUnusedImage(ctx context.Context, m libpod.Image) error
}

// SecretReader reads the secrets that users keep in Podman.
type SecretReader interface {
	Secret(ctx context.Context, name string) ([]byte, error)
}

// Registry resolves and describes images; *images.Resolver implements it.
type Registry interface {
	Resolve(ctx context.Context, ref string, login images.Login) (images.Resolution, error)
	Describe(ctx context.Context, ref string, login images.Login, want images.Platform) (images.Description, error)
	Access(ref images.Ref, given images.Login) (login images.Login, authFile string, err error)
}
