// Package images finds the digest and the platforms of an image reference by asking
// its registry. It uses the user's credentials, registries.conf and certificates like
// Podman, through containers/image, and never pulls an image. internal/engine asks it
// before a pull; internal/cli asks it for image updates.
//
// A Resolver is safe for concurrent use. If a registry asks a client to wait
// (Retry-After), the Resolver waits up to one minute in total; it does not retry
// otherwise. The class of an error and its method Temporary tell the caller whether a
// retry makes sense.
//
// Errors never contain credentials, and nothing is cached between calls.
package images
