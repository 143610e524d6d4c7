package kubepods

import (
	"context"
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
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"github.com/podtask/podtask/internal/kube/podmanifest"
	"github.com/podtask/podtask/internal/kube/podstatus"
	"github.com/podtask/podtask/internal/testing/kubetest"
	"github.com/podtask/podtask/pkg/api"
)

// world is a node with an agent and an API server of its own.
type world struct {
	*testing.T
	agent  *kubetest.Agent
	client *fake.Clientset
	pods   *Pods
	room   corev1.ResourceList
}

func newWorld(t *testing.T, objects ...runtime.Object) *world {
	t.Helper()
	w := &world{T: t, agent: kubetest.NewAgent(), client: fake.NewClientset(objects...)}
	numberPods(w.client)
	ctx, stop := context.WithCancel(context.Background())
	pods, err := New(ctx, Config{
		Node: "edge", Client: w.client, Agent: w.agent, Events: &record.FakeRecorder{}, Log: slog.New(slog.DiscardHandler),
		Pace: Pace{First: time.Millisecond, Most: 4 * time.Millisecond, Steady: time.Millisecond, Refresh: time.Millisecond},
		Dir:  t.TempDir(),
		Room: func() corev1.ResourceList { return w.room }, Pressures: func() []corev1.NodeConditionType { return nil },
		Address: "192.0.2.7", Server: [2]string{"192.0.2.1", "6443"},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.pods = pods
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
		_, _, err := w.agent.Get("task-of-" + uid)
		return err == nil
	})
}

func (w *world) set(uid string, change func(*kubetest.Task)) {
	w.agent.Change(func() { change(w.agent.ByID["task-of-"+uid]) })
}

func TestPodBecomesATaskAndIsRemovedWhenItHasEnded(t *testing.T) {
	t.Parallel()
	pod := kubetest.Pod("web", "u1")
	w := newWorld(t, pod)
	if err := w.pods.CreatePod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	w.awaitTask("u1")
	w.set("u1", func(s *kubetest.Task) {
		s.Object.Status.Phase = corev1.PodRunning
		s.Object.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	})
	w.await("Running", func() bool { return w.has("web").Status.Phase == corev1.PodRunning })
	if got := w.has("web").Status; got.HostIP != "192.0.2.7" || len(got.Conditions) != 1 || got.Conditions[0].Status != corev1.ConditionTrue {
		t.Errorf("the status is %+v", got)
	}
	if err := w.pods.DeletePod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	w.await("the stop", func() bool {
		return len(w.agent.Asked()) == 1 && w.agent.Asked()[0] == "stop task-of-u1"
	})
	if w.has("web") == nil {
		t.Error("the Pod is removed while its container runs")
	}
	w.set("u1", func(s *kubetest.Task) { s.End(corev1.PodSucceeded) })
	w.await("the removal", func() bool { return w.has("web") == nil })
	w.await("the end of the task", func() bool { _, _, err := w.agent.Get("task-of-u1"); return err != nil })
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
	first, second := kubetest.Pod("db-0", "u1"), kubetest.Pod("db-0", "u2")
	w := newWorld(t, second)
	_ = w.pods.CreatePod(t.Context(), first)
	w.awaitTask("u1")
	_ = w.pods.UpdatePod(t.Context(), second)
	w.await("the stop", func() bool {
		return len(w.agent.Asked()) > 0
	})
	if _, _, err := w.agent.Get("task-of-u2"); err == nil {
		t.Error("two Pods of one name run at once")
	}
	w.set("u1", func(s *kubetest.Task) { s.End(corev1.PodFailed) })
	w.awaitTask("u2")
}

func TestTasksOfThisNodeAreAdopted(t *testing.T) {
	t.Parallel()
	pod := kubetest.Pod("web", "u1")
	w := newWorld(t, pod)
	_ = w.pods.CreatePod(t.Context(), pod)
	w.awaitTask("u1")
	again := newWorld(t, pod)
	again.agent.Change(func() {
		mine := *w.agent.ByID["task-of-u1"]
		mine.Object.Status.Phase = corev1.PodRunning
		other := mine
		other.ID, other.Object = "other", *kubetest.Pod("other", "u2")
		other.Pod = &api.PodRef{Namespace: "default", Name: "other", UID: "u2"}
		again.agent.ByID[mine.ID], again.agent.ByID[other.ID] = &mine, &other
	})
	if err := again.pods.Adopt(); err != nil {
		t.Fatal(err)
	}
	all, err := again.pods.GetPods(t.Context())
	if err != nil || len(all) != 1 || all[0].UID != "u1" {
		t.Fatalf("adopted %v, %v", all, err)
	}
	_ = again.pods.CreatePod(t.Context(), pod)
	again.pods.see(pod, false)
	again.await("its status", func() bool { return again.has("web").Status.Phase == corev1.PodRunning })
	if len(again.agent.ByID) != 2 {
		t.Errorf("another task was made: %v", again.agent.ByID)
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
			w.agent.Refusal = api.Failed(api.BadRequest, "runtimeClassName is not supported")
		},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			pod := kubetest.Pod("web", "u1")
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
	pod := kubetest.Pod("web", "u1")
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
		return len(s) == 1 && s[0].State.Waiting.Reason == podstatus.ConfigError &&
			strings.Contains(s[0].State.Waiting.Message, `configmap "settings" not found`) && strings.Contains(s[0].State.Waiting.Message, `secret "key" not found`)
	})
	_, _ = w.client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"A": "1"}}, metav1.CreateOptions{})
	_, _ = w.client.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "key"}, Data: map[string][]byte{"k": []byte("hidden")}}, metav1.CreateOptions{})
	w.awaitTask("u1")
	task, _, _ := w.agent.Get("task-of-u1")
	for _, want := range []string{`"kind":"ConfigMap"`, `"value":"192.0.2.1"`, `"podtask/node":"edge"`} {
		if !strings.Contains(task.Definition, want) {
			t.Errorf("the definition has no %s: %s", want, task.Definition)
		}
	}
	if strings.Contains(task.Definition, "serviceAccountToken") || strings.Contains(task.Definition, "hidden") {
		t.Errorf("the agent is asked for a token, or is given a file: %s", task.Definition)
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
	b, err := os.ReadFile(filepath.Join(w.pods.config.Dir, uid, volume, name))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func TestFilesFollowTheirObjects(t *testing.T) {
	t.Parallel()
	pod := kubetest.Pod("web", "u1")
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
		return len(w.agent.Asked()) > 0
	})
	w.set("u1", func(s *kubetest.Task) { s.End(corev1.PodSucceeded) })
	w.await("the end of the files", func() bool {
		left, _ := os.ReadDir(w.pods.config.Dir)
		return len(left) == 0
	})
}

// Files of labels follow them, also beside files about resources.
func TestFilesFollowTheLabelsOfTheirPod(t *testing.T) {
	t.Parallel()
	pod := kubetest.Pod("web", "u1")
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
	pod := kubetest.Pod("web", "u1")
	pod.Spec.Volumes = []corev1.Volume{{Name: "settings", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "settings", MountPath: "/etc/app"}}
	w := newWorld(t, pod, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings"}, Data: map[string]string{"color": "plum"}})
	w.pods.config.Pace.Refresh = time.Hour
	w.agent.ByID["task-of-u1"] = &kubetest.Task{Object: *pod, Task: api.Task{
		ID: "task-of-u1", Status: "RUNNING", Goal: "UP", Pod: &api.PodRef{Namespace: "default", Name: "web", UID: "u1"},
	}}
	if err := w.pods.Adopt(); err != nil {
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
	pod := kubetest.Pod("web", "u1")
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
	pod := kubetest.Pod("web", "u1")
	w := newWorld(t, pod)
	_ = w.pods.CreatePod(t.Context(), pod)
	for i := range 2 {
		w.awaitTask("u1")
		w.set("u1", func(s *kubetest.Task) {
			s.StopCode = "TaskFailedToStart"
			s.End(corev1.PodFailed)
		})
		w.await("the removal", func() bool {
			return len(w.agent.Asked()) > i
		})
	}
	if got := w.has("web").Status.Phase; got == corev1.PodFailed {
		t.Error("the Pod has failed; Kubernetes tries for ever")
	}
}
