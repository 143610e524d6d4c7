package imagestore

import (
	"context"
	"errors"
	"slices"

	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/images"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Origin is where a task gets an image from, and what the image is there now.
type Origin struct {
	// Reference is the full name; that of an image in local storage begins with localhost/.
	Reference string
	// Built is an image in local storage that no registry has; nil for one of a registry.
	Built *libpod.Image
	// Description is what the registry says; zero for a Built image.
	Description images.Description
}

// Digest returns the digest of the image in its repository; empty for a built image without one.
func (o Origin) Digest() string {
	if o.Built == nil {
		return o.Description.Digest
	}
	ref, err := images.ParseRef(o.Reference)
	if err != nil {
		return ""
	}
	digest, err := images.LocalDigest(ref, o.Built.RepoDigests)
	if err != nil {
		return "" // it has other names only
	}
	return digest
}

// Origin finds an image of a task: in local storage if it was built there, else at its registry with the
// credentials of its container. It pulls nothing.
func (r *Resolver) Origin(ctx context.Context, s lifecycle.State, image string) (Origin, error) {
	ref, err := images.ParseRef(image)
	if err != nil {
		return Origin{}, err
	}
	if local, short := ref.Built(); short {
		if built, ok := r.built(ctx, ref, lifecycle.PullDefault); ok {
			return Origin{Reference: local.String(), Built: &built}, nil
		}
	}
	if ref.Local() {
		built, err := r.localImage(ctx, ref.String())
		if errors.Is(err, libpod.NotFound) {
			err = notBuilt(ref)
		}
		return Origin{Reference: ref.String(), Built: &built}, err
	}
	var l loginSource
	if i := containerOf(s.Task, image); i >= 0 {
		l = credentials(s, i)
	}
	login, err := r.login(ctx, l, ref)
	if err != nil {
		return Origin{}, err
	}
	d, err := r.Registry.Describe(ctx, ref.String(), login, platform(s.Task))
	return Origin{Reference: ref.String(), Description: d}, err
}

// Stored returns an image in local storage; found is false if there is none.
func (r *Resolver) Stored(ctx context.Context, ref string) (image libpod.Image, found bool, err error) {
	image, err = r.localImage(ctx, ref)
	if errors.Is(err, libpod.NotFound) {
		return image, false, nil
	}
	return image, err == nil, err
}

// containerOf returns the first container with an image; -1 for none.
func containerOf(t taskdef.Task, image string) int {
	return slices.IndexFunc(t.Containers, func(c taskdef.Container) bool { return c.Image == image })
}

// Platform returns the platform that the images of a task must have.
func Platform(t taskdef.Task) images.Platform { return platform(t) }

// Brought is an image that is in local storage now.
type Brought struct {
	ID, Digest string
	// Pulled is false for an image that was there before and that no registry was asked for.
	Pulled bool
}

// Bring makes sure that an image of a task is in local storage, with the pull behavior of s, as a run of the task
// would before it creates a container.
func (p *Puller) Bring(ctx context.Context, s lifecycle.State, image string) (Brought, error) {
	i := containerOf(s.Task, image)
	if i < 0 { // the file system of a volume
		s.Task.Containers = []taskdef.Container{{Image: image}}
		i = 0
	}
	found, err := p.Resolver.Resolve(ctx, s, lifecycle.ResolveImage{Index: i, Ref: image})
	if err != nil {
		return Brought{}, err
	}
	got, err := p.Pull(ctx, s, lifecycle.PullImage{Index: i, Ref: image, Digest: found.Digest})
	return Brought{ID: got.ImageID, Digest: found.Digest, Pulled: got.Source == lifecycle.SourceRegistry}, err
}
