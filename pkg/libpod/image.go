package libpod

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/containers/image/v5/docker/reference"
	"github.com/containers/image/v5/manifest"
	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/bindings/images"
	entities "github.com/containers/podman/v5/pkg/domain/entities/types"
)

// Image is an image in the local store.
type Image struct {
	// ID is the digest of its configuration, without "sha256:".
	ID string
	// Names are its tags, fully qualified.
	Names []string
	// RepoDigests are name@sha256:... for every digest it was pulled by: of the
	// platform's manifest, and of the index when it came from one.
	RepoDigests []string
	// Size is in bytes. Images may share layers, which count in each.
	Size int64
	// User is that of its configuration, user[:group]; "" means root.
	User string
	// Health is its HEALTHCHECK; nil means none; Image only.
	Health *ImageHealth
	// OS and Arch are the platform it was made for, in Go's words; Image only.
	OS, Arch string
	// Containers is how many containers use it, whoever made them and with what
	// program; Images only.
	Containers int
}

// ImageHealth is the HEALTHCHECK of an image. What it leaves open is 0.
type ImageHealth struct {
	// Command is ["CMD", arg...] or ["CMD-SHELL", command].
	Command                        []string
	Interval, Timeout, StartPeriod time.Duration
	Retries                        int
}

// imageHealth reads an image's health check; NONE is none.
func imageHealth(h *manifest.Schema2HealthConfig) *ImageHealth {
	if h == nil || len(h.Test) < 2 || h.Test[0] == define.HealthConfigTestNone {
		return nil
	}
	return &ImageHealth{Command: h.Test, Interval: h.Interval, Timeout: h.Timeout, StartPeriod: h.StartPeriod, Retries: h.Retries}
}

// Image looks up a reference, or an image id, in the local store. Class NotFound
// if it is not there.
func (c *imageAPI) Image(ctx context.Context, ref string) (Image, error) {
	var found *entities.ImageInspectReport
	err := c.ask(ctx, "inspect image", ref, func(ctx context.Context) (err error) {
		found, err = images.GetImage(ctx, ref, nil)
		return err
	})
	var e *Error
	if errors.As(err, &e) && e.Class == NoImage {
		e.Class = NotFound
	}
	if e != nil && strings.Contains(e.Cause, "nil pointer dereference") {
		// What 4.3 comes to over a manifest without a configuration.
		e.Cause = "Podman " + c.version.String() + " cannot read it, as if its manifest were of Docker's schema 1: push the image again with a newer tool, or use Podman 5"
	}
	if err != nil {
		return Image{}, err
	}
	return Image{
		ID: found.ID, Names: found.RepoTags, RepoDigests: found.RepoDigests, Size: found.Size,
		User: found.User, Health: imageHealth(found.HealthCheck), OS: found.Os, Arch: found.Architecture,
	}, nil
}

// listTries is how often a list is asked for that fails because an image was removed
// while Podman made it.
const listTries = 5

// Images lists the local store.
func (c *imageAPI) Images(ctx context.Context) ([]Image, error) {
	var list []*entities.ImageSummary
	err := c.ask(ctx, "list", "images", func(ctx context.Context) (err error) {
		for range listTries {
			list, err = images.List(ctx, nil)
			if !errors.Is(fail(ctx, "", "", err), NoImage) {
				return err
			}
		}
		return &Error{Class: Temporary, Cause: "images are being removed all the time"}
	})
	if err != nil {
		return nil, err
	}
	out := make([]Image, 0, len(list))
	for _, m := range list {
		// Podman 4.3 has name@digest among the tags, and 5.x <none>:<none>.
		names := slices.DeleteFunc(m.RepoTags, func(n string) bool { return strings.HasPrefix(n, "<none>") || strings.Contains(n, "@") })
		out = append(out, Image{ID: m.ID, Names: names, RepoDigests: m.RepoDigests, Size: m.Size, Containers: m.Containers})
	}
	return out, nil
}

// RemoveUnusedImage removes an image with all its names, unless a container uses it:
// then the class is Conflict and the image keeps its tags. Parents are left alone.
// An image that is not there is success.
func (c *imageAPI) RemoveUnusedImage(ctx context.Context, m Image) error {
	return c.mutate(ctx, "remove image", m.ID, func(ctx context.Context) error {
		// By its ID Podman removes an image of one name only, and by a name that
		// name, or with the last one the image. Its names by digest it does not list.
		var err error
		for _, name := range slices.Concat(m.Names, []string{m.ID}, m.RepoDigests, []string{m.ID}) {
			if err = removeName(ctx, name); errors.Is(fail(ctx, "", "", err), Conflict) {
				return errors.Join(err, retag(ctx, m))
			}
			if err != nil && name != m.ID {
				return err
			}
		}
		return err
	})
}

// removeName takes a name off an image, and removes the image with its last one.
func removeName(ctx context.Context, name string) error {
	_, errs := images.Remove(ctx, []string{name}, new(images.RemoveOptions).WithNoPrune(true))
	err := errors.Join(errs...)
	if e := fail(ctx, "", "", err); errors.Is(e, NoImage) || errors.Is(e, NotFound) {
		return nil
	}
	return err
}

// retag gives back the tags of an image that could not be removed after all.
func retag(ctx context.Context, m Image) error {
	var errs []error
	for _, name := range m.Names {
		if repo, tag, err := tagParts(name); err == nil {
			errs = append(errs, images.Tag(ctx, m.ID, tag, repo, nil))
		}
	}
	return errors.Join(errs...)
}

// Tag gives the image a further name, name:tag, taking it from the image that had
// it before, as podman tag and podman pull do. Doing it twice is success.
func (c *imageAPI) Tag(ctx context.Context, imageID, ref string) error {
	repo, tag, err := tagParts(ref)
	if err != nil {
		return fail(ctx, "tag image", ref, err)
	}
	return c.mutate(ctx, "tag image", ref, func(ctx context.Context) error {
		return images.Tag(ctx, imageID, tag, repo, nil)
	})
}

// tagParts splits a reference into repository and tag, "latest" if it has none.
func tagParts(ref string) (repo, tag string, err error) {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return "", "", &Error{Class: InvalidSpec, Cause: fmt.Sprintf("not a reference: %v", err)}
	}
	if _, ok := named.(reference.Digested); ok {
		return "", "", &Error{Class: InvalidSpec, Cause: "a reference with a digest is no name to tag with"}
	}
	tagged, ok := reference.TagNameOnly(named).(reference.Tagged)
	if !ok {
		return "", "", &Error{Class: InvalidSpec, Cause: "the reference has no tag"}
	}
	return named.Name(), tagged.Tag(), nil
}
