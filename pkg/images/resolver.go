package images

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	"go.podman.io/image/v5/docker"
	"go.podman.io/image/v5/manifest"
	"go.podman.io/image/v5/types"

	"github.com/podtask/podtask/pkg/images/flight"
)

// Resolution is the result of resolving a reference at the registry.
type Resolution struct {
	// Reference is the normalized reference, with :tag and @digest as written.
	Reference string
	// Canonical is name@digest, the reference to pull; empty if Digest is empty.
	Canonical string
	// Digest is the digest of the index if the image supports several platforms, so that
	// the platform is chosen by the pull. Empty only if Skipped.
	Digest string
	// MediaType is the manifest's media type from the registry; empty if unknown, and for
	// a pinned reference.
	MediaType string
	// Pinned: the reference was written with a digest, so that no registry was asked.
	Pinned bool
	// Skipped: the manifest has schema 1, which has no digest (as in the ECS
	// agent); pull by tag.
	Skipped bool
	// Short: the reference named no registry and docker.io was assumed.
	Short bool
}

// Resolver resolves references. Concurrent calls for the same reference with the same
// login share one exchange with the registry. Nothing is cached afterwards.
type Resolver struct {
	sys     *types.SystemContext
	maxWait time.Duration // for a busy registry
	flights flight.Group[question, Resolution]
}

// question is the key of shared requests.
type question struct {
	ref   Ref
	login Login
}

// maxWait is the ECS agent's ManifestPullTimeout.
const maxWait = time.Minute

// New returns a Resolver.
func New(o Options) *Resolver {
	return &Resolver{sys: o.systemContext(), maxWait: maxWait}
}

// Resolve finds the digest of ref with the given login or, if that is zero, with the
// configured one. A pinned reference needs no network. The error is an *Error. When ctx
// ends, Resolve returns immediately with class Canceled or, for a deadline, Timeout, even
// if other callers still wait for the same reference.
//
// It sends one GET /v2/, a request for a token if the registry uses tokens, and one HEAD
// for the manifest, which Docker Hub does not count as a pull. It also sends a GET for
// the manifest if registries.conf configures mirrors, if the reply to HEAD has no digest,
// and for a name that does not exist.
func (r *Resolver) Resolve(ctx context.Context, ref string, login Login) (Resolution, error) {
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
		return Resolution{}, r.newError(parsed, login, err)
	}
	res, err := r.flights.Do(ctx, question{parsed, login}, func(ctx context.Context) (res Resolution, err error) {
		err = r.retryBusy(ctx, func() error { res, err = r.resolve(ctx, parsed, login); return err })
		return res, err
	})
	if err != nil {
		return Resolution{}, r.newError(parsed, login, err)
	}
	return res, nil
}

// resolve asks the registry with HEAD. That reply has no body, so a GET follows if the
// digest is missing or if the exact error is needed.
func (r *Resolver) resolve(ctx context.Context, ref Ref, given Login) (Resolution, error) {
	direct, err := r.direct(ref)
	if err != nil {
		return Resolution{}, err
	}
	if !direct {
		return r.read(ctx, ref, given)
	}
	login := given
	if login == (Login{}) {
		if login, err = r.configured(ref); err != nil {
			return Resolution{}, err
		}
	}
	d, mediaType, err := r.head(ctx, ref, login)
	switch {
	case err == nil && isSchema1(mediaType):
		return skipped(ref, mediaType), nil
	case err == nil:
		return resolved(ref, d.String(), mediaType), nil
	case !needsGet(err):
		return Resolution{}, err
	}
	res, getErr := r.read(ctx, ref, given)
	if getErr != nil && classify(getErr) == Other && statusOf(err) == http.StatusNotFound {
		// Some registries use their own error codes; the status is clear.
		return Resolution{}, err
	}
	return res, getErr
}

// errBlocked is registries.conf's blocked=true.
var errBlocked = errors.New("blocked in registries.conf")

// direct reports whether ref is first looked up at the registry it names, not at a mirror
// or another location.
func (r *Resolver) direct(ref Ref) (bool, error) {
	named, err := ref.named()
	if err != nil {
		return false, err
	}
	conf, err := findRegistry(r.sys, named.Name())
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

// needsGet reports whether a GET may help after a failed HEAD.
func needsGet(err error) bool {
	if answer, ok := errors.AsType[*refusal](err); ok {
		return !answer.ping && (answer.status == http.StatusNotFound || answer.status == http.StatusMethodNotAllowed)
	}
	return errors.Is(err, errNoDigest)
}

// open connects to the registry of ref, or to a configured mirror that answers.
func (r *Resolver) open(ctx context.Context, ref Ref, login Login) (types.ImageSource, error) {
	named, err := ref.named()
	if err != nil {
		return nil, err
	}
	image, err := docker.NewReference(named)
	if err != nil {
		return nil, err
	}
	return image.NewImageSource(ctx, r.with(login))
}

// read gets the manifest.
func (r *Resolver) read(ctx context.Context, ref Ref, login Login) (_ Resolution, err error) {
	plain, err := r.allowsPlain(ref)
	if err != nil {
		return Resolution{}, err
	}
	ctx, end := guarded(ctx, plain)
	defer func() { err = end(err) }()
	src, err := r.open(ctx, ref, login)
	if err != nil {
		return Resolution{}, err
	}
	defer src.Close() // closes idle connections, reports nothing
	blob, mediaType, err := manifestOf(ctx, src)
	if err != nil {
		return Resolution{}, err
	}
	if err := checkDigest(ref, blob); err != nil {
		return Resolution{}, err
	}
	if isSchema1(mediaType) {
		return skipped(ref, mediaType), nil
	}
	return resolved(ref, digest.FromBytes(blob).String(), mediaType), nil
}

// manifestOf returns the manifest of src and its actual media type.
func manifestOf(ctx context.Context, src types.ImageSource) (blob []byte, mediaType string, err error) {
	blob, mediaType, err = src.GetManifest(ctx, nil)
	if err != nil {
		return nil, "", err
	}
	if !slices.Contains(manifest.DefaultRequestedManifestMIMETypes, mediaType) {
		mediaType = manifest.GuessMIMEType(blob)
	}
	if mediaType == "" {
		return nil, "", errNotManifest
	}
	return blob, mediaType, nil
}

// errNotManifest is a reply with status 200 that is not a manifest, as from captive
// portals.
var errNotManifest = errors.New("the reply is not an image manifest")

func isSchema1(mediaType string) bool {
	return mediaType == manifest.DockerV2Schema1MediaType || mediaType == manifest.DockerV2Schema1SignedMediaType
}

func skipped(ref Ref, mediaType string) Resolution {
	return Resolution{Reference: ref.String(), MediaType: mediaType, Skipped: true, Short: ref.Short()}
}

func resolved(ref Ref, found, mediaType string) Resolution {
	return Resolution{
		Reference: ref.String(),
		Canonical: ref.At(found),
		Digest:    found,
		MediaType: mediaType,
		Short:     ref.Short(),
	}
}

// Options say where containers/image finds its configuration. An empty field
// means its default search (containers-auth.json(5), containers-registries.conf(5),
// containers-certs.d(5)).
type Options struct {
	// AuthFile is the one file credentials are read from, credential helpers
	// named in it included.
	AuthFile string
	// RegistriesConf replaces the system's and the user's registries.conf.
	RegistriesConf string
	// RegistriesConfDir replaces registries.conf.d.
	RegistriesConfDir string
	// CertsDir replaces the certs.d directories; it holds one directory per host:port.
	CertsDir string
	// UserAgent is sent with each request.
	UserAgent string
}

// OptionsFromEnv reads the variables Podman's command reads and containers/image
// itself does not: REGISTRY_AUTH_FILE, else DOCKER_CONFIG (a directory), and
// CONTAINERS_REGISTRIES_CONF, else its older name REGISTRIES_CONFIG_PATH.
func OptionsFromEnv(getenv func(string) string) Options {
	var o Options
	o.AuthFile = getenv("REGISTRY_AUTH_FILE")
	if dir := getenv("DOCKER_CONFIG"); o.AuthFile == "" && dir != "" {
		o.AuthFile = filepath.Join(dir, "config.json")
	}
	o.RegistriesConf = getenv("CONTAINERS_REGISTRIES_CONF")
	if o.RegistriesConf == "" {
		o.RegistriesConf = getenv("REGISTRIES_CONFIG_PATH")
	}
	return o
}

// sharedConfig is a directory in which Podman 6 also reads its configuration; containers/image does not.
const sharedConfig = "/usr/share/containers"

// withShared fills in the files of the distribution below dir where a host has none that
// containers/image reads by itself, so that a mirror or a blocked registry that is set only
// there is respected. user and system are the directories that it does read.
func (o Options) withShared(dir, user, system string) Options {
	exists := func(name string) bool {
		_, err := os.Stat(name)
		return err == nil
	}
	for _, f := range []struct {
		name  string
		value *string
	}{{"registries.conf", &o.RegistriesConf}, {"registries.conf.d", &o.RegistriesConfDir}} {
		usual := exists(filepath.Join(user, f.name)) || exists(filepath.Join(system, f.name))
		if shared := filepath.Join(dir, f.name); *f.value == "" && !usual && exists(shared) {
			*f.value = shared
		}
	}
	return o
}

// userConfig is the user's directory of containers/image.
func userConfig() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "containers")
}

func (o Options) systemContext() *types.SystemContext {
	o = o.withShared(sharedConfig, userConfig(), "/etc/containers")
	return &types.SystemContext{
		AuthFilePath:                o.AuthFile,
		SystemRegistriesConfPath:    o.RegistriesConf,
		SystemRegistriesConfDirPath: o.RegistriesConfDir,
		DockerPerHostCertDirPath:    o.CertsDir,
		DockerRegistryUserAgent:     o.UserAgent,
	}
}
