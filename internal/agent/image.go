package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/podtask/podtask/pkg/images"
	"github.com/podtask/podtask/pkg/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// resolve finds the digest of an image: in local storage where the pull behaviour
// prefers that, else at the registry.
func (h *Host) resolve(ctx context.Context, s lifecycle.State, e lifecycle.ResolveImage) (lifecycle.Result, error) {
	if prefersLocal(s.Options.Pull) {
		podman, err := h.Podman(ctx)
		if err != nil {
			return lifecycle.Result{}, err
		}
		ref, err := images.ParseRef(e.Ref)
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
	res, err := h.cfg.Resolve(ctx, e.Ref)
	return lifecycle.Result{Digest: res.Digest}, err
}

func notLocal(ref string) error {
	return fmt.Errorf("%s is not in local storage and must not be pulled (--pull never): `podman pull` it first, or choose another --pull", ref)
}

func prefersLocal(b lifecycle.PullBehavior) bool {
	return b == lifecycle.PullNever || b == lifecycle.PullPreferCached || b == lifecycle.PullOnce
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

// pull brings the image into local storage by digest and gives it the name the
// user wrote. An image that is there by that digest is not pulled again.
func (h *Host) pull(ctx context.Context, podman Engine, s lifecycle.State, e lifecycle.PullImage) (lifecycle.Result, error) {
	ref, err := images.ParseRef(e.Ref)
	if err != nil {
		return lifecycle.Result{}, err
	}
	target := ref.String()
	if e.Digest != "" {
		target = ref.At(e.Digest)
	}
	unlock, err := pulls.lock(ctx, target)
	if err != nil {
		return lifecycle.Result{}, err
	}
	defer unlock()
	byDigest := e.Digest != ""
	if byDigest || prefersLocal(s.Options.Pull) {
		if image, err := podman.Image(ctx, target); err == nil {
			return lifecycle.Result{ImageID: image.ID, Source: localSource(s.Options.Pull)}, tagBack(ctx, podman, ref, image.ID)
		}
	}
	if s.Options.Pull == lifecycle.PullNever {
		return lifecycle.Result{}, notLocal(e.Ref)
	}
	id, err := podman.Pull(ctx, target, libpod.PullOptions{AuthFile: images.OptionsFromEnv(h.cfg.Getenv).AuthFile})
	if err == nil {
		h.failpointOf(midEffect, e)
		return lifecycle.Result{ImageID: id, Source: lifecycle.SourceRegistry}, tagBack(ctx, podman, ref, id)
	}
	if s.Options.Pull == lifecycle.PullDefault && ctx.Err() == nil {
		if image, localErr := podman.Image(ctx, ref.String()); localErr == nil {
			h.log.Warn("image could not be pulled, the local copy is used", "image", e.Ref, "error", err)
			return lifecycle.Result{ImageID: image.ID, Source: lifecycle.SourceCache}, nil
		}
	}
	return lifecycle.Result{}, err
}

// localSource tells an image that is known to be the registry's own from a local
// copy nobody compared.
func localSource(b lifecycle.PullBehavior) string {
	if prefersLocal(b) {
		return lifecycle.SourceCache
	}
	return lifecycle.SourceRegistry
}

// tagBack names an image that was pulled by digest as the user wrote it.
func tagBack(ctx context.Context, podman Engine, ref images.Ref, id string) error {
	if ref.Pinned() {
		return nil
	}
	return podman.Tag(ctx, id, ref.String())
}
