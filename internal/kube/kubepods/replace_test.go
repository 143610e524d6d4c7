package kubepods

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clienttesting "k8s.io/client-go/testing"

	"github.com/podtask/podtask/internal/testing/kubetest"
)

// A Pod is replaced under its name at once, as a StatefulSet does without a grace period. The API
// server of Kubernetes 1.35 answers the status of the old Pod with 422, not with 409.
func TestAPodThatIsReplacedAtOnceEnds(t *testing.T) {
	t.Parallel()
	first, second := kubetest.Pod("db-0", "u1"), kubetest.Pod("db-0", "u2")
	w := newWorld(t, second)
	w.client.PrependReactor("patch", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if !strings.Contains(string(a.(clienttesting.PatchAction).GetPatch()), `"uid":"u1"`) {
			return false, nil, nil
		}
		return true, nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "db-0",
			field.ErrorList{field.Invalid(field.NewPath("metadata", "uid"), "u1", "field is immutable")})
	})
	_ = w.pods.CreatePod(t.Context(), first)
	w.awaitTask("u1")
	w.set("u1", func(s *kubetest.Task) { s.Object.Status.Phase = corev1.PodRunning })
	_ = w.pods.UpdatePod(t.Context(), second)
	_ = w.pods.DeletePod(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db-0", UID: "u1", DeletionGracePeriodSeconds: new(int64(0))}})
	w.awaitTask("u2")
}
