package kubenode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"github.com/podtask/podtask/internal/kube/podmanifest"
	"github.com/podtask/podtask/pkg/api"
)

// agentStub has tasks that do what the test says.
type agentStub struct {
	mu      sync.Mutex
	tasks   map[string]*taskStub
	changed chan struct{} // closed at each change
	refusal error
	asked   []string // requests, as "stop ID"
	names   api.NodeNames
	tokens  []string        // of the requests
	gone    map[string]bool // tokens whose task has run and was removed
	slow    bool            // a task that is killed has failed, and is not settled yet
}

type taskStub struct {
	api.Task
	pod        corev1.Pod
	definition string
}

func newAgentStub() *agentStub {
	return &agentStub{tasks: make(map[string]*taskStub), changed: make(chan struct{})}
}

// change changes what there is.
func (a *agentStub) change(fn func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	fn()
	close(a.changed)
	a.changed = make(chan struct{})
}

func (a *agentStub) get(id string) (taskStub, chan struct{}, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.tasks[id]; t != nil {
		return *t, a.changed, nil
	}
	return taskStub{}, nil, api.Failed(api.NotFound, "no task %s", id)
}

func (a *agentStub) Tasks(context.Context) (out []api.Task, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range a.tasks {
		out = append(out, t.Task)
	}
	return out, nil
}

func (a *agentStub) Create(_ context.Context, n api.NewTask) (made api.Task, err error) {
	var list struct{ Items []json.RawMessage }
	var p corev1.Pod
	if err := json.Unmarshal(n.Definition, &list); err != nil {
		return made, err
	}
	if err := json.Unmarshal(list.Items[0], &p); err != nil {
		return made, err
	}
	a.change(func() {
		if err = a.refusal; err != nil {
			return
		}
		id := "task-of-" + string(p.UID)
		a.tokens = append(a.tokens, n.ClientToken)
		if a.gone[n.ClientToken] {
			err = api.Failed(api.Gone, "it has run and was removed")
			return
		}
		made = api.Task{ID: id, Name: n.Name, Status: "NONE", Goal: "UP", Pod: &api.PodRef{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)}}
		p.Status = corev1.PodStatus{Phase: corev1.PodPending}
		a.tasks[id] = &taskStub{Task: made, pod: p, definition: string(n.Definition)}
	})
	return made, err
}

func (a *agentStub) Watch(ctx context.Context, id string, fn func(api.Task) bool) error {
	for {
		t, changed, err := a.get(id)
		if err != nil {
			return err
		}
		if !fn(t.Task) || t.Settled {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (a *agentStub) Pod(_ context.Context, id string) (*corev1.Pod, error) {
	t, _, err := a.get(id)
	return t.pod.DeepCopy(), err
}

func (a *agentStub) Ask(_ context.Context, id string, what Request) (err error) {
	a.change(func() {
		a.asked = append(a.asked, map[Request]string{Stop: "stop ", ShutDown: "shut ", Kill: "kill ", Remove: "remove "}[what]+id)
		switch t := a.tasks[id]; {
		case t == nil:
			err = api.Failed(api.NotFound, "no task %s", id)
		case what == Remove:
			delete(a.tasks, id)
		case what == Kill && a.slow:
			t.Status, t.pod.Status.Phase = statusStopped, corev1.PodFailed
		case what == Kill:
			t.end(corev1.PodFailed)
		}
	})
	return err
}

func (a *agentStub) SetNames(_ context.Context, _ string, n api.NodeNames) (err error) {
	a.change(func() { a.names = n })
	return nil
}

func (a *agentStub) Resize(_ context.Context, id string, r api.PodResources) (err error) {
	a.change(func() {
		text, _ := json.Marshal(r)
		a.asked = append(a.asked, "resize "+id+" "+string(text))
		t := a.tasks[id]
		if err = a.refusal; err != nil || t == nil {
			return
		}
		for i, c := range t.pod.Spec.Containers {
			if to := r.Containers[c.Name]; to != nil {
				t.pod.Spec.Containers[i].Resources = corev1.ResourceRequirements{}
				err = json.Unmarshal(to, &t.pod.Spec.Containers[i].Resources)
			}
		}
	})
	return err
}

func (t *taskStub) end(phase corev1.PodPhase) {
	t.Status, t.Settled, t.Goal = statusStopped, true, "DOWN"
	t.pod.Status.Phase = phase
}

// world is a node with an agent and an API server of its own.
type world struct {
	*testing.T
	agent  *agentStub
	client *fake.Clientset
	pods   *Pods
	room   corev1.ResourceList
}

func newWorld(t *testing.T, objects ...runtime.Object) *world {
	t.Helper()
	w := &world{T: t, agent: newAgentStub(), client: fake.NewClientset(objects...)}
	numberPods(w.client)
	ctx, stop := context.WithCancel(context.Background())
	w.pods = NewPods(ctx, PodsConfig{
		Node: "edge", Client: w.client, Agent: w.agent, Events: &record.FakeRecorder{}, Log: slog.New(slog.DiscardHandler),
		Pace: Pace{First: time.Millisecond, Most: 4 * time.Millisecond, Steady: time.Millisecond, Refresh: time.Millisecond},
		Dir:  t.TempDir(),
		Room: func() corev1.ResourceList { return w.room }, Pressures: func() []corev1.NodeConditionType { return nil }, Current: func(string, string) *corev1.Pod { return nil },
		Address: "192.0.2.7", Server: [2]string{"192.0.2.1", "6443"},
		Members: NewMembers(),
	})
	t.Cleanup(func() {
		stop()
		w.pods.Wait()
	})
	return w
}

// await waits until something is so.
func (w *world) await(what string, is func() bool) {
	w.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-w.Context().Done():
			w.Fatal("in vain: " + what)
		}
	}
}

// has is the Pod at the API server; nil for none.
func (w *world) has(name string) *corev1.Pod {
	p, err := w.client.CoreV1().Pods("default").Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return p
}

// update changes a Pod at the API server, and tells the node.
func (w *world) update(name string, change func(*corev1.Pod)) {
	w.Helper()
	for {
		p := w.has(name)
		change(p)
		now, err := w.client.CoreV1().Pods("default").Update(w.Context(), p, metav1.UpdateOptions{})
		switch {
		case apierrors.IsConflict(err): // the node has written the status meanwhile
		case err != nil:
			w.Fatal(err)
		default:
			w.pods.see(now, false)
			return
		}
	}
}

// numberPods gives each version of a Pod a number, as API servers do, and refuses to replace another
// version than the one that was read.
func numberPods(client *fake.Clientset) {
	var mu sync.Mutex
	last, react := 0, clienttesting.ObjectReaction(client.Tracker())
	number := func(o runtime.Object) *corev1.Pod {
		pod := o.(*corev1.Pod).DeepCopy()
		last++
		pod.ResourceVersion = strconv.Itoa(last)
		return pod
	}
	client.PrependReactor("update", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		pod := a.(clienttesting.UpdateAction).GetObject().(*corev1.Pod)
		now, err := client.Tracker().Get(a.GetResource(), pod.Namespace, pod.Name)
		if err == nil && now.(*corev1.Pod).ResourceVersion != pod.ResourceVersion {
			return true, nil, apierrors.NewConflict(a.GetResource().GroupResource(), pod.Name, errors.New("the object has been modified"))
		}
		pod = number(pod)
		return true, pod, client.Tracker().Update(a.GetResource(), pod, pod.Namespace)
	})
	client.PrependReactor("patch", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		_, o, err := react(a)
		if err != nil {
			return true, nil, err
		}
		pod := number(o)
		return true, pod, client.Tracker().Update(a.GetResource(), pod, pod.Namespace)
	})
}

func (w *world) awaitTask(uid string) {
	w.Helper()
	w.await("the task of "+uid, func() bool {
		_, _, err := w.agent.get("task-of-" + uid)
		return err == nil
	})
}

func aPod(name, uid string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(uid)},
		Spec:       corev1.PodSpec{NodeName: "edge", RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
	}
}

func (w *world) set(uid string, change func(*taskStub)) {
	w.agent.change(func() { change(w.agent.tasks["task-of-"+uid]) })
}

func TestPodBecomesATaskAndIsRemovedWhenItHasEnded(t *testing.T) {
	t.Parallel()
	pod := aPod("web", "u1")
	w := newWorld(t, pod)
	if err := w.pods.CreatePod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	w.awaitTask("u1")
	w.set("u1", func(s *taskStub) {
		s.pod.Status.Phase = corev1.PodRunning
		s.pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	})
	w.await("Running", func() bool { return w.has("web").Status.Phase == corev1.PodRunning })
	if got := w.has("web").Status; got.HostIP != "192.0.2.7" || len(got.Conditions) != 1 || got.Conditions[0].Status != corev1.ConditionTrue {
		t.Errorf("the status is %+v", got)
	}
	if err := w.pods.DeletePod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	w.await("the stop", func() bool {
		w.agent.mu.Lock()
		defer w.agent.mu.Unlock()
		return len(w.agent.asked) == 1 && w.agent.asked[0] == "stop task-of-u1"
	})
	if w.has("web") == nil {
		t.Error("the Pod is removed while its container runs")
	}
	w.set("u1", func(s *taskStub) { s.end(corev1.PodSucceeded) })
	w.await("the removal", func() bool { return w.has("web") == nil })
	w.await("the end of the task", func() bool { _, _, err := w.agent.get("task-of-u1"); return err != nil })
	w.await("the end of the podWorker", func() bool { return w.pods.find("default", "web", "") == nil })
	var deleted clienttesting.DeleteAction
	for _, a := range w.client.Actions() {
		if d, ok := a.(clienttesting.DeleteAction); ok {
			deleted = d
		}
	}
	if o := deleted.GetDeleteOptions(); *o.GracePeriodSeconds != 0 || *o.Preconditions.UID != "u1" {
		t.Errorf("deleted with %+v", o)
	}
}

func TestPodOfAnotherUIDWaitsForTheOneBefore(t *testing.T) {
	t.Parallel()
	first, second := aPod("db-0", "u1"), aPod("db-0", "u2")
	w := newWorld(t, second)
	_ = w.pods.CreatePod(t.Context(), first)
	w.awaitTask("u1")
	_ = w.pods.UpdatePod(t.Context(), second)
	w.await("the stop", func() bool {
		w.agent.mu.Lock()
		defer w.agent.mu.Unlock()
		return len(w.agent.asked) > 0
	})
	if _, _, err := w.agent.get("task-of-u2"); err == nil {
		t.Error("two Pods of one name run at once")
	}
	w.set("u1", func(s *taskStub) { s.end(corev1.PodFailed) })
	w.awaitTask("u2")
}

func TestTasksOfThisNodeAreAdopted(t *testing.T) {
	t.Parallel()
	pod := aPod("web", "u1")
	w := newWorld(t, pod)
	_ = w.pods.CreatePod(t.Context(), pod)
	w.awaitTask("u1")
	again := newWorld(t, pod)
	again.agent.change(func() {
		mine := *w.agent.tasks["task-of-u1"]
		mine.pod.Status.Phase = corev1.PodRunning
		other := mine
		other.ID, other.pod = "other", *aPod("other", "u2")
		other.Pod = &api.PodRef{Namespace: "default", Name: "other", UID: "u2"}
		again.agent.tasks[mine.ID], again.agent.tasks[other.ID] = &mine, &other
	})
	if err := again.pods.Adopt(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, err := again.pods.GetPods(t.Context())
	if err != nil || len(all) != 1 || all[0].UID != "u1" {
		t.Fatalf("adopted %v, %v", all, err)
	}
	_ = again.pods.CreatePod(t.Context(), pod)
	again.pods.see(pod, false)
	again.await("its status", func() bool { return again.has("web").Status.Phase == corev1.PodRunning })
	again.agent.mu.Lock()
	defer again.agent.mu.Unlock()
	if len(again.agent.tasks) != 2 {
		t.Errorf("another task was made: %v", again.agent.tasks)
	}
}

func TestPodsAreRejectedWithTheReasonsOfKubernetes(t *testing.T) {
	t.Parallel()
	for reason, prepare := range map[string]func(*world, *corev1.Pod){
		"OutOfcpu": func(w *world, p *corev1.Pod) {
			w.room = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1100m")}
		},
		"OutOfpods": func(w *world, _ *corev1.Pod) {
			w.room = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
		},
		"NodeAffinity": func(_ *world, p *corev1.Pod) { p.Spec.NodeName = "another" },
		"UnexpectedAdmissionError": func(w *world, _ *corev1.Pod) {
			w.agent.refusal = api.Failed(api.BadRequest, "runtimeClassName is not supported")
		},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			pod := aPod("web", "u1")
			w := newWorld(t, pod)
			prepare(w, pod)
			_ = w.pods.CreatePod(t.Context(), pod)
			w.await("the rejection", func() bool { return w.has("web").Status.Phase == corev1.PodFailed })
			if got := w.has("web").Status.Reason; got != reason {
				t.Errorf("rejected with %s", got)
			}
		})
	}
}

func TestWhatAPodRefersToGoesWithIt(t *testing.T) {
	t.Parallel()
	pod := aPod("web", "u1")
	seconds := int64(3607)
	pod.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}}
	pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "absent"}}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "key", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "key"}}},
		{Name: "api", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &seconds}},
		}}}},
	}
	w := newWorld(t, pod)
	w.client.PrependReactor("create", "serviceaccounts", func(a clienttesting.Action) (bool, runtime.Object, error) {
		ends := metav1.NewTime(time.Now().Add(time.Hour))
		return a.GetSubresource() == "token", &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{Token: "a-token", ExpirationTimestamp: ends}}, nil
	})
	_ = w.pods.CreatePod(t.Context(), pod)
	w.await("the reason", func() bool {
		s := w.has("web").Status.ContainerStatuses
		return len(s) == 1 && s[0].State.Waiting.Reason == waitConfigError &&
			strings.Contains(s[0].State.Waiting.Message, `configmap "settings" not found`) && strings.Contains(s[0].State.Waiting.Message, `secret "key" not found`)
	})
	_, _ = w.client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"A": "1"}}, metav1.CreateOptions{})
	_, _ = w.client.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "key"}, Data: map[string][]byte{"k": []byte("hidden")}}, metav1.CreateOptions{})
	w.awaitTask("u1")
	task, _, _ := w.agent.get("task-of-u1")
	for _, want := range []string{`"kind":"ConfigMap"`, `"value":"192.0.2.1"`, `"podtask/node":"edge"`} {
		if !strings.Contains(task.definition, want) {
			t.Errorf("the definition has no %s: %s", want, task.definition)
		}
	}
	if strings.Contains(task.definition, "serviceAccountToken") || strings.Contains(task.definition, "hidden") {
		t.Errorf("the agent is asked for a token, or is given a file: %s", task.definition)
	}
	if got := w.file("u1", "key", "k"); got != "hidden" {
		t.Errorf("the file of the Secret is %q", got)
	}
	if got := w.file("u1", "api", "token"); got != "a-token" {
		t.Errorf("the file of the token is %q", got)
	}
	for _, a := range w.client.Actions() {
		if v := a.GetVerb(); v == "list" || v == "watch" {
			t.Errorf("%s of %s", v, a.GetResource().Resource)
		}
	}
}

// file is a file of a volume of a Pod.
func (w *world) file(uid, volume, name string) string {
	b, err := os.ReadFile(filepath.Join(w.pods.Dir, uid, volume, name))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func TestFilesFollowTheirObjects(t *testing.T) {
	t.Parallel()
	pod := aPod("web", "u1")
	always := true
	source := func(name string) corev1.VolumeSource {
		return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Optional: &always}}
	}
	pod.Spec.Volumes = []corev1.Volume{{Name: "settings", VolumeSource: source("settings")}, {Name: "later", VolumeSource: source("later")}}
	config := func(name, text string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string]string{"a": text}}
	}
	w := newWorld(t, pod, config("settings", "one"))
	_ = w.pods.CreatePod(t.Context(), pod)
	w.awaitTask("u1")
	if got := w.file("u1", "settings", "a"); got != "one" {
		t.Fatalf("the file is %q", got)
	}
	configs := w.client.CoreV1().ConfigMaps("default")
	_, _ = configs.Update(t.Context(), config("settings", "two"), metav1.UpdateOptions{})
	_, _ = configs.Create(t.Context(), config("later", "three"), metav1.CreateOptions{})
	w.await("the change", func() bool { return w.file("u1", "settings", "a") == "two" && w.file("u1", "later", "a") == "three" })
	_ = w.pods.DeletePod(t.Context(), pod)
	w.await("the stop", func() bool {
		w.agent.mu.Lock()
		defer w.agent.mu.Unlock()
		return len(w.agent.asked) > 0
	})
	w.set("u1", func(s *taskStub) { s.end(corev1.PodSucceeded) })
	w.await("the end of the files", func() bool {
		left, _ := os.ReadDir(w.pods.Dir)
		return len(left) == 0
	})
}

// Files of labels follow them, also beside files about resources.
func TestFilesFollowTheLabelsOfTheirPod(t *testing.T) {
	t.Parallel()
	pod := aPod("web", "u1")
	pod.Labels = map[string]string{"color": "plum"}
	pod.Spec.Volumes = []corev1.Volume{{Name: "info", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
		{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}},
		{Path: "cpu", ResourceFieldRef: &corev1.ResourceFieldSelector{ContainerName: "app", Resource: "limits.cpu"}},
	}}}}}
	w := newWorld(t, pod)
	w.room = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")}
	_ = w.pods.CreatePod(t.Context(), pod)
	w.awaitTask("u1")
	if labels, cpu := w.file("u1", "info", "labels"), w.file("u1", "info", "cpu"); labels != `color="plum"` || cpu != "3" {
		t.Errorf("the files are %q and %q", labels, cpu)
	}
	w.update("web", func(p *corev1.Pod) { p.Labels = map[string]string{"color": "lime"} })
	w.await("the change", func() bool { return w.file("u1", "info", "labels") == `color="lime"` })
}

// A reboot takes the files, which are in memory. They are written again at once, not when the
// objects are read the next time.
func TestFilesAreWrittenAgainAfterAReboot(t *testing.T) {
	t.Parallel()
	pod := aPod("web", "u1")
	pod.Spec.Volumes = []corev1.Volume{{Name: "settings", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "settings", MountPath: "/etc/app"}}
	w := newWorld(t, pod, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings"}, Data: map[string]string{"color": "plum"}})
	w.pods.Pace.Refresh = time.Hour
	w.agent.tasks["task-of-u1"] = &taskStub{pod: *pod, Task: api.Task{
		ID: "task-of-u1", Status: "RUNNING", Goal: "UP", Pod: &api.PodRef{Namespace: "default", Name: "web", UID: "u1"},
	}}
	if err := w.pods.Adopt(t.Context()); err != nil {
		t.Fatal(err)
	}
	_ = w.pods.CreatePod(t.Context(), pod)
	w.pods.see(pod, false)
	w.await("the file", func() bool { return w.file("u1", "settings", "color") == "plum" })
}

func TestTokensAreReplacedInTime(t *testing.T) {
	t.Parallel()
	asked := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct{ lasts, want time.Duration }{{10 * time.Minute, 8 * time.Minute}, {time.Hour, 48 * time.Minute}, {365 * 24 * time.Hour, 24 * time.Hour}, {0, 0}} {
		if got := podmanifest.Renewal(asked, asked.Add(c.lasts)).Sub(asked); got != c.want {
			t.Errorf("a token of %s is replaced after %s, want %s", c.lasts, got, c.want)
		}
	}
	pod := aPod("web", "u1")
	client, now, made := fake.NewClientset(), asked, 0
	client.PrependReactor("create", "serviceaccounts", func(clienttesting.Action) (bool, runtime.Object, error) {
		made++
		return true, &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{Token: fmt.Sprint("token ", made), ExpirationTimestamp: metav1.NewTime(now.Add(time.Hour))}}, nil
	})
	o := podmanifest.NewObjects(client, func() corev1.ResourceList { return nil })
	o.Now = func() time.Time { return now }
	for _, c := range []struct {
		after time.Duration
		want  string
	}{{0, "token 1"}, {47 * time.Minute, "token 1"}, {48 * time.Minute, "token 2"}, {95 * time.Minute, "token 2"}} {
		now = asked.Add(c.after)
		if got, err := o.Reading(pod).Token(t.Context(), corev1.ServiceAccountTokenProjection{}); err != nil || got != c.want {
			t.Errorf("after %s there is %q, %v; want %q", c.after, got, err, c.want)
		}
	}
}

func TestTaskThatCannotStartIsMadeAgain(t *testing.T) {
	t.Parallel()
	pod := aPod("web", "u1")
	w := newWorld(t, pod)
	_ = w.pods.CreatePod(t.Context(), pod)
	for range 2 {
		w.awaitTask("u1")
		w.set("u1", func(s *taskStub) {
			s.StopCode = "TaskFailedToStart"
			s.end(corev1.PodFailed)
		})
		w.await("the removal", func() bool {
			w.agent.mu.Lock()
			defer w.agent.mu.Unlock()
			return len(w.agent.asked) > 0
		})
		w.agent.change(func() { w.agent.asked = nil })
	}
	if got := w.has("web").Status.Phase; got == corev1.PodFailed {
		t.Error("the Pod has failed; Kubernetes tries for ever")
	}
}
