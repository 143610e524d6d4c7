// Package images finds out which digest an image reference stands for, by
// asking its registry through containers/image: with the user's credentials,
// registries.conf and certificates, and without pulling anything.
//
// A Resolver is safe for concurrent use. Callers set deadlines: the package
// sets none, and containers/image waits up to a minute at a time when a
// registry answers 429. Nothing is retried here besides; a failure says by its
// class and by Temporary whether a retry makes sense.
package images

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/containers/image/v5/docker"
	"github.com/containers/image/v5/docker/reference"
	"github.com/containers/image/v5/manifest"
	"github.com/containers/image/v5/pkg/sysregistriesv2"
	"github.com/containers/image/v5/types"
	"github.com/opencontainers/go-digest"
)

// Resolution is what a reference stood for when the registry was asked.
type Resolution struct {
	// Reference is the normalised reference, with :tag and @digest as written.
	Reference string
	// Canonical is name@digest, what is to be pulled; empty if Digest is.
	Canonical string
	// Digest is that of the index for an image of several platforms, so that
	// whoever pulls it chooses the platform. Empty only if Skipped.
	Digest string
	// MediaType is the manifest's. It is empty when the manifest was not read:
	// a HEAD request was enough, or the reference was pinned.
	MediaType string
	// Pinned: the reference was written with a digest and nobody was asked.
	Pinned bool
	// Skipped: the manifest has schema 1, which has no digest (as in the ECS
	// agent); pull by tag. Known only where the manifest was read.
	Skipped bool
	// Short: the reference named no registry and docker.io was assumed.
	Short bool
}

// Resolver resolves references. Callers that ask for the same reference at the
// same time share one conversation with the registry; nothing is remembered
// after it.
type Resolver struct {
	sys *types.SystemContext

	mu      sync.Mutex
	flights map[Ref]*flight
}

// New returns a Resolver. It reads no file yet.
func New(o Options) *Resolver {
	return &Resolver{sys: o.systemContext(), flights: make(map[Ref]*flight)}
}

// Resolve finds the digest of ref. A pinned reference needs no network. The
// error is an *Error; when ctx ends, Resolve returns at once with class
// Canceled or, for a deadline, Timeout (RateLimited if the registry was
// answering 429), whoever else still waits for the same reference.
func (r *Resolver) Resolve(ctx context.Context, ref string) (Resolution, error) {
	parsed, err := ParseRef(ref)
	if err != nil {
		return Resolution{}, err
	}
	if parsed.Pinned() {
		res := resolved(parsed, parsed.Digest(), "")
		res.Pinned = true
		return res, nil
	}
	if err := ctx.Err(); err != nil {
		return Resolution{}, r.newError(parsed, err)
	}
	return r.share(ctx, parsed)
}

// resolve asks the registry. HEAD comes first: registries do not count it as a
// pull. Its answer has no body, so a GET follows when the digest is missing and
// when the registry is to say what exactly it does not know.
func (r *Resolver) resolve(ctx context.Context, ref Ref, watch *headWatch) (Resolution, error) {
	named, err := reference.ParseNormalizedNamed(ref.String())
	if err != nil {
		return Resolution{}, err
	}
	image, err := docker.NewReference(named)
	if err != nil {
		return Resolution{}, err
	}
	direct, err := r.direct(named)
	if err != nil {
		return Resolution{}, err
	}
	if direct {
		d, err := docker.GetDigest(watch.trace(ctx), r.sys, image)
		if err == nil {
			return resolved(ref, d.String(), ""), nil
		}
		if !needsGet(err) {
			return Resolution{}, err
		}
		watch.stop()
		res, getErr := r.read(ctx, ref, image)
		if getErr != nil && classify(getErr) == Other && statusOf(err) == http.StatusNotFound {
			// Some registries have error codes of their own; the status is clear.
			return Resolution{}, err
		}
		return res, getErr
	}
	return r.read(ctx, ref, image)
}

// errBlocked is registries.conf's blocked=true.
var errBlocked = errors.New("blocked in registries.conf")

// direct reports whether named is first looked for in the place it names:
// docker.GetDigest knows neither mirrors nor other locations.
func (r *Resolver) direct(named reference.Named) (bool, error) {
	conf, err := sysregistriesv2.FindRegistry(r.sys, named.Name())
	if err != nil {
		return false, fmt.Errorf("reading registries.conf: %w", err)
	}
	if conf == nil {
		return true, nil
	}
	if conf.Blocked {
		return false, errBlocked
	}
	sources, err := conf.PullSourcesFromReference(named) // mirrors, then the location
	if err != nil {
		return false, fmt.Errorf("applying registries.conf: %w", err)
	}
	return sources[0].Reference.String() == named.String(), nil
}

// needsGet reports whether a failed HEAD is worth a GET.
func needsGet(err error) bool {
	if errors.Is(err, digest.ErrDigestInvalidFormat) || errors.Is(err, digest.ErrDigestInvalidLength) ||
		errors.Is(err, digest.ErrDigestUnsupported) {
		return true
	}
	status := statusOf(err)
	return !isPing(err) && (status == http.StatusNotFound || status == http.StatusMethodNotAllowed)
}

// read gets the manifest, from a mirror where one is configured and answers.
func (r *Resolver) read(ctx context.Context, ref Ref, image types.ImageReference) (Resolution, error) {
	src, err := image.NewImageSource(ctx, r.sys)
	if err != nil {
		return Resolution{}, err
	}
	defer src.Close() // closes idle connections, reports nothing
	blob, mediaType, err := src.GetManifest(ctx, nil)
	if err != nil {
		return Resolution{}, err
	}
	if !slices.Contains(manifest.DefaultRequestedManifestMIMETypes, mediaType) {
		mediaType = manifest.GuessMIMEType(blob)
	}
	switch mediaType {
	case "":
		return Resolution{}, errNotManifest
	case manifest.DockerV2Schema1MediaType, manifest.DockerV2Schema1SignedMediaType:
		return Resolution{Reference: ref.String(), MediaType: mediaType, Skipped: true, Short: ref.Short()}, nil
	}
	d, err := manifest.Digest(blob)
	if err != nil {
		return Resolution{}, err
	}
	return resolved(ref, d.String(), mediaType), nil
}

// errNotManifest is a 200 with something else in it, as captive portals send.
var errNotManifest = errors.New("the answer is not an image manifest")

func resolved(ref Ref, digest, mediaType string) Resolution {
	return Resolution{
		Reference: ref.String(),
		Canonical: ref.At(digest),
		Digest:    digest,
		MediaType: mediaType,
		Short:     ref.Short(),
	}
}
