package libpod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/errorhandling"
)

// Class says what kind of failure an Error is. A Class is itself an error, so
// that errors.Is(err, libpod.NotFound) asks for it.
type Class int

// The classes. Other is the zero value.
const (
	// Other is a failure of no class below. Repeating it is not known to help.
	Other Class = iota
	// NotFound: no such container, pod or image.
	NotFound
	// Conflict: the name belongs to an object that is not ours, or to ours with
	// another specification.
	Conflict
	// InvalidSpec: Podman refuses what was asked; asking again is pointless.
	InvalidSpec
	// Temporary: the same call may succeed later (service restarting, store
	// locked, registry unreachable).
	Temporary
	// PortInUse: a published port of the host is taken.
	PortInUse
	// CommandNotFound: the container's command does not exist in its image (a
	// shell would exit 127).
	CommandNotFound
	// CommandNotExecutable: the container's command exists and cannot be executed
	// (a shell would exit 126).
	CommandNotExecutable
	// NoImage: the image of a container is not in the local store, or a registry
	// says that it does not exist.
	NoImage
	// NotRunning: the call needs a running container.
	NotRunning
	// Canceled: the caller's context was canceled.
	Canceled
	// Timeout: the caller's deadline passed, or Podman gave up waiting.
	Timeout
	// Unavailable: no Podman service answers and none could be started.
	Unavailable
	// Unauthorized: a registry wants credentials, or refuses those it got (401).
	Unauthorized
	// Denied: a registry does not allow this with these credentials (403).
	Denied
	// NoSpace: a disk is full.
	NoSpace
	// WrongPlatform: the image is not for the platform wanted.
	WrongPlatform
	// Untrusted: the signature policy does not accept an image, or cannot be read.
	Untrusted
	// WrongContent: what a registry or a mirror sent is not what its digest says.
	WrongContent

	numClass
)

var classNames = [numClass]string{
	Other: "other", NotFound: "not found", Conflict: "conflict", InvalidSpec: "invalid specification",
	Temporary: "temporary", PortInUse: "port in use", CommandNotFound: "command not found",
	CommandNotExecutable: "command not executable", NoImage: "no image", NotRunning: "not running",
	Canceled: "canceled", Timeout: "timeout", Unavailable: "unavailable",
	Unauthorized: "unauthorized", Denied: "denied", NoSpace: "no space", WrongPlatform: "wrong platform", Untrusted: "untrusted",
	WrongContent: "wrong content",
}

// String returns the class in words.
func (c Class) String() string {
	if c < 0 || c >= numClass {
		return fmt.Sprintf("class(%d)", int(c))
	}
	return classNames[c]
}

// Error makes a Class usable as the target of errors.Is.
func (c Class) Error() string { return c.String() }

// Error is the only error type this package returns.
type Error struct {
	// Op is what was attempted, for example "create container".
	Op string
	// Object is the name, reference or path it was attempted on.
	Object string
	Class  Class
	// Status is the HTTP status of Podman's reply; 0 when there was none.
	Status int
	// Cause is one line of at most maxCause bytes, from Podman or from here. It
	// holds no request and no undecoded reply: those may contain secrets.
	Cause string
}

// advice is what to do about a class, where Podman's words leave that open.
var advice = [numClass]string{
	PortInUse:            "choose another host port, or none to get a free one, or stop what holds it",
	CommandNotFound:      "compare entryPoint and command with what the image holds",
	CommandNotExecutable: "check the file's mode, its interpreter and the image's architecture",
	Unauthorized:         "log in with podman login, or give the task repositoryCredentials",
	Denied:               "check the name, and that this login may read it",
	NoSpace:              "free some space: podtask image prune removes what podtask pulled and nobody uses",
	WrongPlatform:        "use an image that has this platform",
	Untrusted:            "use an image that the policy accepts, or change the policy (podman image trust show lists it)",
	WrongContent:         "the registry, or a mirror of it, is broken or lies: ask who runs it",
}

// Error returns "op object: cause", with advice where there is some.
func (e *Error) Error() string {
	text := strings.TrimSpace(e.Op+" "+e.Object) + ": " + e.Cause // where nobody knows of an object it has no name
	if e.Class > 0 && e.Class < numClass && advice[e.Class] != "" {
		text += "; " + advice[e.Class]
	}
	return text
}

// Is reports whether target is the error's class.
func (e *Error) Is(target error) bool {
	c, ok := target.(Class)
	return ok && c == e.Class
}

// Temporary reports whether repeating the same call later may succeed.
func (e *Error) Temporary() bool { return e.Class == Temporary || e.Class == Unavailable }

// maxCause bounds Error.Cause; an OCI runtime may report a whole page.
const maxCause = 1024

// statusNoReply marks a reply that the transport made up because Podman gave
// none (see exchange). It is outside what a server sends.
const statusNoReply = 599

// fail turns whatever a binding returned into an *Error. A nil err stays nil.
func fail(ctx context.Context, op, object string, err error) error {
	if err == nil {
		return nil
	}
	var done *Error
	if errors.As(err, &done) {
		return &Error{Op: op, Object: object, Class: done.Class, Status: done.Status, Cause: done.Cause}
	}
	class, status, cause := classify(ctx, err)
	return &Error{Op: op, Object: object, Class: class, Status: status, Cause: oneLine(cause)}
}

// classify finds the class of an error from the bindings. ctx decides first: once
// the caller gave up, whatever else the failure says is a consequence.
func classify(ctx context.Context, err error) (class Class, status int, cause string) {
	switch ctx.Err() {
	case context.Canceled:
		return Canceled, 0, "canceled"
	case context.DeadlineExceeded:
		return Timeout, 0, "no answer from Podman within the time given"
	}
	if ex, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		if lost := ex.lost(); lost != nil {
			return classifyTransport(lost)
		}
	}
	var model *errorhandling.ErrorModel
	if errors.As(err, &model) {
		text := model.Message
		if text == "" {
			text = model.Because
		}
		return classifyReply(model.ResponseCode, text+"\n"+model.Because), model.ResponseCode, text
	}
	var pod *errorhandling.PodConflictErrorModel
	if errors.As(err, &pod) {
		text := strings.Join(pod.Errs, "; ")
		return classifyReply(http.StatusConflict, text), http.StatusConflict, text
	}
	// The bindings put the whole undecoded reply into such an error, environment
	// and all, so its text must not get out.
	if undecodable(err) {
		return Other, 0, "Podman's reply could not be decoded; is its version supported?"
	}
	return classifyTransport(err)
}

// undecodable reports whether err came from decoding a reply.
func undecodable(err error) bool {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	return errors.As(err, &syntax) || errors.As(err, &kind) || strings.HasPrefix(err.Error(), "unmarshalling ")
}

// classifyTransport handles failures below HTTP and errors that carry only text,
// as those inside a pull's stream do.
func classifyTransport(err error) (class Class, status int, cause string) {
	var done *Error
	var network net.Error
	switch {
	case errors.As(err, &done):
		return done.Class, done.Status, done.Cause
	case errors.Is(err, context.Canceled):
		return Canceled, 0, "canceled"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return Timeout, 0, "no answer from Podman within the time given"
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		return Unavailable, 0, "the Podman service does not answer: " + err.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE), errors.As(err, &network):
		return Temporary, 0, "the connection to Podman broke: " + err.Error()
	}
	return classifyReply(0, err.Error()), 0, err.Error()
}

// rule maps a text in Podman's error to a class. The first match decides.
type rule struct {
	text  string // lower case
	class Class
	why   string
}

// rules are searched in order because messages nest: a failed start quotes the
// OCI runtime, which quotes the kernel.
var rules = []rule{
	{"address already in use", PortInUse, "rootlessport, pasta, and the kernel's EADDRINUSE"},
	{"port is already allocated", PortInUse, "slirp4netns and CNI's word for it"},
	{"cannot expose privileged port", InvalidSpec, "rootlessport below net.ipv4.ip_unprivileged_port_start"},
	{strings.ToLower(define.ErrOCIRuntimeNotFound.Error()), CommandNotFound, "4.x and 5.x, start; status 500"},
	{"executable file not found in", CommandNotFound, "runc's and crun's own words when Podman did not translate them"},
	{strings.ToLower(define.ErrOCIRuntimePermissionDenied.Error()), CommandNotExecutable, "4.x and 5.x, start; status 500"},
	{"oci runtime permission denied", CommandNotExecutable, "the same in older servers"},
	{"exec format error", CommandNotExecutable, "wrong architecture or a script without an interpreter"},
	{"image not known", NoImage, "create on 4.3.1; status 500"},
	{"no such image", NoImage, "create on 5.x; status 404"},
	{"source image rejected", Untrusted, "containers/image: the signature policy says no"},
	{"is rejected by policy", Untrusted, "likewise, from servers that report bytes; they leave out what is around it"},
	{"a signature was required", Untrusted, "likewise"},
	{"none of the signatures were accepted", Untrusted, "likewise"},
	{"policy.json", Untrusted, "containers/image: the signature policy is missing or broken"},
	{"digest did not match", WrongContent, "containers/image, a blob"},
	{"does not match provided manifest digest", WrongContent, "containers/image, a manifest"},
	{"does not match selected manifest digest", WrongContent, "containers/image, a platform's manifest"},
	{"does not match expected sha256:", WrongContent, "containers/image, a configuration"},
	{"digest mismatch", WrongContent, "containers/image and containers/storage"},
	{"tag not known", NoImage, "removal of a name that the image does not have, on 4.3.1; status 500"},
	{"manifest unknown", NoImage, "registry: no such tag or digest"},
	{"name unknown", NoImage, "registry: no such repository"},
	{"is already in use", Conflict, "container name; status 500 on 4.3.1, 409 or 500 on 5.x"},
	{"name is in use", Conflict, "container name"},
	{"volume already exists", Conflict, "volume name; status 500"},
	{"secret name in use", Conflict, "secret name; status 500 on 4.3.1, 409 later"},
	{"is not logging output", NotFound, "logs of a container whose log driver is none"},
	{"no such secret", NotFound, "status 404, but 500 at a create or start"},
	{"no such volume", NotFound, ""},
	{"network already exists", Conflict, "network name; status 409"},
	{"network is being used", Temporary, "removal while a container that is part of it is going away"},
	{"volume is being used", Temporary, "removal while a container that has it is going away"},
	{"required plugin missing", InvalidSpec, "volume of a driver that is not there"},
	{"failed to initialize journal", InvalidSpec, "log driver journald on a host without a journal"},
	{"secret data must be", InvalidSpec, "empty, or longer than 512000 bytes"},
	{"pod already exists", Conflict, "pod name; status 409"},
	{"container already exists", Conflict, "container name"},
	{"exceeded timeout", Timeout, "health check that ran longer than its Timeout"},
	{"is not running", NotRunning, "health check of a stopped container; status 409"},
	{"can only create exec sessions on running containers", NotRunning, "health check that lost the race with the exit"},
	{"has no defined healthcheck", InvalidSpec, "health check; status 409"},
	{"no such container", NotFound, ""},
	{"no such pod", NotFound, ""},
	{"has already been removed", NotFound, "lost the race with a removal"},
	{"has been removed", NotFound, "likewise"},
	{"in use by a container", Conflict, "removal of an image"},
	{"size is not known", NoImage, "list of images while one of them is being removed; 4.3.1"},
	{"no space left on device", NoSpace, ""},
	{"disk quota exceeded", NoSpace, ""},
	{"no image found in manifest list", WrongPlatform, "containers/image, before 5.29 and since"},
	{"no image found in image index", WrongPlatform, "containers/image"},
	{"database is locked", Temporary, "SQLite backend of 4.8 and later"},
	{"resource temporarily unavailable", Temporary, "lock file, or fork under pressure"},
	{"layer not known", Temporary, "containers/storage, while another pull or removal of the image runs"},
	{"too many open files", Temporary, ""},
	{"connection refused", Temporary, "registry, seen by the service"},
	{"connection reset by peer", Temporary, "registry"},
	{"i/o timeout", Temporary, "registry"},
	{"tls handshake timeout", Temporary, "registry"},
	{"unexpected eof", Temporary, "registry, or the service died in mid-stream"},
	{"no such host", Temporary, "resolver, often only at boot"},
	{"temporary failure in name resolution", Temporary, "resolver"},
	{"external interface not usable", Temporary, "pasta, at boot: no interface has an address yet"},
	{"network is unreachable", Temporary, "at boot; pasta's too, while routes are missing"},
	{"no route to host", Temporary, "at boot"},
	{"toomanyrequests", Temporary, "registry's rate limit"},
	{"too many requests", Temporary, "likewise"},
	{"unauthorized", Unauthorized, "registry: 401, with and without a body"},
	{"authentication required", Unauthorized, "registry"},
	{"invalid username/password", Unauthorized, "containers/image"},
	{"invalid status code from registry 401", Unauthorized, "registry, for a layer"},
	{"invalid status code from registry 403", Denied, "registry, for a layer"},
	{"requested access to the resource is denied", Denied, "registry: 403"},
	{": denied: ", Denied, "registry's error code"},
	{"403 (forbidden)", Denied, "registry, without a body"},
	{"403 forbidden", Denied, "likewise"},
	{"statuscode: 403", Denied, "likewise"},
	{"502 bad gateway", Temporary, "registry"},
	{"503 service unavailable", Temporary, "registry"},
	{"504 gateway time", Temporary, "registry"},
	{"invalid status code from registry 5", Temporary, "registry, for a layer"},
	{"invalid status code from registry 429", Temporary, "registry, for a layer"},
	{strings.ToLower(define.ErrInvalidArg.Error()), InvalidSpec, "validation in specgen and libpod"},
	{"invalid config provided", InvalidSpec, "specgen validation"},
	{"invalid network", InvalidSpec, "4.3.1 with pasta, which needs 4.4"},
}

// classifyReply finds the class of a reply by its text first and its status
// second: Podman answers 500 for most of what is really the caller's mistake.
func classifyReply(status int, text string) Class {
	text = ": " + strings.ToLower(text)
	for _, r := range rules {
		if strings.Contains(text, r.text) {
			return r.class
		}
	}
	switch status {
	case http.StatusNotFound:
		return NotFound
	case http.StatusConflict:
		return Conflict
	case http.StatusBadRequest:
		return InvalidSpec
	case http.StatusServiceUnavailable, statusNoReply:
		return Temporary
	}
	return Other
}

// oneLine folds s into one line of at most maxCause bytes of valid UTF-8.
func oneLine(s string) string {
	s = strings.ToValidUTF8(strings.Join(strings.Fields(s), " "), "?")
	if len(s) <= maxCause {
		return s
	}
	end := maxCause - len("...")
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "..."
}
