package kubepods

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/podtask/podtask/internal/testing/kubetest"
)

// newerPods is the answer of an API server of a later version, with members that this one does not know.
const newerPods = `{"apiVersion":"v1","kind":"PodList","metadata":{"resourceVersion":"7"},"items":[
{"metadata":{"name":"plain","namespace":"default","uid":"u1","newer":1},"spec":{"containers":[{"name":"app"}]}},
{"metadata":{"name":"new","namespace":"default","uid":"u2"},"spec":{"newerList":[],"containers":[{"name":"app","volumeMounts":[{"name":"v","mountPath":"/v","newerOptions":["noexec"]}]}],
"volumes":[{"name":"v","emptyDir":{"newerMode":448}}]}}]}`

func TestMembersThatAreNotKnownAreSeen(t *testing.T) {
	t.Parallel()
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RequestURI()+" "+r.Header.Get("Accept"))
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") != "" {
			_, _ = w.Write([]byte(`{"type":"MODIFIED","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"new","namespace":"default","uid":"u2","resourceVersion":"8"},"spec":{"newerGroup":{"a":1}}}}` + "\n"))
			return
		}
		_, _ = w.Write([]byte(newerPods))
	}))
	defer server.Close()
	m := newMembers()
	source, err := m.source(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf"}}, "edge")
	if err != nil {
		t.Fatal(err)
	}
	list, err := source.ListWithContext(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if pods := list.(*corev1.PodList).Items; len(pods) != 2 || pods[1].Spec.Volumes[0].EmptyDir == nil {
		t.Errorf("the Pods are %+v", pods)
	}
	if !strings.Contains(asked[0], "fieldSelector=spec.nodeName%3Dedge") || strings.Contains(asked[0], "protobuf") {
		t.Errorf("asked for %s", asked[0])
	}
	got := m.of("u2")
	slices.Sort(got)
	if want := []string{"spec.containers[0].volumeMounts[0].newerOptions", "spec.newerList", "spec.volumes[0].emptyDir.newerMode"}; !slices.Equal(got, want) {
		t.Errorf("unknown are %q", got)
	}
	if got := m.of("u1"); len(got) != 0 {
		t.Errorf("of a Pod without new members %q are unknown", got)
	}
	watch, err := source.WatchWithContext(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	if e := <-watch.ResultChan(); e.Object.(*corev1.Pod).Name != "new" {
		t.Errorf("seen is %+v", e)
	}
	if got := m.of("u2"); !slices.Equal(got, []string{"spec.newerGroup"}) {
		t.Errorf("then unknown are %q", got)
	}
}

func TestMembersThatMayProtectAPod(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"spec.volumes[0].emptyDir.mode", "spec.containers[1].volumeMounts[0].bindMountOptions", "spec.securityContext.newer", "spec.containers[0].securityContext.newer.x"} {
		if why, _ := unknownMembers([]string{path}); !strings.Contains(why, path) {
			t.Errorf("%s: %q", path, why)
		}
	}
	if why, ignored := unknownMembers([]string{"spec.schedulingGroup", "spec.containers[0].newer"}); why != "" || len(ignored) != 2 {
		t.Errorf("%q, %q", why, ignored)
	}
}

// TestAPodRunsWithAllThatProtectsItOrNotAtAll: and users are told of the rest.
func TestAPodRunsWithAllThatProtectsItOrNotAtAll(t *testing.T) {
	t.Parallel()
	bare, told := kubetest.Pod("bare", "u1"), kubetest.Pod("told", "u2")
	w := newWorld(t, bare, told)
	events := make(chan string, 9)
	w.pods.config.Events = &record.FakeRecorder{Events: events}
	w.pods.members.note("u1", []string{"spec.volumes[0].emptyDir.mode"})
	w.pods.members.note("u2", []string{"spec.schedulingGroup", "status.newer"})
	_ = w.pods.CreatePod(context.Background(), bare)
	w.await("the rejection", func() bool { return w.has("bare").Status.Phase == corev1.PodFailed })
	if got := w.has("bare").Status; got.Reason != "PodFeatureUnsupported" || !strings.Contains(got.Message, "spec.volumes[0].emptyDir.mode") {
		t.Errorf("%s: %s", got.Reason, got.Message)
	}
	<-events // of the rejection
	_ = w.pods.CreatePod(context.Background(), told)
	w.awaitTask("u2")
	if got := <-events; !strings.Contains(got, "UnknownMembers") || !strings.Contains(got, "spec.schedulingGroup") || strings.Contains(got, "status") {
		t.Errorf("the event is %s", got)
	}
}

// The version that nodes tell is that of the modules they are built from.
func TestNodesTellTheVersionOfTheirModules(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if want := "k8s.io/api v0." + strings.TrimPrefix(KubernetesVersion, "v1."); !strings.Contains(string(text), want+"\n") {
		t.Errorf("go.mod does not require %s", want)
	}
}
