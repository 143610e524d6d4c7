package libpod

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/containers/podman/v5/pkg/errorhandling"
	"github.com/podtask/podtask/pkg/images"
	"github.com/podtask/podtask/pkg/transient"
)

// Replies as Podman gave them. Most come from 4.3.1, where nearly everything is a
// 500.
func TestClassOfReply(t *testing.T) {
	t.Parallel()
	tests := []struct {
		status  int
		message string
		want    Class
	}{
		{404, `no container with name or ID "x" found: no such container`, NotFound},
		{404, `no pod with name or ID x found: no such pod`, NotFound},
		{500, `no pod with name or ID x found: no such pod`, NotFound},
		{404, `something new that is not there`, NotFound},
		{500, `container 3f has already been removed`, NotFound},
		{409, `failed to make pod: adding pod to state: name "x" is in use: pod already exists`, Conflict},
		{500, `creating container storage: the container name "x" is already in use by 81c3. You have to remove that container to be able to reuse that name: that name is already in use`, Conflict},
		{409, `something new that is in the way`, Conflict},
		{500, `getting container from store "adedd6b5": container not known`, Interrupted},
		{500, `localhost/x:here: image not known`, NoImage},
		{500, `fallback error checking whether image is a manifest list: reading data blob size "signature-88": size is not known`, NoImage},
		{500, `locating item named "manifest" for image with ID "09da" (consider removing the image to resolve the issue): file does not exist`, Other},
		{404, `no such image`, NoImage},
		{400, `parsing reference "X": invalid reference format`, InvalidSpec},
		{500, `names must match [a-zA-Z0-9][a-zA-Z0-9_.-]*: invalid argument`, InvalidSpec},
		{500, `failed to make pod: invalid config provided: extra host entries must be specified on the pod`, InvalidSpec},
		{500, `rootlessport listen tcp 127.0.0.1:43975: bind: address already in use`, PortInUse},
		{500, `pasta failed with exit code 1: Failed to bind port 8080 (Address already in use) for option '-t 8080-8080:80-80', exiting`, PortInUse},
		{500, `pasta failed with exit code 1: External interface not usable`, Temporary},
		{500, `pasta failed with exit code 1: Couldn't get any nameserver address Couldn't set IPv4 route(s) in guest: Network is unreachable`, Temporary},
		{500, `rootlessport cannot expose privileged port 80, you can add 'net.ipv4.ip_unprivileged_port_start=80' to /etc/sysctl.conf (currently 1024), or choose a larger port number (>= 1024): listen tcp 0.0.0.0:80: bind: permission denied`, InvalidSpec},
		{500, `runc: runc create failed: unable to start container process: exec: "/no/such/command": stat /no/such/command: no such file or directory: OCI runtime attempted to invoke a command that was not found`, CommandNotFound},
		{500, "crun: cannot stat `/run/user/1000/podtask/pods/a`: No such file or directory: OCI runtime attempted to invoke a command that was not found", Temporary},
		{500, `runc: runc create failed: unable to start container process: error during container init: error mounting "/tmp/a b" to rootfs at "/mnt": stat /tmp/a b: no such file or directory: OCI runtime attempted to invoke a command that was not found`, Temporary},
		{500, "crun: executable file `nope` not found in $PATH: No such file or directory: OCI runtime attempted to invoke a command that was not found", CommandNotFound},
		{500, `runc: runc create failed: unable to start container process: exec: "/notexec": permission denied: OCI permission denied`, CommandNotExecutable},
		{500, "crun: exec container process `/x`: Exec format error: OCI runtime error", CommandNotExecutable},
		{409, `container 81c3 is not running`, NotRunning},
		{500, `can only create exec sessions on running containers: container state improper`, NotRunning},
		{409, `container b252 has no defined healthcheck`, InvalidSpec},
		{500, `healthcheck command exceeded timeout of 1s`, Timeout},
		{500, `beginning transaction: database is locked`, Temporary},
		{500, `adding container to state: adding container config to database: FOREIGN KEY constraint failed`, Temporary},
		{500, `not all containers could be removed from pod 6cc0: removing pod containers. 2 errors occurred: * cleaning up container d9b6: saving container d9b6 state: committing container d9b6 state: disk I/O error: resource temporarily unavailable * a container that depends on container c165 could not be removed: container state improper`, Temporary},
		{503, `shutting down`, Temporary},
		{500, `open /x/containers/storage/overlay-containers/containers.lock: read-only file system`, ReadOnly},
		{500, `error opening "/x/vfs-layers/layers.lock": open /x/vfs-layers/layers.lock: read-only file system`, ReadOnly},
		{500, `saving container 81c3 state: attempt to write a readonly database`, ReadOnly},
		{500, `mkdir /x/containers/storage/overlay/81c3: read-only file system`, ReadOnly},
		{500, "crun: mkdir `/x/containers/storage/overlay/81c3/merged/data`: Read-only file system: OCI runtime error", Other},
		{500, `runc: runc create failed: unable to start container process: error mounting "/data" to rootfs at "/data": mkdir /storage/overlay/81c3/merged/data: read-only file system: OCI runtime error`, Other},
		{500, `crun: something unknown`, Other},
		{0, `initializing source docker://127.0.0.1:1/x:v1: pinging container registry 127.0.0.1:1: Get "http://127.0.0.1:1/v2/": dial tcp 127.0.0.1:1: connect: connection refused`, Temporary},
		{0, `initializing source docker://h/x:v1: reading manifest v1 in h/x: manifest unknown`, NoImage},
		{0, `initializing source docker://h/x:v1: reading manifest v1 in h/x: toomanyrequests: You have reached your pull rate limit`, Temporary},
		{0, `reading blob sha256:1: fetching blob: invalid status code from registry 503 (Service Unavailable)`, Temporary},
		{0, `reading blob sha256:1: fetching blob: invalid status code from registry 403 (Forbidden)`, Denied},
		{0, `initializing source docker://h/x:v1: reading manifest v1 in h/x: denied: not for you`, Denied},
		{0, `Source image rejected: Running image docker://h/x:v1 is rejected by policy.`, Untrusted},
		{0, `Running image docker://h/x:v1 is rejected by policy.`, Untrusted},
		{0, `A signature was required, but no signature exists`, Untrusted},
		{0, `Source image rejected: A signature was required, but no signature exists`, Untrusted},
		{0, `invalid policy in "/etc/containers/policy.json": Unknown policy requirement type "x"`, Untrusted},
		{0, `open /etc/containers/policy.json: no such file or directory`, Untrusted},
		{0, `writing blob: storing blob to file "/var/tmp/1": Digest did not match, expected sha256:aa, got sha256:bb`, WrongContent},
		{0, `parsing image configuration: Download config.json digest sha256:aa does not match expected sha256:bb`, WrongContent},
		{0, `Manifest does not match provided manifest digest sha256:aa`, WrongContent},
		{500, "crun: container `b0467b3b39de` already exists: OCI runtime error", Interrupted},
		{500, `crun: container already exists`, Interrupted},
		{500, `container with given ID already exists`, Interrupted},
		{500, `IPAM error: requested ip address 10.89.0.2 is already allocated to container ID 12ab`, Interrupted},
		{500, "crun: cannot open `/run/user/1000/netns/netns-1`: No such file or directory: OCI runtime attempted to invoke a command that was not found", Interrupted},
		{500, "crun: open `/proc/123/ns/net`: No such file or directory: OCI runtime attempted to invoke a command that was not found", Interrupted},
		{0, `Image manifest does not match selected manifest digest sha256:aa`, WrongContent},
	}
	for _, c := range tests {
		var err error = &errorhandling.ErrorModel{Message: c.message, ResponseCode: c.status}
		if c.status == 0 {
			err = errors.New(c.message)
		}
		got := fail(t.Context(), "do", "it", err)
		if !errors.Is(got, c.want) {
			t.Errorf("%d %s\n\tgot %+v, want %v", c.status, c.message, got, c.want)
		}
		if !strings.Contains(got.Error(), "do it: ") {
			t.Errorf("got %v", got)
		}
	}
}

func TestClassOfTransportFailure(t *testing.T) {
	t.Parallel()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	dial := func(errno syscall.Errno) error { return &net.OpError{Op: "dial", Net: "unix", Err: errno} }
	tests := []struct {
		ctx  context.Context
		err  error
		want Class
	}{
		{t.Context(), dial(syscall.ECONNREFUSED), Unavailable},
		{t.Context(), dial(syscall.ENOENT), Unavailable},
		{t.Context(), dial(syscall.ECONNRESET), Temporary},
		{t.Context(), io.ErrUnexpectedEOF, Temporary},
		{t.Context(), errors.New("http: server closed idle connection"), Temporary},
		{t.Context(), errors.New("net/http: HTTP/1.x transport connection broken: write unix @: shut down"), Temporary},
		{t.Context(), io.EOF, Temporary},
		{t.Context(), context.DeadlineExceeded, Timeout},
		{t.Context(), &errorhandling.PodConflictErrorModel{Errs: []string{"a: container state improper"}}, Conflict},
		{canceled, io.EOF, Canceled},
		{canceled, &errorhandling.ErrorModel{Message: "context canceled", ResponseCode: 500}, Canceled},
		{late, dial(syscall.ECONNRESET), Timeout},
		{t.Context(), fmt.Errorf("wrapped: %w", &Error{Class: InvalidSpec, Cause: "x"}), InvalidSpec},
	}
	for _, c := range tests {
		if got := fail(c.ctx, "do", "it", c.err); !errors.Is(got, c.want) {
			t.Errorf("%v: got %#v, want %v", c.err, got, c.want)
		}
	}
	if fail(t.Context(), "do", "it", nil) != nil {
		t.Error("no error became one")
	}
}

func TestEveryClassAndStatusHasAName(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for c := range numClass {
		if s := c.String(); s == "" || seen[s] || s != c.Error() {
			t.Errorf("class %d is %q", int(c), s)
		}
		seen[c.String()] = true
		if want := c == Temporary || c == Unavailable; transient.Is(&Error{Class: c}) != want {
			t.Errorf("class %v temporary: want %v", c, want)
		}
	}
	for s := range numStatus {
		if s.String() == "" || seen[s.String()] && s.String() != "not running" {
			t.Errorf("status %d is %q", int(s), s)
		}
		seen[s.String()] = true
	}
}

// Each failure of a registry that pkg/images knows by its text has a class here.
func TestFailuresOfRegistriesAreClassified(t *testing.T) {
	t.Parallel()
	for _, f := range images.FailureTexts {
		class, _ := explainReply(0, "initializing source docker://h/x:v1: "+f.Text+" ")
		if want := registryClass(f.Class); class != want || want == Other {
			t.Errorf("%q: class %v, want %v, which is not other", f.Text, class, want)
		}
	}
}

// A rule whose text another, earlier rule contains would never match.
func TestRulesCanMatch(t *testing.T) {
	t.Parallel()
	for i, r := range rules {
		if r.text != strings.ToLower(r.text) {
			t.Errorf("rule %q is not in lower case", r.text)
		}
		for _, earlier := range rules[:i] {
			if strings.Contains(r.text, earlier.text) {
				t.Errorf("rule %q is hidden by %q", r.text, earlier.text)
			}
		}
	}
}

func FuzzOneLine(f *testing.F) {
	f.Add("two\nlines")
	f.Add(strings.Repeat("ä", maxCause))
	f.Add("bad \xff utf-8")
	f.Fuzz(func(t *testing.T, s string) {
		got := oneLine(s)
		if len(got) > maxCause || strings.ContainsAny(got, "\r\n") || !utf8.ValidString(got) {
			t.Errorf("got %q", got)
		}
	})
}

// What the kernel, conmon or Go says is no message for a user: the cause names the
// limit or the program, and what to do.
func TestCausesAreForUsers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		err   error
		want  Class
		says  string
		never []string
	}{
		{
			"key quota, crun", &errorhandling.ErrorModel{ResponseCode: 500, Message: "crun: create keyring `4f0c`: Disk quota exceeded: OCI runtime error"},
			QuotaExceeded, "kernel.keys.maxkeys", []string{"Disk quota", "free disk space", "image prune"},
		},
		{
			"key quota, runc", &errorhandling.ErrorModel{ResponseCode: 500, Message: "runc: unable to join session keyring: unable to create session key: disk quota exceeded: OCI runtime error"},
			QuotaExceeded, "keyring = false", []string{"disk quota", "image prune"},
		},
		{
			"locks", &errorhandling.ErrorModel{ResponseCode: 500, Message: "allocating lock for new container: allocation failed; exceeded num_locks (2048)"},
			QuotaExceeded, "podman system renumber", []string{"exceeded"},
		},
		{
			"processes", &errorhandling.ErrorModel{ResponseCode: 500, Message: "fork/exec /usr/bin/conmon: resource temporarily unavailable"},
			QuotaExceeded, "TasksMax", []string{"fork/exec"},
		},
		{
			"open files", &errorhandling.ErrorModel{ResponseCode: 500, Message: "open /x: too many open files"},
			QuotaExceeded, "LimitNOFILE", []string{"/x"},
		},
		{
			"inotify watches", &errorhandling.ErrorModel{ResponseCode: 500, Message: "inotify_add_watch: no space left on device"},
			QuotaExceeded, "fs.inotify.max_user_watches", []string{"no space left", "image prune"},
		},
		{
			"another architecture", &errorhandling.ErrorModel{ResponseCode: 500, Message: "crun: exec container process `/x`: Exec format error: OCI runtime error"},
			CommandNotExecutable, "another architecture", []string{"xec format error"},
		},
		{
			"conmon", &errorhandling.ErrorModel{ResponseCode: 500, Message: "container create failed (no logs from conmon): conmon bytes \"\": readObjectStart: expect { or n, but found \x00"},
			Other, "journalctl", []string{"readObjectStart"},
		},
		{
			"conmon's exit", &errorhandling.ErrorModel{ResponseCode: 500, Message: "conmon failed: exit status 1"},
			Other, "journalctl", []string{"exit status 1"},
		},
		{
			"netavark before 2", &errorhandling.ErrorModel{ResponseCode: 500, Message: "create network: netavark: : EOF"},
			Other, "netavark 2", []string{"EOF"},
		},
		{
			"incomplete namespace, Podman 4", &errorhandling.ErrorModel{ResponseCode: 500, Message: "failed to mount runtime directory for rootless netns: no such file or directory"},
			Other, "remove $XDG_RUNTIME_DIR/netns/rootless-netns-*", []string{"no such file"},
		},
		{
			"incomplete namespace, Podman 5", &errorhandling.ErrorModel{ResponseCode: 500, Message: "rootless netns: mount resolv.conf to \"/etc/resolv.conf\": no such file or directory"},
			Other, "rootless-netns-conn.pid", []string{"no such file"},
		},
		{
			"a resolv.conf that cannot be mounted", &errorhandling.ErrorModel{ResponseCode: 500, Message: "rootless netns: mount resolv.conf to \"/etc/resolv.conf\": permission denied"},
			Other, "permission denied", []string{"rootless-netns-conn.pid"},
		},
		{
			"a full disk", &errorhandling.ErrorModel{ResponseCode: 500, Message: "write /x: no space left on device"},
			NoSpace, "image prune", nil,
		},
		{
			"a full disk, by SQLite", &errorhandling.ErrorModel{ResponseCode: 500, Message: "saving container x state: database or disk is full"},
			NoSpace, "image prune", nil,
		},
		{
			"a broken connection", &url.Error{Op: "Get", URL: "http://d/v5.6.2/libpod/info", Err: io.EOF},
			Temporary, "Podman closed it", []string{"http://", "Get", "EOF"},
		},
		{
			"no service", &url.Error{Op: "Get", URL: "http://d/v5.6.2/libpod/info", Err: &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}},
			Unavailable, "connection refused", []string{"http://", "dial"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := fail(t.Context(), "start container", "web", tt.err)
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want class %v and %q", err, tt.want, tt.says)
			}
			for _, text := range tt.never {
				if strings.Contains(err.Error(), text) {
					t.Errorf("%v has %q", err, text)
				}
			}
		})
	}
}

func TestRefusedStartOfAnInfraContainerWasInterrupted(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("a1", 32)
	for text, want := range map[string]Class{
		"`/usr/bin/crun start " + id + "` failed: exit status 1":  Interrupted,
		"`/usr/bin/crun kill " + id + " 9` failed: exit status 1": Other,
		"`/usr/bin/crun start` failed: exit status 1":             Other,

		"runtime error: invalid memory address or nil pointer dereference": Interrupted,
		"the program says runtime error: not found":                        Other,
	} {
		err := explainInfraStart(fail(t.Context(), "start pod", "p", &errorhandling.ErrorModel{Message: text, ResponseCode: 500}))
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
	}
}

func TestMissingSourceOfAMountIsNotCalledACommand(t *testing.T) {
	t.Parallel()
	said := &errorhandling.ErrorModel{ResponseCode: 500, Message: "crun: cannot stat `/Data`: No such file or directory: OCI runtime attempted to invoke a command that was not found"}
	class, _, cause := classify(t.Context(), said)
	if want := "the source of a mount is not there: crun: cannot stat `/Data`: No such file or directory"; class != Temporary || cause != want {
		t.Errorf("%s, %q; want %q", class, cause, want)
	}
}

func TestAnArtifactIsNoImage(t *testing.T) {
	t.Parallel()
	said := &errorhandling.ErrorModel{ResponseCode: 500, Message: `unsupported image-specific operation on artifact with type "application/vnd.oci.empty.v1+json"`}
	if class, _, cause := classify(t.Context(), said); class != InvalidSpec || cause != noImageArtifact {
		t.Errorf("%s, %q", class, cause)
	}
}
