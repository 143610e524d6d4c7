//go:build kubescale

package kubenode

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/podtask/podtask/internal/kube/kubepods"
	"github.com/podtask/podtask/internal/kube/pressure"
	"github.com/podtask/podtask/internal/sleep"
	"github.com/podtask/podtask/internal/testing/controlplane"
	"github.com/podtask/podtask/internal/testing/kubetest"
	"github.com/podtask/podtask/pkg/api"
)

// counts counts the requests of nodes to the API server.
type counts struct{ requests, watches, sent, received atomic.Int64 }

func (c *counts) String() string {
	return fmt.Sprintf("%d requests, %d watches, %d KB sent, %d KB received", c.requests.Load(), c.watches.Load(), c.sent.Load()>>10, c.received.Load()>>10)
}

func (c *counts) reset() {
	c.requests.Store(0)
	c.sent.Store(0)
	c.received.Store(0)
}

// counting is a transport that counts bodies.
type counting struct {
	*counts
	next http.RoundTripper
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	watch := r.URL.Query().Get("watch") != ""
	c.requests.Add(1)
	c.sent.Add(max(r.ContentLength, 0))
	resp, err := c.next.RoundTrip(r)
	if err == nil {
		if watch {
			c.watches.Add(1)
		}
		resp.Body = &countedBody{resp.Body, c.counts, watch}
	}
	return resp, err
}

type countedBody struct {
	io.ReadCloser
	*counts
	watch bool
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.received.Add(int64(n))
	return n, err
}

func (b *countedBody) Close() error {
	if b.watch {
		b.watches.Add(-1)
	}
	return b.ReadCloser.Close()
}

// willing is an agent whose tasks run at once and stop when they are asked to.
type willing struct{ *kubetest.Agent }

func (a willing) Create(ctx context.Context, n api.NewTask) (api.Task, error) {
	made, err := a.Agent.Create(ctx, n)
	if err == nil {
		a.Change(func() {
			s := &a.ByID[made.ID].Object.Status
			now := corev1.ConditionTrue
			s.Phase = corev1.PodRunning
			s.Conditions = []corev1.PodCondition{{Type: corev1.PodInitialized, Status: now}, {Type: corev1.ContainersReady, Status: now}, {Type: corev1.PodReady, Status: now}}
		})
	}
	return made, err
}

func (a willing) Stop(ctx context.Context, id, by string, force bool) error {
	err := a.Agent.Stop(ctx, id, by, force)
	if err == nil && !force {
		a.Change(func() { a.ByID[id].End(corev1.PodSucceeded) })
	}
	return err
}

func number(name string, unset int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return unset
}

// TestScale measures what nodes cost the control plane and their host: NODES in one process,
// on agents that only say that tasks run, at rest and while a Deployment of PODS is rolled out.
func TestScale(t *testing.T) {
	count, pods := number("NODES", 200), number("PODS", 2000)
	plane, err := controlplane.Start(t.Context(), os.Getenv("PODTASK_CONTROLPLANE"), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer plane.Close()
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	var sum counts
	before := memory()
	for i := range count {
		c := scaleNode(t, plane, fmt.Sprintf("node-%d", i), &sum)
		all.Go(func() {
			if err := Run(ctx, c); err != nil {
				t.Error(err)
			}
		})
	}
	kubectl := func(input string, args ...string) string {
		t.Helper()
		out, err := plane.Kubectl(ctx, input, args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	until := func(args []string, want string) {
		t.Helper()
		for {
			if out, _ := plane.Kubectl(ctx, "", args...); out == want {
				return
			}
			if !sleep.For(ctx, time.Second) {
				t.Fatal(ctx.Err())
			}
		}
	}
	begin := time.Now()
	until([]string{"get", "nodes", "-o", `jsonpath={range .items[*]}{.status.conditions[?(@.type=="Ready")].status}{end}`}, strings.Repeat("True", count))
	t.Logf("%d nodes are Ready after %s: %s", count, time.Since(begin).Round(time.Second), &sum)
	rest := func(what string) {
		sum.reset()
		const time1 = time.Minute
		sleep.For(ctx, time1)
		t.Logf("%s, each node in a minute: %.1f requests, %.1f KB sent, %.1f KB received; %.1f watches; %.2f MB of memory", what, float64(sum.requests.Load())/float64(count),
			float64(sum.sent.Load())/1024/float64(count), float64(sum.received.Load())/1024/float64(count), float64(sum.watches.Load())/float64(count), (memory()-before)/float64(count))
	}
	rest("at rest")
	manifest := func(text string) string {
		return fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: %d, selector: {matchLabels: {app: web}},
template: {metadata: {labels: {app: web}}, spec: {containers: [{name: main, image: web, args: [%s]}]}}}}`, pods, text)
	}
	for _, text := range []string{"first", "second"} {
		sum.reset()
		begin = time.Now()
		kubectl(manifest(text), "apply", "-f", "-")
		kubectl("", "rollout", "status", "deployment/web", "--timeout=30m")
		t.Logf("a rollout (%s) of %d Pods took %s: %s; each Pod: %.1f requests, %.1f KB sent, %.1f KB received", text, pods, time.Since(begin).Round(time.Second), &sum,
			float64(sum.requests.Load())/float64(pods), float64(sum.sent.Load())/1024/float64(pods), float64(sum.received.Load())/1024/float64(pods))
	}
	rest(fmt.Sprintf("with %d Pods", pods))
}

// memory returns the memory of this process, in MB.
func memory() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapInuse+m.StackInuse) / (1 << 20)
}

func scaleNode(t *testing.T, plane *controlplane.Plane, name string, sum *counts) Config {
	t.Helper()
	file, err := plane.Node(name)
	if err != nil {
		t.Fatal(err)
	}
	access, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	access.QPS, access.Burst = 50, 100
	access.AcceptContentTypes, access.ContentType = "application/vnd.kubernetes.protobuf,application/json", "application/vnd.kubernetes.protobuf"
	access.WrapTransport = func(next http.RoundTripper) http.RoundTripper { return counting{sum, next} }
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		t.Fatal(err)
	}
	thresholds, err := pressure.ParseThresholds("")
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Identity: Identity{Name: name, Address: netip.MustParseAddr("127.0.0.1"), Version: "v0", Pods: 110}, Client: client,
		Agent: willing{kubetest.NewAgent()}, Host: &hostStub{budget: api.Budget{CPU: 8, Memory: 32 << 30}}, Log: slog.New(slog.DiscardHandler), Pace: kubepods.DefaultPace(),
		Dir: t.TempDir(), Access: access, Thresholds: thresholds, Use: func(context.Context) (map[types.UID]kubepods.MemoryUse, error) { return nil, nil },
	}
}
