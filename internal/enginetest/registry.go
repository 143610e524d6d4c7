package enginetest

import (
	"context"

	"github.com/podtask/podtask/internal/agent"
	"github.com/podtask/podtask/pkg/images"
)

// Registry is the registry that a Fake pulls from, asked without Podman. Its
// images are for every platform, and it lets everybody in.
type Registry struct{ f *Fake }

var _ agent.Registry = Registry{}

// Registry returns the registry that f pulls from.
func (f *Fake) Registry() Registry { return Registry{f} }

// Resolve implements agent.Registry.
func (r Registry) Resolve(ctx context.Context, name string, _ images.Login) (images.Resolution, error) {
	ref, err := images.ParseRef(name)
	if err != nil {
		return images.Resolution{}, err
	}
	if err := ctx.Err(); err != nil {
		return images.Resolution{}, err
	}
	digest, found := r.f.Digest(ref)
	if !found {
		return images.Resolution{}, &images.Error{Class: images.NoSuchTag, Ref: name, Message: "no such tag"}
	}
	return images.Resolution{Reference: ref.String(), Canonical: ref.At(digest), Digest: digest}, nil
}

// Describe implements agent.Registry.
func (Registry) Describe(context.Context, string, images.Login, images.Platform) (images.Description, error) {
	return images.Description{}, nil
}

// Access implements agent.Registry.
func (Registry) Access(_ images.Ref, given images.Login) (images.Login, string, error) {
	return given, "", nil
}
