package kubenode

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/podtask/podtask/internal/kube/kubepods"
	"github.com/podtask/podtask/internal/sleep"
	"github.com/podtask/podtask/internal/testing/kubetest"
	"github.com/podtask/podtask/pkg/api"
)

// Client-go delays callers by the time of the last error of the process, which is no time of a
// fake clock.
func init() { utilruntime.ErrorHandlers = nil }

// remote is an API server that can be away: calls fail and watches end. When it is back, it
// no longer knows what has happened since a watch ended, as a real one after some minutes.
type remote struct {
	*fake.Clientset
	mu            sync.Mutex
	away, forgets bool
	watches       []watch.Interface
}

func newRemote(objects ...runtime.Object) *remote {
	r := &remote{Clientset: fake.NewClientset(objects...)}
	r.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.away {
			return true, nil, errors.New("connection refused")
		}
		return false, nil, nil
	})
	r.PrependWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.away {
			return true, nil, errors.New("connection refused")
		}
		if r.forgets {
			r.forgets = false
			return true, nil, apierrors.NewResourceExpired("too old resource version")
		}
		w, err := r.Tracker().Watch(a.GetResource(), a.GetNamespace())
		r.watches = append(r.watches, w)
		return true, w, err
	})
	return r
}

func (r *remote) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = true
	for _, w := range r.watches {
		w.Stop()
	}
	r.watches = nil
}

func (r *remote) come() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away, r.forgets = false, true
}

// An hour without the API server changes nothing on the host. Soon afterwards the cluster has
// what happened meanwhile, and the node what was asked for. The clock is a fake.
func TestAnHourWithoutTheAPIServer(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		steady, brief, unwanted := kubetest.Pod("steady", "u1"), kubetest.Pod("brief", "u2"), kubetest.Pod("unwanted", "u3")
		server, agent := newRemote(steady, brief, unwanted), kubetest.NewAgent()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- Run(ctx, Config{
				Identity: Identity{Name: "edge", Pods: 110}, Client: server, Agent: agent, Host: &hostStub{budget: api.Budget{CPU: 4, Memory: 1 << 32}},
				Log: slog.New(slog.DiscardHandler), Pace: kubepods.DefaultPace(), Dir: dir, Use: func(context.Context) (map[types.UID]kubepods.MemoryUse, error) { return nil, nil },
			})
		}()
		set := func(uid string, change func(*kubetest.Task)) {
			agent.Change(func() { change(agent.ByID["task-of-"+uid]) })
		}
		status := func(name string) corev1.PodStatus {
			p, err := server.Tracker().Get(corev1.SchemeGroupVersion.WithResource("pods"), "default", name)
			if err != nil {
				return corev1.PodStatus{Phase: "gone"}
			}
			return p.(*corev1.Pod).Status
		}
		sleep.For(t.Context(), time.Minute)
		for _, uid := range []string{"u1", "u2", "u3"} {
			set(uid, func(s *kubetest.Task) { s.Object.Status.Phase = corev1.PodRunning })
		}
		sleep.For(t.Context(), time.Minute)
		if status("steady").Phase != corev1.PodRunning {
			t.Fatalf("the Pod is %+v", status("steady"))
		}

		server.leave()
		sleep.For(t.Context(), 30*time.Minute)
		set("u1", func(s *kubetest.Task) {
			s.Object.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", RestartCount: 1}}
		})
		set("u2", func(s *kubetest.Task) { s.End(corev1.PodFailed) })
		now := metav1.Now() // a delete just before the API server went
		gone := unwanted.DeepCopy()
		gone.DeletionTimestamp, gone.DeletionGracePeriodSeconds = &now, new(int64(30))
		if err := server.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), gone, "default"); err != nil {
			t.Fatal(err)
		}
		sleep.For(t.Context(), 30*time.Minute)
		if asked := agent.Asked(); len(asked) != 0 || status("brief").Phase != corev1.PodRunning {
			t.Errorf("while the API server was away the agent was asked %v", asked)
		}

		server.come()
		sleep.For(t.Context(), 3*time.Minute) // a watch is tried again at least once a minute
		if got := status("steady"); len(got.ContainerStatuses) != 1 || got.ContainerStatuses[0].RestartCount != 1 {
			t.Errorf("the status of a Pod that was restarted is %+v", got)
		}
		if got := status("brief").Phase; got != corev1.PodFailed {
			t.Errorf("the Pod that has ended is %s", got)
		}
		if got := strings.Join(agent.Asked(), ", "); got != "stop task-of-u3, kill task-of-u3, remove task-of-u3" || status("unwanted").Phase != "gone" {
			t.Errorf("the agent was asked to %s", got)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
