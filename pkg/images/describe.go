package images

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"go.podman.io/image/v5/image"
	"go.podman.io/image/v5/manifest"
	"go.podman.io/image/v5/types"
)

// Platform is the platform of an image, with the names used in image indexes.
type Platform struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
	Variant      string `json:"variant,omitempty"`
}

// Here returns the platform of this host.
func Here() Platform { return Platform{OS: "linux", Architecture: runtime.GOARCH} }

// ParsePlatform reads OS/ARCHITECTURE or OS/ARCHITECTURE/VARIANT.
func ParsePlatform(text string) (Platform, error) {
	parts := strings.Split(text, "/")
	if len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") {
		return Platform{}, fmt.Errorf("%q is not a platform: write OS/ARCHITECTURE, such as linux/arm64", text)
	}
	p := Platform{OS: parts[0], Architecture: parts[1]}
	if len(parts) == 3 {
		p.Variant = parts[2]
	}
	return p, nil
}

// String is OS/ARCHITECTURE, with /VARIANT if there is one.
func (p Platform) String() string {
	s := p.OS + "/" + p.Architecture
	if p.Variant != "" {
		s += "/" + p.Variant
	}
	return s
}

// Variant is one of the images of a reference.
type Variant struct {
	Platform
	// Digest is the digest of the platform's manifest.
	Digest string `json:"digest"`
}

// Description is the content of a reference's manifest.
type Description struct {
	Resolution
	// Variants lists the images of an index in its order, without other entries
	// (attestations), or the single image. Empty if Skipped.
	Variants []Variant
	// Chosen is the variant for the requested platform; nil if there is none.
	Chosen *Variant
}

// Describe reads the manifest of ref and chooses the image for a platform like Podman. It
// sends a GET for the manifest, which Docker Hub counts as a pull, and for a single image
// a GET for its configuration. Content that does not match its digest is rejected. The
// error is an *Error.
func (r *Resolver) Describe(ctx context.Context, ref string, login Login, want Platform) (Description, error) {
	parsed, err := ParseRef(ref)
	if err != nil {
		return Description{}, err
	}
	var d Description
	err = r.retryBusy(ctx, func() error { d, err = r.describe(ctx, parsed, login, want); return err })
	if err != nil {
		return Description{}, r.newError(parsed, login, err)
	}
	return d, nil
}

func (r *Resolver) describe(ctx context.Context, ref Ref, login Login, want Platform) (_ Description, err error) {
	plain, err := r.allowsPlain(ref)
	if err != nil {
		return Description{}, err
	}
	ctx, end := guarded(ctx, plain)
	defer func() { err = end(err) }()
	src, err := r.open(ctx, ref, login)
	if err != nil {
		return Description{}, err
	}
	defer src.Close() // closes idle connections, reports nothing
	blob, mediaType, err := manifestOf(ctx, src)
	if err != nil {
		return Description{}, err
	}
	if err := checkDigest(ref, blob); err != nil {
		return Description{}, err
	}
	if isSchema1(mediaType) {
		return Description{Resolution: skipped(ref, mediaType)}, nil
	}
	found := cmp.Or(digest.Digest(ref.Digest()), digest.FromBytes(blob))
	d := Description{Resolution: resolved(ref, found.String(), mediaType)}
	d.Pinned = ref.Pinned()
	sys := *r.sys
	sys.OSChoice, sys.ArchitectureChoice, sys.VariantChoice = want.OS, want.Architecture, want.Variant
	if manifest.MIMETypeIsMultiImage(mediaType) {
		err = d.readIndex(&sys, blob, mediaType)
	} else {
		err = d.readImage(ctx, &sys, src, want)
	}
	return d, err
}

// ErrWrongContent is the cause of an *Error if a registry or a mirror sent content that does not have the
// requested digest.
var ErrWrongContent = errors.New("the manifest does not match the requested digest")

// checkDigest compares the digest in ref, if it has one, with the bytes of its manifest, in every format.
// The digest functions of containers/image are not used: for a signed manifest of schema 1 they leave out the
// signature, and what a signature is, is decided by the sender (CVE-2026-111361).
func checkDigest(ref Ref, blob []byte) error {
	if !ref.Pinned() {
		return nil
	}
	want := digest.Digest(ref.Digest())
	if err := want.Validate(); err != nil {
		return err
	}
	if found := want.Algorithm().FromBytes(blob); found != want {
		return fmt.Errorf("%w: it has the digest %s", ErrWrongContent, found)
	}
	return nil
}

func (d *Description) readIndex(sys *types.SystemContext, blob []byte, mediaType string) error {
	list, err := manifest.ListFromBlob(blob, mediaType)
	if err != nil {
		return err
	}
	for _, instance := range list.Instances() {
		update, err := list.Instance(instance)
		if err != nil {
			return err
		}
		p := update.ReadOnly.Platform
		if p == nil || p.OS == "unknown" || p.OS == "" {
			continue // an attestation, or an entry without a platform
		}
		d.Variants = append(d.Variants, Variant{Platform{p.OS, p.Architecture, p.Variant}, instance.String()})
	}
	chosen, err := list.ChooseInstance(sys)
	if err != nil {
		return nil //nolint:nilerr // none fits; Chosen says so
	}
	i := slices.IndexFunc(d.Variants, func(v Variant) bool { return v.Digest == chosen.String() })
	if i >= 0 {
		d.Chosen = &d.Variants[i]
	}
	return nil
}

func (d *Description) readImage(ctx context.Context, sys *types.SystemContext, src types.ImageSource, want Platform) error {
	img, err := image.FromUnparsedImage(ctx, sys, image.UnparsedInstance(src, nil))
	if err != nil {
		return err
	}
	config, err := img.OCIConfig(ctx)
	if err != nil {
		return err
	}
	v := Variant{Platform{config.OS, config.Architecture, config.Variant}, d.Digest}
	d.Variants = []Variant{v}
	// An image without a platform is accepted. The variant is not compared, because its
	// spelling differs more often than its meaning.
	if cmp.Or(v.OS, want.OS) == want.OS && cmp.Or(v.Architecture, want.Architecture) == want.Architecture {
		d.Chosen = &d.Variants[0]
	}
	return nil
}

// Check returns an *Error of class WrongPlatform if there is no image for the platform
// requested from Describe.
func (d Description) Check(want Platform) error {
	if d.Chosen != nil || d.Skipped || len(d.Variants) == 0 {
		return nil
	}
	var names []string
	for _, v := range d.Variants {
		if name := v.Platform.String(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return &Error{
		Class: WrongPlatform, Ref: d.Reference,
		Message: "it supports " + strings.Join(names, ", ") + ", and " + want.String() + " is required",
		Hint:    "use an image for " + want.String() + ", or run the task on a host with that platform",
	}
}
