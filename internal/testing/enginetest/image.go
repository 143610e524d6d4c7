package enginetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"

	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/images"
)

// Image is what an image holds besides Program and NotExecutable, which is
// always there; Program is its entrypoint.
type Image struct {
	// Command are the arguments of a container that has no others.
	Command []string
	Env     []string
	// Volume: containers get an anonymous volume at VolumePath.
	Volume bool
	// Health is the health check it comes with; nil: none.
	Health *libpod.ImageHealth `json:",omitzero"`
	// Arch is the architecture it says that it is made for; empty: it does not say.
	Arch string `json:",omitzero"`
	// Salt makes images differ that do not otherwise.
	Salt string
}

// VolumePath is where an image with a volume has it.
const VolumePath = "/data"

type image struct {
	Image
	id, digest string
}

func newImage(in Image) *image {
	sum := sha256.Sum256([]byte(digestOf(in)))
	other := sha256.Sum256(sum[:])
	return &image{Image: in, id: hex.EncodeToString(sum[:]), digest: "sha256:" + hex.EncodeToString(other[:])}
}

// Load puts an image into the local store as if it had been built there.
func (f *Fake) Load(name string, in Image) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := newImage(in)
	f.images[m.id], f.names[mustRef(name).String()] = m, m.id
}

// Push puts an image into the registry under a tag, taking the tag from the one
// that had it, and returns its digest.
func (f *Fake) Push(name string, in Image) (digest string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ref, m := mustRef(name), newImage(in)
	f.tags[ref.String()], f.registry[ref.At(m.digest)] = m.digest, m
	return m.digest
}

// Digest is what the registry has under a tag, as images.Resolver would find.
func (f *Fake) Digest(ref images.Ref) (digest string, found bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	digest, found = f.tags[ref.String()]
	return digest, found
}

// RemoveImage takes an image with all its names out of the local store, as "podman
// rmi --force" does; containers made from it stay. It reports whether there was
// one.
func (f *Fake) RemoveImage(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.find(name)
	if m == nil {
		return false
	}
	delete(f.images, m.id)
	maps.DeleteFunc(f.names, func(_, id string) bool { return id == m.id })
	return true
}

func mustRef(name string) images.Ref {
	ref, err := images.ParseRef(name)
	if err != nil {
		panic("enginetest: " + err.Error())
	}
	return ref
}

// find looks an image up by id or reference.
func (f *Fake) find(name string) *image {
	if m := f.images[name]; m != nil {
		return m
	}
	ref, err := images.ParseRef(name)
	if err != nil {
		return nil
	}
	if ref.Pinned() {
		return f.images[f.names[ref.At(ref.Digest())]]
	}
	return f.images[f.names[ref.String()]]
}

// Image implements Podman.
func (f *Fake) Image(ctx context.Context, ref string) (libpod.Image, error) {
	return request(ctx, f, "inspect image", ref, func() (libpod.Image, error) {
		m := f.find(ref)
		if m == nil {
			return libpod.Image{}, refusal(libpod.NotFound, "no such image")
		}
		return f.describe(m), nil
	})
}

func (f *Fake) describe(m *image) libpod.Image {
	out := libpod.Image{ID: m.id, Size: 1, Health: m.Health, Arch: m.Arch}
	if out.Arch != "" {
		out.OS = "linux"
	}
	for name, id := range f.names {
		switch {
		case id != m.id:
		case mustRef(name).Pinned():
			out.RepoDigests = append(out.RepoDigests, name)
		default:
			out.Names = append(out.Names, name)
		}
	}
	slices.Sort(out.RepoDigests)
	slices.Sort(out.Names)
	return out
}

// Images implements Podman.
func (f *Fake) Images(ctx context.Context) ([]libpod.Image, error) {
	return request(ctx, f, "list", "images", func() ([]libpod.Image, error) {
		var out []libpod.Image
		for _, id := range slices.Sorted(maps.Keys(f.images)) {
			m := f.describe(f.images[id])
			m.Containers = f.users(id)
			out = append(out, m)
		}
		return out, nil
	})
}

// users counts the containers made from an image.
func (f *Fake) users(id string) (n int) {
	for _, c := range f.containers {
		if c.image != nil && c.image.id == id {
			n++
		}
	}
	return n
}

// RemoveUnusedImage implements Podman.
func (f *Fake) RemoveUnusedImage(ctx context.Context, m libpod.Image) error {
	_, err := request(ctx, f, "remove image", m.ID, func() (none struct{}, err error) {
		if f.users(m.ID) > 0 {
			return none, refusal(libpod.Conflict, "image is in use by a container")
		}
		delete(f.images, m.ID)
		maps.DeleteFunc(f.names, func(_, id string) bool { return id == m.ID })
		return none, nil
	})
	return err
}

// Pull implements Podman. It takes no time.
func (f *Fake) Pull(ctx context.Context, name string, o libpod.PullOptions) (string, error) {
	id, err := request(ctx, f, "pull", name, func() (string, error) { return f.pull(name) })
	if err == nil && o.Progress != nil {
		o.Progress(libpod.Progress{Layer: "000000000000", Done: true})
	}
	return id, err
}

func (f *Fake) pull(name string) (id string, err error) {
	ref, err := images.ParseRef(name)
	if err != nil {
		return "", refusal(libpod.Other, "invalid reference format")
	}
	digest := ref.Digest()
	if digest == "" {
		digest = f.tags[ref.String()]
	}
	m := f.registry[ref.At(digest)]
	if m == nil {
		return "", refusal(libpod.NoImage, "manifest unknown")
	}
	f.images[m.id], f.names[ref.At(digest)] = m, m.id
	if !ref.Pinned() {
		f.names[ref.String()] = m.id
	}
	return m.id, nil
}

// Tag implements Podman.
func (f *Fake) Tag(ctx context.Context, imageID, name string) error {
	_, err := request(ctx, f, "tag image", name, func() (none struct{}, err error) {
		ref, err := images.ParseRef(name)
		if err != nil || ref.Pinned() {
			return none, refusal(libpod.InvalidSpec, "a reference with a digest cannot be used as a tag")
		}
		m := f.find(imageID)
		if m == nil {
			return none, refusal(libpod.NoImage, "image not known")
		}
		f.names[ref.String()] = m.id
		return none, nil
	})
	return err
}

// Registry is the registry that a Fake pulls from, asked without Podman. Its
// images are for every platform, and it needs no login.
type Registry struct{ f *Fake }

// Registry returns the registry that f pulls from.
func (f *Fake) Registry() Registry { return Registry{f} }

// Resolve implements imagestore.Registry.
func (r Registry) Resolve(ctx context.Context, name string, _ images.Login) (images.Resolution, error) {
	ref, err := images.ParseRef(name)
	if err != nil {
		return images.Resolution{}, err
	}
	if err := ctx.Err(); err != nil {
		return images.Resolution{}, err
	}
	if ref.Pinned() {
		return images.Resolution{Reference: ref.String(), Canonical: ref.At(ref.Digest()), Digest: ref.Digest(), Pinned: true}, nil
	}
	digest, found := r.f.Digest(ref)
	if !found {
		return images.Resolution{}, &images.Error{Class: images.NoSuchTag, Ref: name, Message: "no such tag"}
	}
	return images.Resolution{Reference: ref.String(), Canonical: ref.At(digest), Digest: digest}, nil
}

// Describe implements imagestore.Registry.
func (Registry) Describe(context.Context, string, images.Login, images.Platform) (images.Description, error) {
	return images.Description{}, nil
}

// Access implements imagestore.Registry.
func (Registry) Access(_ images.Ref, given images.Login) (images.Login, string, error) {
	return given, "", nil
}
