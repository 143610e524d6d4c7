package instance

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/serve"
	"github.com/podtask/podtask/internal/serve/ownerapi"
	"github.com/podtask/podtask/internal/testing/ecsplane"
	"github.com/podtask/podtask/internal/testing/enginehost"
	"github.com/podtask/podtask/pkg/api"
)

// An instance ends one to eight milliseconds behind a payload that it has acknowledged, a hundred times, and each third time the
// agent ends with it. Each task runs, and none runs twice: Podman counts the starts. The agent is the real one, on a simulated Podman.
func TestShortTasksRunOnceWhateverEnds(t *testing.T) {
	const kills = 100
	host := enginehost.New(t)
	run, err := os.MkdirTemp("", "once") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(run) })
	socket := filepath.Join(run, "agent.sock")
	agent := func() (end func()) {
		e := host.Open()
		f, endFleet := host.RunFleet(e)
		b := serve.NewAgentBackend(ownerapi.Host{Engine: e, Log: slog.New(slog.DiscardHandler), StateDir: host.StateDir(), Patience: time.Minute}, nil, f, nil)
		l, err := api.Listen(socket)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := api.NewServer(b, api.ThisVersion("")).Serve(ctx, l); err != nil {
				t.Error(err)
			}
		})
		return func() {
			cancel()
			endFleet()
			wg.Wait()
			_ = e.Close()
		}
	}
	endAgent := agent()
	defer func() { endAgent() }()

	server := httptest.NewServer(nil)
	defer server.Close()
	plane := ecsplane.New(server.URL)
	server.Config.Handler = plane
	l := newLab(t, t.TempDir(), plane, &http.Transport{DisableKeepAlives: true})
	for service := range l.config.Calls.Endpoints {
		l.config.Calls.Endpoints[service] = server.URL
	}
	l.config.Agent = api.NewClient(socket)
	l.join()
	defer l.kill()
	for n := 1; n <= kills; n++ {
		acks, opened := len(plane.Of("acs", "AckRequest")), len(plane.Of("acs", "open"))
		if err := plane.Payload(fmt.Sprintf("payload-%d", n), n, simple(n, func(t map[string]any) {
			c := t["containers"].([]any)[0].(map[string]any)
			c["image"], c["command"] = enginehost.RegistryImage, []string{"exit", "3"}
		})); err != nil {
			t.Fatal(err)
		}
		l.wait("acs", "AckRequest", acks+1)
		<-time.After(time.Duration(1+n%8) * time.Millisecond)
		l.kill()
		if n%3 == 0 {
			endAgent()
			endAgent = agent()
		}
		l.start()
		l.wait("acs", "open", opened+1)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := plane.Wait(ctx, func([]ecsplane.Event) bool {
		stopped := make(map[string]bool)
		for _, body := range plane.Of("http", "SubmitTaskStateChange") {
			if c := decode(t, body); c.Status == "STOPPED" {
				stopped[c.Task] = true
			}
		}
		return len(stopped) == kills
	}); err != nil {
		t.Errorf("not all tasks end: %v", err)
	}
	if starts := host.Starts(); starts != kills {
		t.Errorf("%d tasks ran %d times", kills, starts)
	}
	for _, p := range plane.Problems() {
		t.Error(p)
	}
}

// A request is still in the agent when ECS stops the task: ECS is told of the end only when
// no task can come of that request any more.
func TestARequestOnTheWayMakesNothingAfterTheStop(t *testing.T) {
	t.Parallel()
	withLab(t, func(l *lab) {
		l.join()
		l.agent.setAway(true)
		l.payload("payload-1", 1, simple(1))
		l.agent.mu.Lock()
		l.agent.busy = 2
		l.agent.mu.Unlock()
		l.payload("payload-2", 2, simple(1, desired("STOPPED")))
		l.agent.setAway(false)
		l.pass(time.Minute)
		l.expect(1, "STOPPED")
		if _, err := l.agent.Create(t.Context(), api.NewTask{ClientToken: ecsplane.TaskARN(1)}); !api.Is(err, api.Gone) {
			t.Errorf("the request makes a task after the end was told: %v", err)
		}
		if l.agent.busy != 0 {
			t.Error("nobody asked whether a request is on the way")
		}
	})
}
