package libpod

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/containers/image/v5/docker/reference"
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
	// Size is in bytes.
	Size int64
}

// PullOptions shape one pull.
type PullOptions struct {
	// AuthFile is a containers-auth.json; "" means the usual places. All of its
	// credentials go to the service over the unix socket.
	AuthFile string
	// Insecure allows plain HTTP and certificates that nobody signed. False leaves
	// it to the service's registries.conf.
	Insecure bool
	// Progress is called with each line of progress; never concurrently, and not
	// after Pull returned. Podman gives a line when a blob begins and when it ends,
	// and no bytes. nil means nobody listens.
	Progress func(line string)
}

// Image looks up a reference, or an image id, in the local store. Class NotFound
// if it is not there.
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
	if err != nil {
		return Image{}, err
	}
	return Image{ID: found.ID, Names: found.RepoTags, RepoDigests: found.RepoDigests, Size: found.Size}, nil
}

// Pull pulls ref from its registry, whatever is in the local store, and returns
// the image's id. Canceling ctx makes the service give the pull up. There is no
// limit on its duration but ctx: watch Progress for one that hangs.
//
// Classes to expect: NoImage (the registry does not have it), Temporary (it cannot
// be reached), Other (it refuses), InvalidSpec (no reference).
func (c *Client) Pull(ctx context.Context, ref string, o PullOptions) (string, error) {
	lines := &lineWriter{fn: o.Progress}
	// Without a writer the binding would write to our standard error.
	var w io.Writer = lines
	options := new(images.PullOptions).WithProgressWriter(w).WithPolicy("always")
	if o.AuthFile != "" {
		options = options.WithAuthfile(o.AuthFile)
	}
	if o.Insecure {
		options = options.WithSkipTLSVerify(true)
	}
	var ids []string
	err := c.ask(ctx, "pull", ref, func(ctx context.Context) (err error) {
		ids, err = images.Pull(ctx, ref, options)
		if err == nil && ctx.Err() != nil {
			// A canceled pull ends without images and without an error.
			err = ctx.Err()
		}
		return err
	})
	lines.flush()
	if err != nil {
		return "", withoutRef(err, ref)
	}
	if len(ids) == 0 {
		return "", &Error{Op: "pull", Object: ref, Class: Temporary, Cause: "Podman ended the pull without an image and without an error"}
	}
	return ids[len(ids)-1], nil
}

// withoutRef takes out of a pull's error what it says of the reference: it is the
// error's object already, and with a digest it is long.
func withoutRef(err error, ref string) error {
	var e *Error
	if errors.As(err, &e) {
		e.Cause = strings.ReplaceAll(e.Cause, "initializing source docker://"+ref+": ", "")
	}
	return err
}

// Tag gives the image a further name, name:tag, taking it from the image that had
// it before, as podman tag and podman pull do. Doing it twice is success.
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

// lineWriter calls fn for each line written to it.
type lineWriter struct {
	fn      func(string)
	pending strings.Builder
}

func (w *lineWriter) Write(p []byte) (int, error) {
	if w.fn == nil {
		return len(p), nil
	}
	for text := string(p); text != ""; {
		line, rest, ended := strings.Cut(text, "\n")
		w.pending.WriteString(line)
		if ended || w.pending.Len() > maxLine {
			w.flush()
		}
		text = rest
	}
	return len(p), nil
}

func (w *lineWriter) flush() {
	line := strings.TrimRight(w.pending.String(), "\r ")
	w.pending.Reset()
	if line != "" && w.fn != nil {
		w.fn(line)
	}
}
