package libpod

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/bindings/images"
	entities "github.com/containers/podman/v5/pkg/domain/entities/types"
	"github.com/podtask/podtask/internal/sleep"
	"go.podman.io/image/v5/docker/reference"
	"go.podman.io/image/v5/manifest"
)

// Image is an image in the local store.
type Image struct {
	// ID is the digest of the image's configuration, without "sha256:".
	ID string
	// Names are the image's tags, fully qualified.
	Names []string
	// RepoDigests are references name@sha256:... for every digest of the image: that of the
	// platform's manifest, and that of the index if the image was pulled from an index.
	RepoDigests []string
	// Size is in bytes. A layer shared by several images counts in each.
	Size int64
	// User is the user of the image's configuration, user[:group]; "" means root.
	User string
	// Health is the image's HEALTHCHECK; nil means none. Only Image sets it.
	Health *ImageHealth
	// Ports are the TCP ports that the image says its programs listen on (EXPOSE). Only Image sets it.
	Ports []uint16
	// OS and Arch are the image's platform, as in GOOS and GOARCH. Only Image sets them.
	OS, Arch string
	// Containers is the number of containers of all tools that use the image. Only Images
	// sets it.
	Containers int
}

// ImageHealth is the HEALTHCHECK of an image. Unset values are 0.
type ImageHealth struct {
	// Command is ["CMD", arg...] or ["CMD-SHELL", command].
	Command                        []string
	Interval, Timeout, StartPeriod time.Duration
	Retries                        int
}

// imageHealth converts an image's health check; NONE counts as no check.
func imageHealth(h *manifest.Schema2HealthConfig) *ImageHealth {
	if h == nil || len(h.Test) < 2 || h.Test[0] == define.HealthConfigTestNone {
		return nil
	}
	return &ImageHealth{Command: h.Test, Interval: h.Interval, Timeout: h.Timeout, StartPeriod: h.StartPeriod, Retries: h.Retries}
}

// Image looks up a reference or an image ID in the local store. The class is NotFound if
// there is no such image.
func (c *Client) Image(ctx context.Context, ref string) (Image, error) {
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
		// 4.3 panics on a manifest without a configuration.
		e.Cause = "Podman " + c.version.String() + " cannot read this image: its manifest has Docker's schema 1 (push the image again with a newer tool, or use Podman 5), or the disk of Podman's storage is full"
	}
	if err != nil {
		return Image{}, err
	}
	var entryPoint []string
	if found.ImageData != nil && found.Config != nil {
		entryPoint = found.Config.Entrypoint
	}
	c.images.Store(found.ID, configOf(found.User, entryPoint, found.Labels))
	return Image{
		ID: found.ID, Names: found.RepoTags, RepoDigests: found.RepoDigests, Size: found.Size,
		User: found.User, Health: imageHealth(found.HealthCheck), Ports: exposedPorts(found), OS: found.Os, Arch: found.Architecture,
	}, nil
}

// exposedPorts are the TCP ports of an image's configuration.
func exposedPorts(found *entities.ImageInspectReport) (ports []uint16) {
	if found.ImageData == nil || found.Config == nil {
		return nil
	}
	for text := range found.Config.ExposedPorts { // 80/tcp
		number, protocol, _ := strings.Cut(text, "/")
		if n, err := strconv.ParseUint(number, 10, 16); err == nil && (protocol == "" || protocol == "tcp") {
			ports = append(ports, uint16(n))
		}
	}
	slices.Sort(ports)
	return ports
}

// listTries is the number of attempts to list images while an image is being stored or removed.
// listPause is the first pause between them; each further pause is twice as long.
const (
	listTries = 5
	listPause = 20 * time.Millisecond
)

// Images lists the images in the local store. Podman 4.3 fails while an image is being stored
// or removed; then Images tries again. It also fails if an image has lost its data; then the
// class is Other and the cause names the image.
func (c *Client) Images(ctx context.Context) ([]Image, error) {
	var list []*entities.ImageSummary
	err := c.ask(ctx, "list", "images", func(ctx context.Context) error {
		for n := 0; ; n++ {
			var err error
			list, err = images.List(ctx, nil)
			e := fail(ctx, "", "", err)
			removed := errors.Is(e, NoImage)
			switch {
			case err == nil || !removed && !strings.Contains(e.Error(), incompleteImage) && !strings.Contains(e.Error(), removedLayer):
				return err
			case n+1 < listTries:
			case removed:
				return &Error{Class: Temporary, Cause: "images were removed during every attempt"}
			default:
				return err
			}
			sleep.For(ctx, listPause<<n)
		}
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

// RemoveUnusedImage removes an image and all its names, unless a container uses it: then
// the class is Conflict and the image keeps its tags. Parent images are kept. It succeeds
// if the image does not exist.
func (c *Client) RemoveUnusedImage(ctx context.Context, m Image) error {
	return c.erase(ctx, c.removals, "remove image", m.ID, func(ctx context.Context) error {
		// By ID Podman removes an image only if it has at most one name. By name it
		// removes that name, and the image with the last one. It does not list names with
		// digests.
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

// removeName removes a name from an image, and the image with its last name.
func removeName(ctx context.Context, name string) error {
	_, errs := images.Remove(ctx, []string{name}, new(images.RemoveOptions).WithNoPrune(true))
	err := errors.Join(errs...)
	if e := fail(ctx, "", "", err); errors.Is(e, NoImage) || errors.Is(e, NotFound) {
		return nil
	}
	return err
}

// retag restores the tags of an image that could not be removed.
func retag(ctx context.Context, m Image) error {
	var errs []error
	for _, name := range m.Names {
		if repo, tag, err := tagParts(name); err == nil {
			errs = append(errs, images.Tag(ctx, m.ID, tag, repo, nil))
		}
	}
	return errors.Join(errs...)
}

// Tag adds the name ref to the image and removes it from the image that had it before, as
// podman tag and podman pull do. It may be repeated.
func (c *Client) Tag(ctx context.Context, imageID, ref string) error {
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
		return "", "", &Error{Class: InvalidSpec, Cause: fmt.Sprintf("not an image reference: %v", err)}
	}
	if _, ok := named.(reference.Digested); ok {
		return "", "", &Error{Class: InvalidSpec, Cause: "a reference with a digest cannot be used as a tag"}
	}
	tagged, ok := reference.TagNameOnly(named).(reference.Tagged)
	if !ok {
		return "", "", &Error{Class: InvalidSpec, Cause: "the reference has no tag"}
	}
	return named.Name(), tagged.Tag(), nil
}
