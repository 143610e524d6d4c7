package images

import (
	"fmt"
	"strings"

	"go.podman.io/image/v5/docker/reference"
)

// Ref is an image reference, normalized as by Docker and ECS: a name without a registry
// is on docker.io, a docker.io name without a namespace in library/, and a reference with
// neither tag nor digest means :latest.
//
// The zero Ref is not valid; ParseRef makes one. Values are comparable.
type Ref struct {
	registry string
	path     string
	tag      string
	digest   string
	short    bool
}

// maxRef is longer than any valid reference: 255 bytes of name, 128 of tag, and a digest.
// Longer text is not parsed.
const maxRef = 1024

// ParseRef reads a reference such as "app", "registry.example.com:5000/team/app:1" or
// "app@sha256:…". It is pure: short-name aliases and search lists of registries.conf are
// ignored, so that the same text means the same image on every host, as in ECS. The error
// is an *Error of class Invalid.
func ParseRef(s string) (Ref, error) {
	if len(s) > maxRef {
		return Ref{}, &Error{
			Class:   Invalid,
			Ref:     clean(s[:maxRef]),
			Message: fmt.Sprintf("an image reference of %d bytes is too long: it has at most %d", len(s), maxRef),
			Hint:    "write it as REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:DIGEST",
		}
	}
	named, err := reference.ParseNormalizedNamed(s)
	if err != nil {
		return Ref{}, &Error{
			Class:   Invalid,
			Ref:     clean(s),
			Message: clean(err.Error()),
			Hint:    "write it as REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:DIGEST",
		}
	}
	ref := Ref{
		registry: reference.Domain(named),
		path:     reference.Path(named),
		short:    assumesDockerHub(s, reference.Domain(named)),
	}
	if d, ok := named.(reference.Digested); ok {
		ref.digest = d.Digest().String()
	}
	if t, ok := reference.TagNameOnly(named).(reference.Tagged); ok {
		ref.tag = t.Tag()
	}
	return ref, nil
}

// assumesDockerHub reports whether s, whose registry was found to be domain,
// did not name a registry itself.
func assumesDockerHub(s, domain string) bool {
	first, _, _ := strings.Cut(s, "/")
	return domain == "docker.io" && first != "docker.io" && first != "index.docker.io"
}

// Registry is the host, with its port if it has one: "docker.io", "localhost:5000".
func (r Ref) Registry() string { return r.registry }

// Repository is the path on the registry: "library/alpine".
func (r Ref) Repository() string { return r.path }

// Name is the registry and the repository, without tag and digest.
func (r Ref) Name() string { return r.registry + "/" + r.path }

// Tag is the tag; empty only if the reference has a digest and no tag.
func (r Ref) Tag() string { return r.tag }

// Digest is the digest the reference was written with, or empty.
func (r Ref) Digest() string { return r.digest }

// Pinned reports whether the reference was written with a digest.
func (r Ref) Pinned() bool { return r.digest != "" }

// Short reports whether the reference named no registry and docker.io was assumed.
func (r Ref) Short() bool { return r.short }

// Local reports whether the reference names no registry at all: localhost/ is the prefix of images that
// were built here. "localhost:5000/x" names a registry.
func (r Ref) Local() bool { return r.registry == "localhost" }

// Built returns the name under which Podman keeps an image of a short name that was built here:
// localhost/app:1 for app:1. Ok is false for a reference that names a registry.
func (r Ref) Built() (local Ref, ok bool) {
	if !r.short {
		return Ref{}, false
	}
	return Ref{registry: "localhost", path: strings.TrimPrefix(r.path, "library/"), tag: r.tag, digest: r.digest}, true
}

// At returns the reference in the same repository pinned to digest, without a tag, for
// Podman to pull.
func (r Ref) At(digest string) string { return r.Name() + "@" + digest }

// String returns the normalized reference: the name, then :tag and @digest if present.
func (r Ref) String() string {
	s := r.Name()
	if r.tag != "" {
		s += ":" + r.tag
	}
	if r.digest != "" {
		s += "@" + r.digest
	}
	return s
}

// named returns the reference as the type of containers/image, which takes no tag beside a digest.
func (r Ref) named() (reference.Named, error) {
	if r.Pinned() {
		return reference.ParseNormalizedNamed(r.At(r.digest))
	}
	return reference.ParseNormalizedNamed(r.String())
}
