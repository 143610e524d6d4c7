package libpod

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/blang/semver/v4"
	"github.com/containers/image/v5/types"
	"github.com/containers/podman/v5/pkg/auth"
	"github.com/containers/podman/v5/pkg/bindings"
	"github.com/containers/podman/v5/pkg/errorhandling"
)

// bytesReported is the first Podman that reports a pull in bytes (compatMode);
// older ones take no notice of the question and report in words.
var bytesReported = semver.MustParse("4.8.0")

// Login is shown to the registry of one pull.
type Login struct {
	Username, Password string
	// IdentityToken is a refresh token instead of both.
	IdentityToken string
}

// Format implements fmt.Formatter: no verb shows the content.
func (Login) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "[login]") }

// PullOptions shape one pull.
type PullOptions struct {
	// Login is used for this pull; it goes to the service in a header and is kept
	// by nobody. It is the registry's: mirrors do not see it.
	Login Login
	// AuthFile is a containers-auth.json(5); "" means the usual places. Without a
	// Login all of its credentials go to the service over the unix socket, which
	// keeps them in a file of its own during the pull.
	AuthFile string
	// Insecure allows plain HTTP and certificates that nobody signed. False leaves
	// it to the service's registries.conf.
	Insecure bool
	// OS and Arch choose another platform than the host's; empty for the host's.
	OS, Arch string
	// FirstByte is how long nothing at all may come: before the first layer, between
	// two, and while the last is unpacked. Idle is how long no bytes of a layer may
	// come that has begun. Servers before 4.8 report no bytes; there the temporary
	// files of the user's Podman are watched, so that the pull that goes on longest
	// counts for all at the same time. 0 means no limit.
	FirstByte, Idle time.Duration
	// Progress is called with each step; never concurrently, and not after Pull
	// returned. nil means nobody listens.
	Progress func(Progress)
}

// Progress is a step of a pull.
type Progress struct {
	// Layer is the first 12 digits of a blob's digest; empty for a Line about none.
	Layer string
	// Current and Total are bytes of the layer; Total 0 or less is unknown.
	Current, Total int64
	// Done: the layer is complete, or was there already (Existed).
	Done, Existed bool
	// Line is what a server without byte progress says; empty otherwise.
	Line string
}

// Pull pulls ref from its registry, whatever is in the local store, and returns
// the image's id. Canceling ctx makes the service give the pull up.
//
// Classes to expect: NoImage (the registry does not have it), Temporary (it cannot
// be reached, or went silent), Unauthorized, Denied, NoSpace, Untrusted (the signature
// policy refuses it), WrongContent, InvalidSpec (no reference).
func (c *Client) Pull(ctx context.Context, ref string, o PullOptions) (string, error) {
	watched, watch := newWatch(ctx, o.FirstByte, o.Idle)
	defer watch.stop()
	if c.version.LT(bytesReported) {
		watch.follow(watched, func() layerView { return viewLayers("/proc") })
	}
	call := c.call(watched)
	id, err := c.pull(call, ref, o, watch)
	var silent silence
	switch {
	case errors.As(context.Cause(watched), &silent) && ctx.Err() == nil:
		return "", &Error{Op: "pull", Object: ref, Class: Temporary, Cause: silent.Error()}
	case err == nil && ctx.Err() != nil:
		err = ctx.Err() // a canceled pull ends without images and without an error
	case err == nil && id == "":
		err = &Error{Class: Temporary, Cause: "Podman ended the pull without an image and without an error"}
	}
	if err != nil {
		return "", inPullsWords(fail(call, "pull", ref, err), ref)
	}
	return id, nil
}

// pull is the binding's Pull with progress in bytes where the server has it.
func (c *Client) pull(ctx context.Context, ref string, o PullOptions, w *watch) (string, error) {
	conn, err := bindings.GetClient(ctx)
	if err != nil {
		return "", err
	}
	header, err := o.header()
	if err != nil {
		return "", err
	}
	params := url.Values{"reference": {ref}, "policy": {"always"}}
	if c.version.GTE(bytesReported) {
		params.Set("compatMode", "true")
	}
	if o.Insecure {
		params.Set("tlsVerify", "false")
	}
	for name, value := range map[string]string{"OS": o.OS, "Arch": o.Arch} {
		if value != "" {
			params.Set(name, value)
		}
	}
	res, err := conn.DoRequest(ctx, nil, http.MethodPost, "/images/pull", params, header)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	if !res.IsSuccess() {
		return "", res.Process(nil)
	}
	s := pullStream{progress: o.Progress, watch: w, ended: map[string]bool{}}
	if err := s.read(res.Body); err != nil {
		return "", err
	}
	if s.id != "" || s.last == "" {
		return s.id, nil
	}
	// In bytes mode the last message has the beginning of the id only, after words
	// that differ between versions.
	m, err := c.Image(ctx, ref)
	if err != nil {
		return "", err
	}
	if !strings.HasPrefix(m.ID, s.last) {
		return "", nil // the stream broke off, and what is there was there before
	}
	return m.ID, nil
}

// header is what lets Podman into the registry.
func (o PullOptions) header() (http.Header, error) {
	if o.Login == (Login{}) {
		header, err := auth.MakeXRegistryAuthHeader(&types.SystemContext{AuthFilePath: o.AuthFile}, "", "")
		if err != nil {
			return nil, &Error{Class: Unauthorized, Cause: "the configured credentials cannot be read: " + err.Error()}
		}
		return header, nil
	}
	login := map[string]string{"username": o.Login.Username, "password": o.Login.Password}
	if o.Login.IdentityToken != "" { // 5.x refuses it beside a name, which it does without
		login = map[string]string{"identitytoken": o.Login.IdentityToken}
	}
	text, err := json.Marshal(login)
	if err != nil {
		return nil, err
	}
	defer clear(text)
	return http.Header{"X-Registry-Auth": {base64.URLEncoding.EncodeToString(text)}}, nil
}

// pullMessage is a message of either kind of stream.
type pullMessage struct {
	Stream string   `json:"stream"`
	Images []string `json:"images"`
	Error  string   `json:"error"`

	Status string `json:"status"`
	ID     string `json:"id"`
	Detail struct {
		Current int64 `json:"current"`
		Total   int64 `json:"total"`
	} `json:"progressDetail"`
	// Message is all there is of an error that came before anything else.
	Message string `json:"message"`
}

// pullStream follows one pull.
type pullStream struct {
	progress func(Progress)
	watch    *watch
	pending  strings.Builder // a line that has not ended
	ended    map[string]bool // layers, by whether they are complete
	id       string          // the image's
	last     string          // the id of the last message in bytes mode
}

// read follows the stream to its end. Errors arrive in it, behind a 200.
func (s *pullStream) read(r io.Reader) error {
	var errs []error
	for dec := json.NewDecoder(r); ; {
		var m pullMessage
		err := dec.Decode(&m)
		if errors.Is(err, io.EOF) {
			s.line("\n")
			return errorhandling.JoinErrors(errs)
		}
		if err != nil {
			return err
		}
		switch {
		case m.Error != "":
			errs = append(errs, errors.New(m.Error))
		case m.Message != "":
			errs = append(errs, errors.New(m.Message))
		case len(m.Images) > 0:
			s.id = m.Images[len(m.Images)-1]
		case m.Stream != "":
			s.line(m.Stream)
		case m.Status != "":
			s.layer(m)
		}
		s.watch.heard(s.busy(), m.Status != "")
	}
}

// busy reports whether a layer has begun and not ended.
func (s *pullStream) busy() bool {
	for _, ended := range s.ended {
		if !ended {
			return true
		}
	}
	return false
}

// layer takes a message of a server that reports bytes. The last one, "Pull
// complete" or "Download complete", is about the image and no layer.
func (s *pullStream) layer(m pullMessage) {
	s.last = m.ID
	p := Progress{Layer: m.ID, Current: m.Detail.Current, Total: m.Detail.Total}
	_, known := s.ended[m.ID]
	switch m.Status {
	case "Pull complete", "Download complete":
		if !known {
			return
		}
		p.Done = true
	case "Already exists":
		p.Done, p.Existed = true, true
	}
	s.ended[m.ID] = p.Done
	if s.progress != nil {
		s.progress(p)
	}
}

// line takes text of a server that reports in words.
func (s *pullStream) line(text string) {
	for text != "" {
		part, rest, ended := strings.Cut(text, "\n")
		s.pending.WriteString(part)
		if ended || s.pending.Len() > maxLine {
			line := strings.TrimRight(s.pending.String(), "\r ")
			s.pending.Reset()
			if line != "" && s.progress != nil {
				s.progress(Progress{Line: line})
			}
		}
		text = rest
	}
}

// inPullsWords takes out of a pull's error what it says of the reference, which is
// the error's object already and with a digest is long, and names the policy.
func inPullsWords(err error, ref string) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	e.Cause = strings.ReplaceAll(e.Cause, "initializing source docker://"+ref+": ", "")
	if e.Class == Untrusted && !strings.Contains(e.Cause, "policy.json") {
		e.Cause = strings.TrimSuffix(e.Cause, ".") + " (" + policyFile() + ")"
	}
	return err
}

// policyFile is the signature policy that Podman goes by (containers-policy.json(5)).
func policyFile() string {
	if home, err := os.UserHomeDir(); err == nil {
		own := filepath.Join(home, ".config/containers/policy.json")
		if _, err := os.Stat(own); err == nil {
			return own
		}
	}
	return "/etc/containers/policy.json"
}
