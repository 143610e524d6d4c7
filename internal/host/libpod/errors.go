package libpod

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/errorhandling"
	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/images"
	"github.com/podtask/podtask/pkg/transient"
)

// Class is the kind of failure of an Error. A Class is itself an error, so that
// errors.Is(err, libpod.NotFound) tests for it.
type Class int

// The classes. Other is the zero value.
const (
	// Other is any failure without a class below. Repeating the call is not known to
	// help.
	Other Class = iota
	// NotFound: no such container, pod or image.
	NotFound
	// Conflict: the name belongs to an object that podtask did not create, or that has
	// another specification.
	Conflict
	// InvalidSpec: Podman rejects the request; repeating it does not help.
	InvalidSpec
	// Temporary: the same call may succeed later (service restarting, store
	// locked, registry unreachable).
	Temporary
	// PortInUse: a published host port is in use.
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
	// Unauthorized: a registry requires credentials, or rejected them (401).
	Unauthorized
	// Denied: a registry does not allow the request with these credentials (403).
	Denied
	// NoSpace: a disk is full.
	NoSpace
	// ReadOnly: Podman's storage is read-only, or was read-only and its service has hung since.
	ReadOnly
	// QuotaExceeded: a limit of the kernel for this user is reached. Cause names the
	// limit and how to raise it.
	QuotaExceeded
	// WrongPlatform: the image is not for the requested platform.
	WrongPlatform
	// Untrusted: the signature policy does not accept an image, or cannot be read.
	Untrusted
	// WrongContent: the content sent by a registry or mirror does not match its digest.
	WrongContent
	// Interrupted: Podman's service was killed in the middle of an earlier call and left the
	// object incomplete, so each further attempt fails. If the object never ran, remove it
	// and create it again.
	Interrupted
	// RootUser: the container must not run as root, and its image would or might run it as root.
	RootUser

	numClass
)

var classNames = [numClass]string{
	Other: "other", NotFound: "not found", Conflict: "conflict", InvalidSpec: "invalid specification",
	Temporary: "temporary", PortInUse: "port in use", CommandNotFound: "command not found",
	CommandNotExecutable: "command not executable", NoImage: "no image", NotRunning: "not running",
	Canceled: "canceled", Timeout: "timeout", Unavailable: "unavailable",
	Unauthorized: "unauthorized", Denied: "denied", NoSpace: "no space", ReadOnly: "read-only storage", QuotaExceeded: "quota exceeded", WrongPlatform: "wrong platform", Untrusted: "untrusted",
	WrongContent: "wrong content", Interrupted: "interrupted", RootUser: "root user",
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
	// Op is the attempted operation, for example "create container".
	Op string
	// Object is the name, reference or path of the object of the operation.
	Object string
	Class  Class
	// Status is the HTTP status of Podman's reply; 0 if there was none.
	Status int
	// Cause is one line of at most maxCause bytes, from Podman or from this package. It
	// never contains a request or an undecoded reply, which may contain secrets.
	Cause string
}

// advice is the remedy for a failure, for classes whose cause does not name it.
var advice = [numClass]string{
	PortInUse:            "choose another host port, leave it out to get a free one, or stop the program that uses it",
	CommandNotFound:      "compare entryPoint and command with the files in the image",
	CommandNotExecutable: "check the file's mode, its interpreter and the image's architecture",
	Unauthorized:         "log in with podman login, or give the task repositoryCredentials",
	Denied:               "check the name, and that the credentials grant access to it",
	NoSpace:              "free disk space: podtask image prune removes unused images that podtask pulled",
	ReadOnly:             "dmesg and findmnt tell why the disk of the storage is read-only",
	WrongPlatform:        "use an image that supports this platform",
	Untrusted:            "use an image that the policy accepts, or change the policy (podman image trust show lists it)",
	WrongContent:         "the registry or a mirror of it sends wrong data: contact its operator",
}

// Error returns "op object: cause", with advice where there is some.
func (e *Error) Error() string {
	text := strings.TrimSpace(e.Op+" "+e.Object) + ": " + e.Cause // an unknown object has no name
	if e.Class > 0 && e.Class < numClass && advice[e.Class] != "" {
		text += "; " + advice[e.Class]
	}
	return text
}

// Is reports whether target is the error's class. For transient.Err it reports whether the same
// call may succeed later.
func (e *Error) Is(target error) bool {
	if target == transient.Err {
		return e.Class == Temporary || e.Class == Unavailable
	}
	c, ok := target.(Class)
	return ok && c == e.Class
}

// maxCause limits Error.Cause; an OCI runtime may report a whole page.
const maxCause = 1024

// statusNoReply marks the synthetic reply of the transport when Podman sent none (see
// exchange). No server sends this status.
const statusNoReply = 599

// fail converts an error of a binding to an *Error. A nil err stays nil.
func fail(ctx context.Context, op, object string, err error) error {
	if err == nil {
		return nil
	}
	if done, ok := errors.AsType[*Error](err); ok {
		return &Error{Op: op, Object: object, Class: done.Class, Status: done.Status, Cause: done.Cause}
	}
	class, status, cause := classify(ctx, err)
	if class == ReadOnly {
		cause = "Podman's storage is read-only: " + cause
	}
	return &Error{Op: op, Object: object, Class: class, Status: status, Cause: oneLine(cause)}
}

// classify finds the class of an error from the bindings. ctx is checked first: once the
// caller has given up, any other error is a consequence of that.
func classify(ctx context.Context, err error) (class Class, status int, cause string) {
	switch ctx.Err() {
	case context.Canceled:
		return Canceled, 0, "canceled"
	case context.DeadlineExceeded:
		return Timeout, 0, "no answer from Podman within the time limit"
	}
	if ex, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		if lost := ex.lost(); lost != nil {
			return classifyTransport(lost)
		}
	}
	if model, ok := errors.AsType[*errorhandling.ErrorModel](err); ok {
		text := model.Message
		if text == "" {
			text = model.Because
		}
		class, cause = explainReply(model.ResponseCode, text+"\n"+model.Because)
		if missing, found := strings.CutSuffix(text, ": "+define.ErrOCIRuntimeNotFound.Error()); found && class == Temporary {
			cause = "the source of a mount is not there: " + missing // Podman reports a missing command
		}
		return class, model.ResponseCode, cmp.Or(cause, text)
	}
	if pod, ok := errors.AsType[*errorhandling.PodConflictErrorModel](err); ok {
		text := strings.Join(pod.Errs, "; ")
		class, cause = explainReply(http.StatusConflict, text)
		return class, http.StatusConflict, cmp.Or(cause, text)
	}
	// The bindings put the whole undecoded reply into such an error, including the
	// environment, so its text must not be shown.
	if undecodable(err) {
		return Other, 0, "Podman's reply could not be decoded; is its version supported?"
	}
	return classifyTransport(err)
}

// undecodable reports whether err is a failure to decode a reply.
func undecodable(err error) bool {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	return errors.As(err, &syntax) || errors.As(err, &kind) || strings.HasPrefix(err.Error(), "unmarshalling ")
}

// classifyTransport handles failures below HTTP and errors that are only text, such as
// those in a pull's stream.
func classifyTransport(err error) (class Class, status int, cause string) {
	var done *Error
	var network net.Error
	switch {
	case errors.As(err, &done):
		return done.Class, done.Status, done.Cause
	case errors.Is(err, context.Canceled):
		return Canceled, 0, "canceled"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return Timeout, 0, "no answer from Podman within the time limit"
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		return Unavailable, 0, "the Podman service does not answer (" + reasonOf(err) + ")"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE), errors.As(err, &network):
		return Temporary, 0, ConnectionBroke + " (" + reasonOf(err) + ")"
	}
	class, cause = explainReply(0, err.Error())
	return class, 0, cmp.Or(cause, err.Error())
}

// ConnectionBroke begins the cause of a call to which the service could not reply.
const ConnectionBroke = "the connection to Podman broke"

// CutOff reports whether Podman's service ended during the call. The failure says nothing about
// the object of the call.
func CutOff(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == 0 && e.Class == Temporary && strings.HasPrefix(e.Cause, ConnectionBroke)
}

// Away reports whether a call failed because no service answers, or because its service ended.
func Away(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.Class == Unavailable || CutOff(e))
}

// reasonOf is the innermost reason of a failed connection, without Go's description
// of the request around it.
func reasonOf(err error) string {
	var number syscall.Errno
	switch {
	case errors.As(err, &number):
		return number.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "Podman closed it"
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err.Error()
}

// rule maps a text in Podman's error to a class. The first match decides.
type rule struct {
	text  string // lower case
	class Class
	from  string // who writes the text, and when
	// cause replaces Podman's text in Error.Cause; empty keeps it.
	cause string
}

// Causes that replace texts of Podman which do not say what is wrong or how to fix it.
const (
	keyQuota = "the kernel's key quota of this user is used up (kernel.keys.maxkeys, 200 by default; each container and each pod needs a key): " +
		"raise it with sysctl -w kernel.keys.maxkeys=20000 kernel.keys.maxbytes=2000000, or set keyring = false under [containers] in containers.conf"
	inotifyQuota = "this user has no inotify instance or watch left: " +
		"raise the limits with sysctl -w fs.inotify.max_user_instances=8192 fs.inotify.max_user_watches=524288"
	fileLimit         = "Podman or the container runtime has too many open files: raise the limit on open files (ulimit -n, LimitNOFILE= in a unit, fs.file-max)"
	processQuota      = "this user may have no more processes or threads: raise TasksMax of the user's slice (systemctl set-property user-UID.slice TasksMax=N, as root), or the limit on processes (ulimit -u)"
	lockQuota         = "Podman has no free lock, of which each container, pod and volume has one: remove some, or raise num_locks under [engine] in containers.conf and run podman system renumber"
	wrongFormat       = "the kernel cannot run the program: it was built for another architecture, or it is a script without an interpreter line (#!)"
	conmonDied        = "Podman's container monitor (conmon) failed before it reported why: see journalctl --user -t conmon, and run podtask doctor"
	addressHeld       = "Podman keeps the container's address for a start that was cut off when its service was killed, until the network is removed: run the task again"
	incompleteNetwork = "Podman did not complete the network namespace of bridge networks, because its service was killed: with Podman 5 end the process in $XDG_RUNTIME_DIR/containers/networks/rootless-netns/rootless-netns-conn.pid; with Podman 4 stop the containers of bridge networks and remove $XDG_RUNTIME_DIR/netns/rootless-netns-*"
	storageGone       = "a removal was cut off: Podman still lists the container and has lost its storage; podman rm --force removes it"
	oldNetavark       = "netavark gave no answer, because it is too old for this Podman: Podman 6 needs netavark 2 (netavark --version shows the version)"
)

// noImageArtifact is the cause where a registry has an artifact under the name of an image.
const noImageArtifact = "it is an OCI artifact and no image, so nothing of it can run: `podman artifact pull` gets its files"

// rules are searched in order, because messages are nested: a failed start quotes the OCI
// runtime, which quotes the kernel. The texts of failures of registries are in pkg/images.
var rules = slices.Concat([]rule{
	{"crun: container already exists", Interrupted, "crun, start: it has created the container, and Podman has not recorded it", ""},
	{"` already exists: oci runtime error", Interrupted, "likewise, with the container's ID", ""},
	{"container with given id already exists", Interrupted, "runc, likewise", ""},
	{"is already allocated to container id", Interrupted, "netavark's IPAM, start", addressHeld},
	{"container not known", Interrupted, "containers/storage: a removal of the container was cut off", storageGone},
	{processEnded, Temporary, "4.3.1, inspect", ""},
	{"address already in use", PortInUse, "rootlessport, pasta, and the kernel's EADDRINUSE", ""},
	{"port is already allocated", PortInUse, "slirp4netns and CNI", ""},
	{"cannot expose privileged port", InvalidSpec, "rootlessport below net.ipv4.ip_unprivileged_port_start", ""},
	{strings.ToLower(define.ErrOCIRuntimeNotFound.Error()), CommandNotFound, "4.x and 5.x, start; status 500", ""},
	{"executable file not found in", CommandNotFound, "runc and crun, if Podman did not translate the error", ""},
	{strings.ToLower(define.ErrOCIRuntimePermissionDenied.Error()), CommandNotExecutable, "4.x and 5.x, start; status 500", ""},
	{"oci runtime permission denied", CommandNotExecutable, "the same in older servers", ""},
	{"exec format error", CommandNotExecutable, "wrong architecture or a script without an interpreter", wrongFormat},
	{"image not known", NoImage, "create on 4.3.1; status 500", ""},
	{"no such image", NoImage, "create on 5.x; status 404", ""},
	{"unsupported image-specific operation on artifact", InvalidSpec, "containers/image, pull of an OCI artifact", noImageArtifact},
	{"source image rejected", Untrusted, "containers/image: rejected by the signature policy", ""},
	{"is rejected by policy", Untrusted, "likewise, from servers that report bytes, without context", ""},
	{"a signature was required", Untrusted, "likewise", ""},
	{"none of the signatures were accepted", Untrusted, "likewise", ""},
	{"policy.json", Untrusted, "containers/image: the signature policy is missing or broken", ""},
	{"digest did not match", WrongContent, "containers/image, a blob", ""},
	{"does not match provided manifest digest", WrongContent, "containers/image, a manifest", ""},
	{"does not match selected manifest digest", WrongContent, "containers/image, a platform's manifest", ""},
	{"does not match expected sha256:", WrongContent, "containers/image, a configuration", ""},
	{"digest mismatch", WrongContent, "containers/image and containers/storage", ""},
	{"tag not known", NoImage, "removal of a name that the image does not have, on 4.3.1; status 500", ""},
}, registryRules(images.NoSuchTag, images.NoSuchRepository), []rule{
	{"is already in use", Conflict, "container name; status 500 on 4.3.1, 409 or 500 on 5.x", ""},
	{"name is in use", Conflict, "container name", ""},
	{"volume already exists", Conflict, "volume name; status 500", ""},
	{"secret name in use", Conflict, "secret name; status 500 on 4.3.1, 409 later", ""},
	{"is not logging output", NotFound, "logs of a container whose log driver is none", ""},
	{"no such secret", NotFound, "status 404, but 500 at a create or start", ""},
	{"no such volume", NotFound, "", ""},
	{"network already exists", Conflict, "network name; status 409", ""},
	{"network is being used", Temporary, "removal while a container that is part of it is going away", ""},
	{"volume is being used", Temporary, "removal while a container that has it is going away", ""},
	{"required plugin missing", InvalidSpec, "volume of a driver that is not there", ""},
	{"failed to initialize journal", InvalidSpec, "log driver journald on a host without a journal", ""},
	{"secret data must be", InvalidSpec, "empty, or longer than 512000 bytes", ""},
	{"pod already exists", Conflict, "pod name; status 409", ""},
	{"container already exists", Conflict, "container name", ""},
	{"exceeded timeout", Timeout, "health check that ran longer than its Timeout", ""},
	{"is not running", NotRunning, "health check of a stopped container; status 409", ""},
	{"can only create exec sessions on running containers", NotRunning, "health check that lost the race with the exit", ""},
	{"has no defined healthcheck", InvalidSpec, "health check; status 409", ""},
	{"no such container", NotFound, "", ""},
	{"no such pod", NotFound, "", ""},
	{"has already been removed", NotFound, "lost the race with a removal", ""},
	{"has been removed", NotFound, "likewise", ""},
	{"in use by a container", Conflict, "removal of an image", ""},
	{"size is not known", NoImage, "list of images while one of them is being removed; 4.3.1", ""},
	{"create keyring", QuotaExceeded, "crun, in front of EDQUOT", keyQuota},
	{"session keyring", QuotaExceeded, "runc, likewise", keyQuota},
	{"inotify", QuotaExceeded, "conmon and Podman; the kernel answers ENOSPC or EMFILE", inotifyQuota},
	{"netavark: : eof", Other, "Podman 6 with netavark 1", oldNetavark},
	{"no space left on device", NoSpace, "", ""},
	{"disk quota exceeded", NoSpace, "", ""},
	{"database or disk is full", NoSpace, "", ""}, // SQLite
	{"conmon failed: exit status", Other, "conmon wrote nothing to its pipe", conmonDied},
	{"no logs from conmon", Other, "likewise", conmonDied},
}, registryRules(images.WrongPlatform), []rule{
	{"foreign key constraint failed", Temporary, "SQLite backend: what a new container belongs to was removed meanwhile", ""},
	{"database is locked", Temporary, "SQLite backend of 4.8 and later", ""},
	{"num_locks", QuotaExceeded, "libpod's lock manager, when a container, pod or volume is created", lockQuota},
	{"pthread_create failed", QuotaExceeded, "the Go runtime of a program with cgo", processQuota},
	{"newosproc", QuotaExceeded, "the Go runtime", processQuota},
	{"clone: resource temporarily unavailable", QuotaExceeded, "crun", processQuota},
	{"fork: resource temporarily unavailable", QuotaExceeded, "conmon and runc", processQuota},
	{"conmon: resource temporarily unavailable", QuotaExceeded, "Podman cannot fork conmon", processQuota},
	{"resource temporarily unavailable", Temporary, "lock file, or fork under pressure", ""},
	{removedLayer, Temporary, "containers/storage, while another pull or removal of the image runs", ""},
	{"too many open files", QuotaExceeded, "", fileLimit},
	{"server closed idle connection", Temporary, "net/http: the service ended before the request was sent", ConnectionBroke + " (before the request was sent)"},
	{"transport connection broken", Temporary, "net/http: the connection ended in a request", ConnectionBroke + " (in the request)"},
	{"connection refused", Temporary, "registry, seen by the service", ""},
	{"connection reset by peer", Temporary, "registry", ""},
	{"i/o timeout", Temporary, "registry", ""},
	{"tls handshake timeout", Temporary, "registry", ""},
	{"unexpected eof", Temporary, "registry, or the service died in mid-stream", ""},
	{"no such host", Temporary, "resolver, often only at boot", ""},
	{"temporary failure in name resolution", Temporary, "resolver", ""},
	{"external interface not usable", Temporary, "pasta, at boot: no interface has an address yet", ""},
	{"network is unreachable", Temporary, "at boot; pasta's too, while routes are missing", ""},
	{"no route to host", Temporary, "at boot", ""},
}, registryRules(images.RateLimited, images.Unauthorized, images.Denied, images.Server), []rule{
	{strings.ToLower(define.ErrInvalidArg.Error()), InvalidSpec, "validation in specgen and libpod", ""},
	{"invalid config provided", InvalidSpec, "specgen validation", ""},
	{"invalid network", InvalidSpec, "4.3.1 with pasta, which needs 4.4", ""},
})

// registryRules returns the rules for failures of registries that have one of these classes.
func registryRules(classes ...images.Class) (found []rule) {
	for _, t := range images.FailureTexts {
		if slices.Contains(classes, t.Class) {
			found = append(found, rule{t.Text, registryClass(t.Class), t.From, ""})
		}
	}
	return found
}

// registryClass returns the class of a call of Podman that failed because a registry did.
func registryClass(c images.Class) Class {
	switch c {
	case images.NoSuchTag, images.NoSuchRepository:
		return NoImage
	case images.Unauthorized:
		return Unauthorized
	case images.Denied:
		return Denied
	case images.WrongPlatform:
		return WrongPlatform
	case images.RateLimited, images.Server:
		return Temporary
	default:
		return Other
	}
}

// lostNamespace reports whether a start failed because a network namespace does not exist.
// Podman reports any missing file as a missing command.
func lostNamespace(text string) bool {
	return strings.Contains(text, strings.ToLower(define.ErrOCIRuntimeNotFound.Error())) && (strings.Contains(text, "/netns/netns-") || strings.Contains(text, "/ns/net"))
}

// processEnded is part of the error with which Podman before 5 fails to inspect a container whose
// process is ending: it has opened the process's cgroup file and cannot read it.
const processEnded = "/cgroup: no such process"

// incompleteImage is part of the error with which Podman 4.3 fails to list images while one of
// them is being stored or removed, or if one has lost its manifest.
const incompleteImage = "consider removing the image to resolve the issue"

// removedLayer is part of the error with which it fails while the layer of one is being removed.
const removedLayer = "layer not known"

// endedMeanwhile reports whether an inspection failed because the process was ending.
func endedMeanwhile(err error) bool {
	var e *Error
	return errors.As(err, &e) && strings.Contains(e.Cause, processEnded)
}

// sourceGone matches the errors of crun and runc at a start if the source of a mount does not
// exist, such as a Pod's files after a reboot. Podman reports it as a missing command.
var sourceGone = lazy.MustCompile("crun: cannot stat `|error mounting \"[^\"]*\" to rootfs at \"[^\"]*\": stat [^:]*: no such file or directory")

// explainReply finds the class of a reply by its text and, if that is unknown, by its status:
// Podman answers 500 to most invalid requests. A cause that is not empty replaces the text
// in messages.
func explainReply(status int, text string) (class Class, cause string) {
	text = ": " + strings.ToLower(text)
	if lostNamespace(text) {
		return Interrupted, ""
	}
	if readOnlyStorage(text) {
		return ReadOnly, ""
	}
	if sourceGone.MatchString(text) {
		return Temporary, ""
	}
	if incompleteText.MatchString(text) {
		return Other, incompleteNetwork
	}
	for _, r := range rules {
		switch {
		case !strings.Contains(text, r.text):
		case r.cause == addressHeld:
			return r.class, r.cause + " (" + strings.TrimPrefix(text, ": ") + ")" // heldAddress needs the text
		default:
			return r.class, r.cause
		}
	}
	switch status {
	case http.StatusNotFound:
		return NotFound, ""
	case http.StatusConflict:
		return Conflict, ""
	case http.StatusBadRequest:
		return InvalidSpec, ""
	case http.StatusServiceUnavailable, statusNoReply:
		return Temporary, ""
	}
	return Other, ""
}

// oneLine converts s to one line of at most maxCause bytes of valid UTF-8.
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
