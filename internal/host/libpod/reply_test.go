package libpod_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/host/libpod"
)

// serve answers on a unix socket until the test's end.
func serve(t *testing.T, path string, h http.Handler) {
	t.Helper()
	serveUntil(t, path, h)
}

// serveUntil is serve until down is called.
func serveUntil(t *testing.T, path string, h http.Handler) (down func()) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	_ = s.Listener.Close()
	s.Listener = listen(t, path)
	s.Start()
	down = sync.OnceFunc(func() { s.CloseClientConnections(); s.Close() })
	t.Cleanup(down)
	return down
}

// recorded returns a client of a server of the given version, whose replies other
// than to a ping are h's.
func recorded(t *testing.T, version string, h http.HandlerFunc) *libpod.Client {
	t.Helper()
	dir, err := os.MkdirTemp("", "pt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	serve(t, path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/_ping") {
			w.Header().Set("Libpod-API-Version", version)
			return
		}
		h(w, r)
	}))
	return mustDial(t, libpod.Options{URI: "unix://" + path})
}

func reply(w http.ResponseWriter, status int, body string) {
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}

func TestTooOldServerIsRefused(t *testing.T) {
	t.Parallel()
	dir, o := fakePodman(t)
	_ = dir
	serve(t, filepath.Join(o.RuntimeDir, "podman", "podman.sock"), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Libpod-API-Version", "3.4.4")
	}))
	if _, err := libpod.Dial(soon(t), o); err == nil || !strings.Contains(err.Error(), "3.4.4") {
		t.Errorf("got %v", err)
	}
}

// The bindings quote a reply they cannot decode, with whatever secrets it holds.
func TestUndecodableReplyIsNotQuoted(t *testing.T) {
	t.Parallel()
	c := recorded(t, "5.4.2", func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "bad-error") {
			reply(w, 500, `{"cause": hunter2`)
			return
		}
		reply(w, 200, `{"Id": 7, "Config": {"Env": ["PASSWORD=hunter2"]}}`)
	})
	for _, name := range []string{"x", "bad-error"} {
		_, err := c.InspectContainer(soon(t), name)
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// The bindings would send it three times, and if it has a body report that the
// second time there was none.
func TestLostRequestIsSentOnceAndTemporary(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	c := recorded(t, "5.4.2", func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	})
	for name, call := range map[string]func() error{
		"without a body": func() error { return c.StartContainer(soon(t), "a") },
		"with a body": func() error {
			_, err := c.CreateContainer(soon(t), libpod.ContainerSpec{Name: "a", TaskID: "t", Image: "i"})
			return err
		},
	} {
		requests.Store(0)
		err := call()
		var e *libpod.Error
		if !errors.As(err, &e) || e.Class != libpod.Temporary || strings.Contains(e.Cause, "Length") {
			t.Errorf("%s: got %v", name, err)
		}
		if n := requests.Load(); n != 1 {
			t.Errorf("%s: sent %d times", name, n)
		}
	}
}

func TestCanceledCallEndsThoughServerIsSilent(t *testing.T) {
	t.Parallel()
	entered := make(chan struct{}, 16)
	c := recorded(t, "5.4.2", func(_ http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		<-r.Context().Done()
	})
	calls := map[string]func(ctx context.Context) error{
		"inspect": func(ctx context.Context) error { _, err := c.InspectContainer(ctx, "x"); return err },
		"pull": func(ctx context.Context) error {
			_, err := c.Pull(ctx, "localhost/x:1", libpod.PullOptions{})
			return err
		},
		"wait":   func(ctx context.Context) error { return c.WaitContainer(ctx, "x") },
		"events": func(ctx context.Context) error { return c.Events(ctx, func(libpod.Event) {}) },
		"logs": func(ctx context.Context) error {
			return c.Logs(ctx, "x", libpod.LogOptions{}, func(libpod.LogLine) {})
		},
	}
	for name, call := range calls {
		ctx, cancel := context.WithCancel(soon(t))
		done := make(chan error, 1)
		go func() { done <- call(ctx) }()
		<-entered
		cancel()
		if err := <-done; !errors.Is(err, libpod.Canceled) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Podman carries on with a start whose client has gone. A call that returned before it has
// would let its caller look for the process too early.
func TestCanceledStartReturnsWithTheReply(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(soon(t))
	c := recorded(t, "5.4.2", func(w http.ResponseWriter, _ *http.Request) {
		cancel()
		w.WriteHeader(http.StatusNoContent)
	})
	if err := c.StartContainer(ctx, "x"); err != nil {
		t.Error(err)
	}
}

// An inspection that the end of the process has disturbed is repeated.
func TestInspectionWhileTheProcessEnds(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	c := recorded(t, "4.3.1", func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			reply(w, http.StatusInternalServerError, `{"cause":"no such process","message":"read /proc/29643/cgroup: no such process","response":500}`)
			return
		}
		reply(w, http.StatusOK, `{"Name":"x","State":{"Status":"exited","ExitCode":7,"StartedAt":"2026-01-01T00:00:00Z","FinishedAt":"2026-01-01T00:00:01Z"}}`)
	})
	if o, err := c.InspectContainer(soon(t), "x"); err != nil || o.Status != libpod.Exited || o.ExitCode != 7 || asked.Load() != 2 {
		t.Errorf("%+v, %v after %d requests", o, err, asked.Load())
	}
}

// Podman 4.3 cannot list its images while one of them is being stored or removed, nor while one has
// no manifest.
func TestListWithAnImageThatIsIncomplete(t *testing.T) {
	t.Parallel()
	const removed = `{"cause":"x","message":"reading data blob size \"signature-88\": size is not known","response":500}`
	const incomplete = `{"cause":"file does not exist","message":"locating item named \"manifest\" for image with ID \"09da\" (consider removing the image to resolve the issue): file does not exist","response":500}`
	for _, tt := range []struct {
		name, answer string
		times        int32
		want         error
		contains     string
	}{
		{"while it is stored", incomplete, 3, nil, ""},
		{"for good", incomplete, 1000, libpod.Other, `image with ID "09da" (consider removing the image`},
		{"while one is removed", removed, 3, nil, ""},
		{"while many are removed", removed, 1000, libpod.Temporary, "removed during every attempt"},
	} {
		var asked atomic.Int32
		c := recorded(t, "4.3.1", func(w http.ResponseWriter, _ *http.Request) {
			if asked.Add(1) <= tt.times {
				reply(w, http.StatusInternalServerError, tt.answer)
				return
			}
			reply(w, http.StatusOK, `[{"Id":"09da","RepoTags":["localhost/a:1"]}]`)
		})
		list, err := c.Images(soon(t))
		switch {
		case tt.want == nil:
			if err != nil || len(list) != 1 || asked.Load() != tt.times+1 {
				t.Errorf("%s: %v, %v after %d requests", tt.name, list, err, asked.Load())
			}
		case !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.contains):
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// Canceling one call, or the context of Dial, must not end the connection.
func TestConnectionOutlivesContexts(t *testing.T) {
	t.Parallel()
	_, o := fakePodman(t)
	ctx, cancel := context.WithCancel(soon(t))
	c, err := libpod.Dial(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cancel()
	if _, err := c.InspectContainer(ctx, "x"); !errors.Is(err, libpod.Canceled) {
		t.Errorf("canceled call: %v", err)
	}
	if _, err := c.InspectContainer(soon(t), "x"); err != nil {
		t.Errorf("next call: %v", err)
	}
}

func TestPull(t *testing.T) {
	t.Parallel()
	tests := []struct {
		rule     string
		status   int
		stream   string
		class    libpod.Class
		id       string
		progress []string
	}{
		{rule: "the last image's id is the result", status: 200,
			stream:   `{"stream":"Trying to pull x...\nGetting image "}` + "\n" + `{"stream":"source signatures\n"}` + "\n" + `{"images":["aaa","bbb"],"id":"bbb"}`,
			id:       "bbb",
			progress: []string{"Trying to pull x...", "Getting image source signatures"}},
		{rule: "an error inside a good reply is an error", status: 200,
			stream:   `{"stream":"Trying to pull x...\n"}` + "\n" + `{"error":"initializing source docker://x: reading manifest 1 in x: manifest unknown"}`,
			class:    libpod.NoImage,
			progress: []string{"Trying to pull x..."}},
		{rule: "an unreachable registry is temporary", status: 200, class: libpod.Temporary,
			stream: `{"error":"pinging container registry 127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused"}`},
		{rule: "refused credentials are told apart", status: 200, class: libpod.Unauthorized,
			stream: `{"error":"initializing source docker://x: unable to retrieve auth token: invalid username/password: unauthorized"}`},
		{rule: "and so is a refusal", status: 200, class: libpod.Denied,
			stream: `{"error":"initializing source docker://x: reading manifest 1 in x: denied: not for you"}`},
		{rule: "a full disk is told apart", status: 200, class: libpod.NoSpace,
			stream: `{"error":"copying system image from manifest list: writing blob: storing blob to file \"/var/tmp/x\": write /var/tmp/x: no space left on device"}`},
		{rule: "a file that cannot be read is no refusal of the registry", status: 200, class: libpod.Other,
			stream: `{"error":"open /x: permission denied: mkdir"}`},
		{rule: "a stream that breaks off is temporary", status: 200, class: libpod.Temporary, stream: `{"stream":"Try`},
		{rule: "a stream without a result is temporary", status: 200, class: libpod.Temporary, stream: ``},
		{rule: "a bad reference is invalid", status: 400, class: libpod.InvalidSpec,
			stream: `{"cause":"invalid reference format","message":"parsing reference: invalid reference format","response":400}`},
	}
	for _, p := range tests {
		t.Run(p.rule, func(t *testing.T) {
			t.Parallel()
			c := recorded(t, "4.3.1", func(w http.ResponseWriter, _ *http.Request) { reply(w, p.status, p.stream) })
			var lines []string
			id, err := c.Pull(soon(t), "localhost/x:1", libpod.PullOptions{Progress: func(p libpod.Progress) { lines = append(lines, p.Line) }})
			if id != p.id || (err == nil) != (p.id != "") || (err != nil && !errors.Is(err, p.class)) {
				t.Errorf("id %q, %v; want %q, %v", id, err, p.id, p.class)
			}
			if fmt.Sprint(lines) != fmt.Sprint(p.progress) {
				t.Errorf("progress %q, want %q", lines, p.progress)
			}
		})
	}
}

// A registry without TLS is named with what allows it, as its location in registries.conf.
func TestPullFromARegistryWithoutTLS(t *testing.T) {
	t.Parallel()
	c := recorded(t, "5.4.2", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, `{"error":"initializing source docker://127.0.0.1:5000/x:1: pinging container registry 127.0.0.1:5000: Get \"https://127.0.0.1:5000/v2/\": http: server gave HTTP response to HTTPS client"}`)
	})
	_, err := c.Pull(soon(t), "127.0.0.1:5000/x:1", libpod.PullOptions{})
	if err == nil || !strings.Contains(err.Error(), `insecure = true in registries.conf, in the [[registry]] with location = "127.0.0.1:5000"`) || !strings.Contains(err.Error(), "podman system service") {
		t.Errorf("it says %v", err)
	}
}

// From 4.8 on a pull is reported in bytes: in Docker's messages, with an error as
// an HTTP status where it came first, and the id cut short.
func TestPullInBytes(t *testing.T) {
	t.Parallel()
	const good = `{"status":"Pulling fs layer","id":"aaaaaaaaaaaa"}` + "\n" +
		`{"status":"Already exists","id":"bbbbbbbbbbbb"}` + "\n" +
		`{"status":"Downloading","progressDetail":{"current":5,"total":10},"id":"aaaaaaaaaaaa"}` + "\n" +
		`{"status":"Download complete","id":"aaaaaaaaaaaa"}` + "\n" +
		`{"status":"Download complete","id":"0123456789ab"}`
	const whole = "0123456789abcdef"
	tests := []struct {
		rule     string
		status   int
		stream   string
		id       string
		class    libpod.Class
		progress []libpod.Progress
	}{
		{rule: "layers and then the id", status: 200, stream: good, id: whole, progress: []libpod.Progress{
			{Layer: "aaaaaaaaaaaa"}, {Layer: "bbbbbbbbbbbb", Done: true, Existed: true},
			{Layer: "aaaaaaaaaaaa", Current: 5, Total: 10}, {Layer: "aaaaaaaaaaaa", Done: true},
		}},
		{rule: "an image that was there", status: 200, stream: `{"status":"Download complete","id":"0123456789ab"}`, id: whole},
		{rule: "the words of 5.4", status: 200, stream: `{"status":"Pull complete","id":"0123456789ab"}`, id: whole},
		{rule: "a stream that ends early, with another image there", status: 200, class: libpod.Temporary,
			stream: `{"status":"Already exists","id":"aaaaaaaaaaaa"}`, progress: []libpod.Progress{{Layer: "aaaaaaaaaaaa", Done: true, Existed: true}}},
		{rule: "an error before any progress", status: 500, stream: `{"message":"manifest unknown"}`, class: libpod.NoImage},
		{rule: "an error before any progress in a good reply", status: 200, stream: `{"message":"manifest unknown"}`, class: libpod.NoImage},
		{rule: "an error in the middle", status: 200, class: libpod.Denied, progress: []libpod.Progress{{Layer: "aaaaaaaaaaaa"}},
			stream: `{"status":"Pulling fs layer","id":"aaaaaaaaaaaa"}{"errorDetail":{"message":"denied: no"},"error":"reading blob: denied: no"}`},
		{rule: "an error in the middle in the words of 6.0", status: 200, class: libpod.NoSpace, progress: []libpod.Progress{{Layer: "aaaaaaaaaaaa"}},
			stream: `{"status":"Pulling fs layer","id":"aaaaaaaaaaaa"}{"errorDetail":{"message":"copying blob: no space left on device"},"progressDetail":{}}`},
	}
	for _, p := range tests {
		t.Run(p.rule, func(t *testing.T) {
			t.Parallel()
			c := recorded(t, "5.4.2", func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/images/localhost/x:1/json") {
					reply(w, 200, `{"Id":"`+whole+`"}`)
					return
				}
				if q := r.URL.Query(); q.Get("compatMode") != "true" || q.Get("policy") != "always" {
					t.Errorf("asked with %s", r.URL.RawQuery)
				}
				reply(w, p.status, p.stream)
			})
			var steps []libpod.Progress
			id, err := c.Pull(soon(t), "localhost/x:1", libpod.PullOptions{Progress: func(p libpod.Progress) { steps = append(steps, p) }})
			if id != p.id || (err == nil) != (p.id != "") || (err != nil && !errors.Is(err, p.class)) {
				t.Errorf("id %q, %v; want %q, %v", id, err, p.id, p.class)
			}
			if fmt.Sprint(steps) != fmt.Sprint(p.progress) {
				t.Errorf("progress %v, want %v", steps, p.progress)
			}
		})
	}
}

func TestPullThatGoesSilent(t *testing.T) {
	t.Parallel()
	for _, p := range []struct {
		rule, stream, says string
		options            libpod.PullOptions
	}{
		{"before the first byte", "", "no data arrived", libpod.PullOptions{FirstByte: 1}},
		{"between two layers", `{"status":"Already exists","id":"aaaaaaaaaaaa"}`, "no data arrived", libpod.PullOptions{FirstByte: 50 * time.Millisecond}},
		{"in the middle of a layer", `{"status":"Pulling fs layer","id":"aaaaaaaaaaaa"}`, "made no progress", libpod.PullOptions{Idle: 1}},
	} {
		t.Run(p.rule, func(t *testing.T) {
			t.Parallel()
			c := recorded(t, "5.4.2", func(w http.ResponseWriter, r *http.Request) {
				reply(w, 200, p.stream)
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			})
			_, err := c.Pull(soon(t), "localhost/x:1", p.options)
			if !errors.Is(err, libpod.Temporary) || !strings.Contains(err.Error(), p.says) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// The login of one pull goes alone, and is in no text. An identity token goes without a
// name: Podman 5 takes one or the other.
func TestPullWithALogin(t *testing.T) {
	t.Parallel()
	for _, p := range []struct {
		login libpod.Login
		want  string
	}{
		{libpod.Login{Username: "alice", Password: "hunter2"}, `{"password":"hunter2","username":"alice"}`},
		{libpod.Login{Username: "alice", IdentityToken: "hunter2"}, `{"identitytoken":"hunter2"}`},
	} {
		c := recorded(t, "5.4.2", func(w http.ResponseWriter, r *http.Request) {
			text, err := base64.URLEncoding.DecodeString(r.Header.Get("X-Registry-Auth"))
			if err != nil || string(text) != p.want {
				t.Errorf("header %s, %v; want %s", text, err, p.want)
			}
			if q := r.URL.Query(); q.Get("OS") != "linux" || q.Get("Arch") != "arm64" || strings.Contains(r.URL.String(), "hunter2") {
				t.Errorf("asked with %s", r.URL.RawQuery)
			}
			reply(w, 500, `{"message":"unauthorized: no"}`)
		})
		o := libpod.PullOptions{Login: p.login, OS: "linux", Arch: "arm64"}
		_, err := c.Pull(soon(t), "localhost/x:1", o)
		if !errors.Is(err, libpod.Unauthorized) || strings.Contains(fmt.Sprintf("%v %+v", err, o), "hunter2") {
			t.Errorf("got %v, %+v", err, o)
		}
	}
}

// The binding ends a pull that is canceled in mid-stream without an error.
func TestPullCanceledInMidStream(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(soon(t))
	defer cancel()
	c := recorded(t, "5.4.2", func(w http.ResponseWriter, r *http.Request) {
		reply(w, 200, `{"stream":"one\n"}{"stream":"two\n"}`)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	_, err := c.Pull(ctx, "localhost/x:1", libpod.PullOptions{Progress: func(libpod.Progress) { cancel() }})
	if !errors.Is(err, libpod.Canceled) {
		t.Errorf("got %v", err)
	}
}

// Calls that change something are limited. Stops that wait for their containers are not: ten of them take as long as one.
func TestMutationsAreLimited(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(context.Context, *libpod.Client) error{
		"start": func(ctx context.Context, c *libpod.Client) error { return c.StartContainer(ctx, "x") },
		"stop":  func(ctx context.Context, c *libpod.Client) error { return c.StopContainer(ctx, "x", 0) },
	} {
		t.Run(name, func(t *testing.T) { atMostFour(t, call) })
	}
}

func atMostFour(t *testing.T, call func(context.Context, *libpod.Client) error) {
	t.Helper()
	var mu sync.Mutex
	running, most := 0, 0
	full := make(chan struct{})
	var once sync.Once
	release := make(chan struct{})
	c := recorded(t, "5.4.2", func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		if running++; running == 4 {
			once.Do(func() { close(full) })
		}
		most = max(most, running)
		mu.Unlock()
		<-release
		mu.Lock()
		running--
		mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	})
	var wg sync.WaitGroup
	for range 12 {
		wg.Go(func() {
			if err := call(soon(t), c); err != nil {
				t.Error(err)
			}
		})
	}
	<-full
	// All slots are taken, and waiting for one ends with the context.
	ctx, cancel := context.WithCancel(soon(t))
	cancel()
	if err := call(ctx, c); !errors.Is(err, libpod.Canceled) {
		t.Errorf("after the context has ended: %v", err)
	}
	close(release)
	wg.Wait()
	if most != 4 {
		t.Errorf("%d calls at once", most)
	}
}

func TestStopsAreNotLimited(t *testing.T) {
	t.Parallel()
	const n = 10
	var all sync.WaitGroup
	all.Add(n)
	c := recorded(t, "5.4.2", func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			reply(w, 200, `{"Id":"x","Name":"x"}`)
			return
		}
		all.Done()
		all.Wait() // returns only if all are here at once
		w.WriteHeader(http.StatusNoContent)
	})
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if err := c.StopContainer(soon(t), "x", time.Second); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// Podman finds a container by a prefix of its id as well.
func TestContainerFoundByPrefixIsNotTheOneAsked(t *testing.T) {
	t.Parallel()
	c := recorded(t, "5.4.2", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, `{"Id":"abc123","Name":"other","State":{"Status":"running"}}`)
	})
	for name, want := range map[string]libpod.Status{"abc": libpod.Absent, "other": libpod.Running, "abc123": libpod.Running} {
		if o, err := c.InspectContainer(soon(t), name); err != nil || o.Status != want {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
	}
}

// A probe that fails because the container ended meanwhile is no verdict.
func TestProbeOfContainerThatEndedMeanwhile(t *testing.T) {
	t.Parallel()
	c := recorded(t, "5.4.2", func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/healthcheck") {
			reply(w, 200, `{"Status":"unhealthy","FailingStreak":0,"Log":null}`)
			return
		}
		reply(w, 200, `{"Id":"abc","Name":"x","State":{"Status":"exited","ExitCode":1}}`)
	})
	if _, err := c.Probe(soon(t), "x"); !errors.Is(err, libpod.NotRunning) {
		t.Errorf("got %v", err)
	}
}

// Events that are not ours are dropped here, since 4.3.1 has no filter for it.
func TestEventsPassOnlyOurs(t *testing.T) {
	t.Parallel()
	c := recorded(t, "4.3.1", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, `{"status":"start","id":"1","Type":"container","Action":"start","Actor":{"ID":"1","Attributes":{"name":"other","containerExitCode":"0"}},"time":1,"timeNano":1000000001}
{"status":"died","id":"2","Type":"container","Action":"died","Actor":{"ID":"2","Attributes":{"name":"ours","podtask.task-id":"t1","containerExitCode":"0"}},"time":1,"timeNano":1000000002}
`)
	})
	var got []libpod.Event
	err := c.Events(soon(t), func(e libpod.Event) { got = append(got, e) })
	if !errors.Is(err, libpod.Temporary) {
		t.Errorf("a stream that ends: %v", err)
	}
	if len(got) != 1 || got[0].Name != "ours" || got[0].Action != "died" || got[0].TaskID != "t1" || got[0].ID != "2" || got[0].Time.UnixNano() != 1000000002 {
		t.Errorf("got %+v", got)
	}
}

// Podman says "no such container" of a whole removal when another process removed
// one of the pod's containers meanwhile.
func TestPodThatIsStillThereIsNotCalledRemoved(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		exists bool
		want   error // nil: removed
	}{{"still there", true, libpod.Temporary}, {"gone", false, nil}} {
		removed := false
		client := recorded(t, "5.4.2", func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method == http.MethodDelete:
				removed = true
				reply(w, 404, `{"cause":"no such container","message":"removing pod: no such container","response":404}`)
			case c.exists || !removed:
				reply(w, 200, `{"Name":"web","Labels":{"podtask.task-id":"t"},"InfraContainerID":"1","Containers":[{"Id":"1","State":"stopped"}]}`)
			default:
				reply(w, 404, `{"cause":"no such pod","message":"no such pod","response":404}`)
			}
		})
		if err := client.RemovePod(soon(t), "web", "t"); c.want == nil && err != nil || !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
}

// A removal that was cut off has left a container without storage, which Podman lists and cannot inspect.
func TestAContainerWithoutStorageIsRemovedWithoutAnInspection(t *testing.T) {
	t.Parallel()
	for _, cause := range []string{`getting container from store \"2\": container not known`, `reading information about layer \"3\": layer not known`} {
		testWithoutStorage(t, `{"cause":"x","message":"`+cause+`","response":500}`)
	}
}

func testWithoutStorage(t *testing.T, broken string) {
	t.Helper()
	var removed []string
	client := recorded(t, "5.4.2", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/pods/web") && len(removed) == 0:
			reply(w, 500, broken)
		case r.Method == http.MethodDelete:
			removed = append(removed, path.Base(r.URL.Path))
			reply(w, 200, map[bool]string{true: `{"Id":"x"}`, false: `[{"Id":"x"}]`}[strings.Contains(r.URL.Path, "/pods/")])
		case strings.HasSuffix(r.URL.Path, "/pods/web/json"):
			reply(w, 200, `{"Name":"web","Labels":{"podtask.task-id":"t"},"Containers":[{"Id":"2","Name":"web-app","State":"removing"}]}`)
		case strings.HasSuffix(r.URL.Path, "/containers/json"):
			if filters := r.URL.Query().Get("filters"); !strings.Contains(filters, "podtask.task-id=t") && !strings.Contains(filters, `"pod":["web"]`) {
				t.Errorf("it lists %s", filters)
			}
			reply(w, 200, `[{"Id":"2","Names":["web-app"],"State":"removing","Labels":{"podtask.task-id":"t"}}]`)
		default:
			reply(w, 500, broken)
		}
	})
	if _, err := client.InspectContainer(soon(t), "web-app"); strings.Contains(broken, "container not known") && (!errors.Is(err, libpod.Interrupted) || !strings.Contains(err.Error(), "podman rm --force")) {
		t.Errorf("an inspection says %v", err)
	}
	if err := client.RemovePod(soon(t), "web", "t"); err != nil || !slices.Equal(removed, []string{"2", "web"}) {
		t.Errorf("the pod: %v, removed %v", err, removed)
	}
	if err := client.RemoveContainer(soon(t), "web-app", "t"); err != nil || !slices.Equal(removed, []string{"2", "web", "2"}) {
		t.Errorf("the container: %v, removed %v", err, removed)
	}
}

// A container that the client has made, and that has ended, is the task's: it is not inspected before its pod is removed. One of
// a user is.
func TestOwnContainersAreNotInspectedBeforeTheirRemoval(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		id, state string
		want      []string
	}{
		{"2", "exited", []string{"GET web", "DELETE web"}},
		{"2", "paused", []string{"GET web", "GET 2", "DELETE web"}},
		{"3", "exited", []string{"GET web", "GET 3"}},
	} {
		var asked []string
		client := recorded(t, "5.4.2", func(w http.ResponseWriter, r *http.Request) {
			switch part := strings.Split(strings.TrimSuffix(r.URL.Path, "/json"), "/"); {
			case r.Method == http.MethodPost:
				reply(w, 201, `{"Id":"2"}`)
				return
			default:
				asked = append(asked, r.Method+" "+part[len(part)-1])
			}
			switch {
			case r.Method == http.MethodDelete:
				reply(w, 200, `{"Id":"web"}`)
			case strings.Contains(r.URL.Path, "/pods/"):
				reply(w, 200, fmt.Sprintf(`{"Name":"web","Labels":{"podtask.task-id":"t"},"Containers":[{"Id":%q,"Name":"web-app","State":%q}]}`, c.id, c.state))
			default:
				reply(w, 200, fmt.Sprintf(`{"Id":%q,"Name":"web-app","Config":{"Labels":{"podtask.task-id":%q}}}`, c.id, map[string]string{"2": "t"}[c.id]))
			}
		})
		if _, err := client.CreateContainer(soon(t), libpod.ContainerSpec{Name: "web-app", TaskID: "t", Pod: "web", Image: "x"}); err != nil {
			t.Fatal(err)
		}
		asked = nil
		if err := client.RemovePod(soon(t), "web", "t"); c.id == "2" && err != nil || c.id != "2" && !errors.Is(err, libpod.Conflict) {
			t.Errorf("%s %s: %v", c.id, c.state, err)
		}
		if !slices.Equal(asked, c.want) {
			t.Errorf("%s %s: it asks for %q, want %q", c.id, c.state, asked, c.want)
		}
	}
}

// A pod without its infra container cannot be inspected. It is not gone.
func TestPodWithoutItsInfraContainerIsNotCalledGone(t *testing.T) {
	t.Parallel()
	client := recorded(t, "5.4.2", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 500, `{"cause":"no such container","message":"no container with ID 1 found in database: no such container","response":500}`)
	})
	if err := client.StopPod(soon(t), "web", "t", time.Second); !errors.Is(err, libpod.Temporary) {
		t.Errorf("stop: %v", err)
	}
	if err := client.RemovePod(soon(t), "web", "t"); !errors.Is(err, libpod.Temporary) {
		t.Errorf("remove: %v", err)
	}
}

// Podman carries a create out though the client has given up. A caller who then
// removed, and found nothing, would leave what is made after.
func TestCreateThatWasSentIsWaitedFor(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	c := recorded(t, "5.4.2", func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			reply(w, 200, `{"Id":"i"}`)
			return
		}
		close(entered)
		<-release
		reply(w, 201, `{"Id":"abc"}`)
	})
	ctx, cancel := context.WithCancel(soon(t))
	type outcome struct {
		id  string
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		made, err := c.CreateContainer(ctx, libpod.ContainerSpec{Name: "a", TaskID: "t", Image: "i", User: "0"})
		done <- outcome{made.ID, err}
	}()
	<-entered
	cancel()
	close(release)
	if got := <-done; got.id != "abc" || got.err != nil {
		t.Errorf("got %+v", got)
	}
	if _, err := c.CreateContainer(ctx, libpod.ContainerSpec{Name: "b", TaskID: "t", Image: "i", User: "0"}); !errors.Is(err, libpod.Canceled) {
		t.Errorf("one that was not sent: %v", err) // sent, it would close entered again
	}
}

// A service that is killed in the middle of a create leaves the name in its
// storage and knows no container by it.
func TestNameLeftInStorageIsFreed(t *testing.T) {
	t.Parallel()
	const taken = `the container name \"a\" is already in use by 123. You have to remove that container to be able to reuse that name: that name is already in use`
	for _, tt := range []struct {
		name, cause string
		want        error
		removals    int32
	}{
		{"left in storage", "creating container storage: " + taken, libpod.Temporary, 1},
		{"a pod's", taken, libpod.Conflict, 0},
	} {
		var removals atomic.Int32
		c := recorded(t, "4.3.1", func(w http.ResponseWriter, r *http.Request) {
			switch r.Method {
			case http.MethodPost:
				reply(w, 500, `{"cause":"that name is already in use","message":"`+tt.cause+`","response":500}`)
			case http.MethodDelete:
				removals.Add(1)
				reply(w, 200, `[{"Id":"a"}]`)
			default:
				if strings.Contains(r.URL.Path, "/images/") {
					reply(w, 200, `{"Id":"i"}`)
					return
				}
				reply(w, 404, `{"cause":"no such container","message":"no such container","response":404}`)
			}
		})
		_, err := c.CreateContainer(soon(t), libpod.ContainerSpec{Name: "a", TaskID: "t", Image: "i", User: "0"})
		if !errors.Is(err, tt.want) || removals.Load() != tt.removals {
			t.Errorf("%s: got %v after %d removals", tt.name, err, removals.Load())
		}
	}
}

// Podman 4.3 keeps a pod whose infra container it could not make. Once the name is free, the pod is
// made again.
func TestNameOfAnInfraContainerLeftInStorageIsFreed(t *testing.T) {
	t.Parallel()
	var labels, removed string
	c := recorded(t, "4.3.1", func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodPost:
			var spec struct{ Labels json.RawMessage }
			if err := json.NewDecoder(r.Body).Decode(&spec); err != nil {
				t.Error(err)
			}
			labels = string(spec.Labels)
			reply(w, 500, `{"cause":"that name is already in use","message":"creating container storage: the container name \"p-infra\" is already in use by 123","response":500}`)
		case http.MethodDelete:
			removed = path.Base(r.URL.Path)
			reply(w, 200, `[{"Id":"a"}]`)
		default:
			reply(w, 200, `{"Id":"a","Name":"p","Created":"`+time.Now().Format(time.RFC3339)+`","Labels":`+labels+`}`)
		}
	})
	_, err := c.CreatePod(soon(t), libpod.PodSpec{Name: "p", TaskID: "t"})
	if !errors.Is(err, libpod.Interrupted) || removed != "p-infra" {
		t.Errorf("got %v after the removal of %q", err, removed)
	}
}

// A layer that is larger than its manifest says is not downloaded to its end.
func TestPullOfAnEndlessLayerIsAborted(t *testing.T) {
	t.Parallel()
	c := recorded(t, "5.4.2", func(w http.ResponseWriter, r *http.Request) {
		reply(w, 200, "")
		for n := 0; r.Context().Err() == nil; n += 1 << 18 {
			if _, err := fmt.Fprintf(w, `{"status":"Downloading","id":"0123456789ab","progressDetail":{"current":%d,"total":1000}}`+"\n", n); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
		}
	})
	_, err := c.Pull(soon(t), "localhost/x:1", libpod.PullOptions{})
	if !errors.Is(err, libpod.WrongContent) || !strings.Contains(err.Error(), "1000 bytes") {
		t.Errorf("got %v", err)
	}
}

// The cleanup after a process that has ended comes late, and ends the process of a container
// that was initialized meanwhile.
func TestContainerWhoseNewProcessIsEndedByALateCleanupIsInitializedAgain(t *testing.T) {
	t.Parallel()
	for cleanups, want := range map[int32]error{1: nil, 2: libpod.Temporary} {
		var initialized atomic.Int32
		c := recorded(t, "4.3.1", func(w http.ResponseWriter, r *http.Request) {
			if path.Base(r.URL.Path) == "init" {
				initialized.Add(1)
				w.WriteHeader(http.StatusNoContent)
				return
			}
			pid := 0
			if initialized.Load() > cleanups {
				pid = 7
			}
			_, _ = fmt.Fprintf(w, `{"Id": "c", "State": {"Status": "initialized", "Pid": %d}}`, pid)
		})
		o, err := c.InitContainer(t.Context(), "c", libpod.OwnNetwork{})
		if !errors.Is(err, want) || initialized.Load() != 2 || want == nil && o.PID != 7 {
			t.Errorf("after %d cleanups: initialized %d times, process %d, error %v", cleanups, initialized.Load(), o.PID, err)
		}
	}
}

// A start finds the namespace of bridge networks incomplete, and then that another container
// runs in it: another start has had Podman make it again, or it is left alone.
func TestNamespaceOfBridgesThatIsInUse(t *testing.T) {
	t.Parallel()
	for name, repaired := range map[string]bool{"repaired": true, "incomplete": false} {
		t.Run(name, func(t *testing.T) { startInUsedNamespace(t, repaired) })
	}
}

func startInUsedNamespace(t *testing.T, repaired bool) {
	t.Helper()
	_, o := fakePodman(t)
	if last := filepath.Join(o.RuntimeDir, "libpod", "tmp", "rootless-netns", o.RuntimeDir, "netns"); repaired {
		if err := os.MkdirAll(last, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	var starts atomic.Int32
	serve(t, filepath.Join(o.RuntimeDir, "podman", "podman.sock"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/_ping"):
			w.Header().Set("Libpod-API-Version", "4.3.1")
		case strings.HasSuffix(r.URL.Path, "/info"):
			reply(w, 200, `{"store": {"graphRoot": "/nowhere"}}`)
		case strings.HasSuffix(r.URL.Path, "/containers/json"):
			reply(w, 200, `[{"Names": ["other"], "Networks": ["podman"]}]`)
		case starts.Add(1) == 1:
			reply(w, 500, `{"message": "failed to mount runtime directory for rootless netns: no such file or directory", "response": 500}`)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	err := mustDial(t, o).StartContainer(soon(t), "second")
	want := map[bool]int32{true: 2, false: 1}[repaired]
	if n := starts.Load(); n != want || (err == nil) != repaired {
		t.Errorf("it is started %d times, want %d: %v", n, want, err)
	}
}

// Podman's code panics at the start of a container whose initialization was cut off. Only one that
// has no process can be made again: the program of another may run.
func TestStartThatMakesPodmanPanic(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]libpod.Class{
		`{"Status":"created","Pid":0}`:                                libpod.Interrupted,
		fmt.Sprintf(`{"Status":"initialized","Pid":%d}`, os.Getpid()): libpod.Other,
		`{"Status":"initialized","Pid":0}`:                            libpod.Interrupted,
		fmt.Sprintf(`{"Status":"running","Pid":%d}`, os.Getpid()):     libpod.Other,
		`{"Status":"exited","Pid":0}`:                                 libpod.Other,
	} {
		c := recorded(t, "5.4.2", func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				reply(w, http.StatusInternalServerError, `{"message":"runtime error: invalid memory address or nil pointer dereference","response":500}`)
				return
			}
			reply(w, http.StatusOK, fmt.Sprintf(`{"Id":%q,"Name":"x","State":%s}`, exitID, state))
		})
		if err := c.StartContainer(t.Context(), "x"); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", state, err, want)
		}
	}
}
