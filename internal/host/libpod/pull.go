package libpod

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/blang/semver/v4"
	"github.com/containers/podman/v5/pkg/auth"
	"github.com/containers/podman/v5/pkg/bindings"
	"github.com/containers/podman/v5/pkg/errorhandling"
	"go.podman.io/image/v5/types"

	"github.com/podtask/podtask/internal/lazy"
)

// bytesReported is the first Podman version that reports the progress of a pull in bytes
// (compatMode); older ones ignore the option and report text.
var bytesReported = semver.MustParse("4.8.0")

// Login holds the credentials for one pull.
type Login struct {
	Username, Password string
	// IdentityToken is a refresh token instead of both.
	IdentityToken string
}

// Format implements fmt.Formatter: no verb shows the content.
func (Login) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "[login]") }

// PullOptions shape one pull.
type PullOptions struct {
	// Login is used for this pull only. It is sent to the service in a header and never
	// stored. Podman sends it to the registry, not to mirrors.
	Login Login
	// AuthFile is a containers-auth.json(5); "" means the default files. Without a Login
	// all of its credentials are sent to the service over the unix socket, which stores
	// them in a temporary file during the pull.
	AuthFile string
	// Insecure allows plain HTTP and unverified certificates. False leaves it to the
	// service's registries.conf.
	Insecure bool
	// OS and Arch select a platform; empty means the host's.
	OS, Arch string
	// FirstByte limits the time without any progress before the first layer, between
	// layers, and while the last layer is unpacked. Idle limits the time without progress
	// within a layer. Servers before 4.8 do not report bytes; for those, the temporary
	// files of the user's Podman are watched, so that the progress of any pull counts for
	// all concurrent pulls. 0 means no limit.
	FirstByte, Idle time.Duration
	// Progress is called for each step, never concurrently and not after Pull has
	// returned. It may be nil.
	Progress func(Progress)
}

// Progress is a step of a pull.
type Progress struct {
	// Layer is the first 12 digits of a blob's digest; empty if Line is about no layer.
	Layer string
	// Current and Total are bytes of the layer; Total is unknown if it is 0 or less.
	Current, Total int64
	// Done: the layer is complete, or existed already (Existed).
	Done, Existed bool
	// Line is the text from a server without byte progress; empty otherwise.
	Line string
}

// Pull pulls ref from its registry, even if it is in the local store, and returns the
// image's ID. Canceling ctx makes the service abort the pull.
//
// Classes to expect: NoImage (the registry does not have it), Temporary (the registry
// cannot be reached, or stopped sending), Unauthorized, Denied, NoSpace, Untrusted (the
// signature policy refuses it), WrongContent, InvalidSpec (not a reference).
func (c *Client) Pull(ctx context.Context, ref string, o PullOptions) (string, error) {
	ctx, end := c.pulse.watch(ctx)
	id, err := c.pullWatched(ctx, ref, o)
	return id, end(err)
}

func (c *Client) pullWatched(ctx context.Context, ref string, o PullOptions) (string, error) {
	watched, watch := newWatch(ctx, o.FirstByte, o.Idle)
	defer watch.stop()
	if c.version.LT(bytesReported) {
		watch.follow(watched, func() layerView { return viewLayers("/proc") })
	}
	call := c.call(watched)
	id, err := c.pull(call, ref, o, watch)
	var stalled stallError
	switch {
	case errors.As(context.Cause(watched), &stalled) && ctx.Err() == nil:
		return "", &Error{Op: "pull", Object: ref, Class: Temporary, Cause: stalled.Error()}
	case err == nil && ctx.Err() != nil:
		err = ctx.Err() // a canceled pull ends without images and without an error
	case err == nil && id == "":
		err = &Error{Class: Temporary, Cause: ConnectionBroke + " (Podman ended the pull without an image and without an error)"}
	}
	if err != nil {
		return "", pullError(fail(call, "pull", ref, err), ref, c.version)
	}
	return id, nil
}

// pull is the binding's Pull, with progress in bytes if the server supports it.
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
	// In bytes mode the last message contains only the beginning of the ID, after text
	// that differs between versions.
	m, err := c.Image(ctx, ref)
	if err != nil {
		return "", err
	}
	if !strings.HasPrefix(m.ID, s.last) {
		return "", nil // the stream broke off, and the image is an older one
	}
	return m.ID, nil
}

// header returns the header with the credentials for the registry.
func (o PullOptions) header() (http.Header, error) {
	if o.Login == (Login{}) {
		header, err := auth.MakeXRegistryAuthHeader(&types.SystemContext{AuthFilePath: o.AuthFile}, "", "")
		if err != nil {
			return nil, &Error{Class: Unauthorized, Cause: "the configured credentials cannot be read: " + err.Error()}
		}
		return header, nil
	}
	login := map[string]string{"username": o.Login.Username, "password": o.Login.Password}
	if o.Login.IdentityToken != "" { // 5.x rejects it together with a user name, which it does not need
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
	// ErrorDetail is the only member with the error that Podman 6 sends after the first progress.
	ErrorDetail struct {
		Message string `json:"message"`
	} `json:"errorDetail"`

	Status string `json:"status"`
	ID     string `json:"id"`
	Detail struct {
		Current int64 `json:"current"`
		Total   int64 `json:"total"`
	} `json:"progressDetail"`
	// Message is the only member of an error that precedes all other messages.
	Message string `json:"message"`
}

// pullStream follows one pull.
type pullStream struct {
	progress func(Progress)
	watch    *watch
	pending  strings.Builder // an incomplete line
	ended    map[string]bool // layers, by whether they are complete
	id       string          // the image's
	last     string          // the id of the last message in bytes mode
}

// read reads the stream to its end. Errors arrive in it, after status 200.
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
		case m.ErrorDetail.Message != "":
			errs = append(errs, errors.New(m.ErrorDetail.Message))
		case m.Message != "":
			errs = append(errs, errors.New(m.Message))
		case len(m.Images) > 0:
			s.id = m.Images[len(m.Images)-1]
		case m.Stream != "":
			s.line(m.Stream)
		case m.Status != "":
			s.layer(m)
			if d := m.Detail; d.Total > 0 && d.Current > d.Total+excess {
				return &Error{Class: WrongContent, Cause: fmt.Sprintf("layer %s has more than the %d bytes that its manifest says", m.ID, d.Total)}
			}
		}
		s.watch.addMessage(s.busy(), m.Status != "")
	}
}

// excess is the number of bytes by which a layer may exceed its manifest before the pull is aborted. Podman compares the
// size only after it has stored everything, and a registry may send until the disk is full.
const excess = 1 << 20

// busy reports whether a layer is being downloaded.
func (s *pullStream) busy() bool {
	for _, ended := range s.ended {
		if !ended {
			return true
		}
	}
	return false
}

// layer handles a message of a server that reports bytes. The last message, "Pull
// complete" or "Download complete", is about the image, not a layer.
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

// line handles text of a server that does not report bytes.
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

// pullError removes the reference from the error of a pull, because the error's Object
// has it already, and names the policy file.
func pullError(err error, ref string, v semver.Version) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	e.Cause = strings.ReplaceAll(e.Cause, "initializing source docker://"+ref+": ", "")
	if e.Class == Untrusted && !strings.Contains(e.Cause, "policy.json") {
		e.Cause = strings.TrimSuffix(e.Cause, ".") + " (" + policyFile(v, os.Getenv) + ")"
	}
	if m := withoutTLS.FindStringSubmatch(e.Cause); m != nil {
		e.Cause += fmt.Sprintf("; if that is intended, set insecure = true in registries.conf, in the [[registry]] with location = %q "+
			"(images and credentials may then travel unencrypted, and no certificate is checked), and end the process podman system service, which reads the file when it starts", m[1])
	}
	return err
}

// withoutTLS matches Podman's error about a registry that answers in plain HTTP, with its host.
var withoutTLS = lazy.MustCompile(`https://([^/"\s]+)/.*: server gave HTTP response to HTTPS client`)

// sharedConfigSince is the first Podman version that also reads /usr/share/containers, and
// CONTAINERS_POLICY_JSON.
var sharedConfigSince = semver.MustParse("6.0.0")

// policyFile returns the signature policy that Podman uses (containers-policy.json(5)).
func policyFile(v semver.Version, getenv func(string) string) string {
	if file := getenv("CONTAINERS_POLICY_JSON"); file != "" && v.GE(sharedConfigSince) {
		return file
	}
	if home, err := os.UserHomeDir(); err == nil {
		own := filepath.Join(home, ".config/containers/policy.json")
		if _, err := os.Stat(own); err == nil {
			return own
		}
	}
	const system, shared = "/etc/containers/policy.json", "/usr/share/containers/policy.json"
	if _, err := os.Stat(system); err != nil && v.GE(sharedConfigSince) {
		return shared
	}
	return system
}

// stallError is the reason for aborting a pull that makes no progress.
type stallError struct {
	midLayer bool
	limit    time.Duration
}

func (e stallError) Error() string {
	if e.midLayer {
		return fmt.Sprintf("a layer made no progress for %v", e.limit)
	}
	return fmt.Sprintf("no data arrived for %v; check that the registry is reachable from this host", e.limit)
}

// watch aborts a pull that makes no progress for too long.
type watch struct {
	cancel          context.CancelCauseFunc
	firstByte, idle time.Duration
	messages        atomic.Int64 // received so far
	follower        sync.WaitGroup

	mu    sync.Mutex
	timer *time.Timer
	abort stallError // the reason if the timer fires
}

// newWatch returns a context whose cause is a stallError if the watch aborts the pull.
func newWatch(ctx context.Context, firstByte, idle time.Duration) (context.Context, *watch) {
	watched, cancel := context.WithCancelCause(ctx)
	w := &watch{cancel: cancel, firstByte: firstByte, idle: idle, abort: stallError{limit: firstByte}}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(cmp.Or(firstByte, time.Duration(math.MaxInt64)), w.end)
	return watched, w
}

// end aborts the pull.
func (w *watch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cancel(w.abort)
}

// addMessage records a message and whether a layer is being downloaded. A server without byte
// progress sends text only when a layer begins and ends; between such messages, follow watches
// the pull.
func (w *watch) addMessage(busy, bytes bool) {
	w.messages.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
	w.abort = stallError{busy, w.firstByte}
	if busy {
		w.abort.limit = w.idle
	}
	if bytes && w.abort.limit > 0 {
		w.timer.Reset(w.abort.limit)
	}
}

// follow watches the open files of a pull after its first message. It does not abort a pull
// whose files are not visible.
func (w *watch) follow(ctx context.Context, snapshot func() layerView) {
	shortest := min(cmp.Or(w.idle, math.MaxInt64), cmp.Or(w.firstByte, math.MaxInt64))
	if shortest == math.MaxInt64 {
		return
	}
	w.follower.Go(func() {
		tick := time.NewTicker(min(max(shortest/4, 10*time.Millisecond), 5*time.Second))
		defer tick.Stop()
		var last layerView
		var before int64
		moved := time.Now()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			messages, view := w.messages.Load(), snapshot()
			if messages == 0 || messages != before || view != last || !view.visible {
				before, last, moved = messages, view, time.Now()
				continue
			}
			stalled := stallError{view.writing, w.firstByte}
			if view.writing {
				stalled.limit = w.idle
			}
			if stalled.limit > 0 && time.Since(moved) >= stalled.limit {
				w.cancel(stalled)
				return
			}
		}
	})
}

// stop ends the watch.
func (w *watch) stop() {
	w.mu.Lock()
	w.timer.Stop()
	w.mu.Unlock()
	w.cancel(context.Canceled)
	w.follower.Wait()
}

// layerView is a snapshot of the layers that the user's Podman processes on this host are
// downloading, for any pull. Two equal snapshots mean no progress.
type layerView struct {
	// visible: there is such a process, and its open files are readable.
	visible bool
	// writing: a layer is being written.
	writing bool
	// files lists the open files with their current offsets.
	files string
}

// layerFile matches the temporary file of a layer (containers/image, the destination
// containers-storage: blobs are written there, and read again to be unpacked).
var layerFile = lazy.MustCompile(`/(container_images_)?storage\d+/\d+$`)

// viewLayers takes a snapshot from proc, which is /proc.
func viewLayers(proc string) layerView {
	var v layerView
	var files strings.Builder
	processes, _ := filepath.Glob(filepath.Join(proc, "[0-9]*/comm"))
	for _, comm := range processes {
		name, err := os.ReadFile(comm)
		if err != nil || string(name) != "podman\n" {
			continue
		}
		dir := filepath.Dir(comm)
		open, err := os.ReadDir(filepath.Join(dir, "fd"))
		if err != nil {
			continue // another user's process, or it has exited
		}
		v.visible = true
		for _, fd := range open {
			path, err := os.Readlink(filepath.Join(dir, "fd", fd.Name()))
			if err != nil || !layerFile.MatchString(path) {
				continue
			}
			place, flags := fileState(filepath.Join(dir, "fdinfo", fd.Name()))
			v.writing = v.writing || flags&syscall.O_ACCMODE != syscall.O_RDONLY
			fmt.Fprintln(&files, path, place)
		}
	}
	v.files = files.String()
	return v
}

// fileState reads proc_pid_fdinfo(5).
func fileState(fdinfo string) (place string, flags int) {
	text, err := os.ReadFile(fdinfo)
	if err != nil {
		return "closed", 0
	}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); key {
		case "pos":
			place = value
		case "flags":
			n, _ := strconv.ParseInt(value, 8, 0)
			flags = int(n)
		}
	}
	return place, flags
}
