package podstatus

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Other errors of the API server about a status are no sign that the Pod was replaced.
func TestOnlyAnErrorAboutTheUIDMeansThatAPodIsGone(t *testing.T) {
	t.Parallel()
	invalid := func(path *field.Path) error {
		return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "web", field.ErrorList{field.Invalid(path, "x", "wrong")})
	}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{invalid(field.NewPath("metadata", "uid")), true},
		{invalid(field.NewPath("status", "phase")), false},
		{apierrors.NewNotFound(corev1.Resource("pods"), "web"), true},
		{apierrors.NewConflict(corev1.Resource("pods"), "web", nil), true},
		{apierrors.NewServiceUnavailable("later"), false},
	} {
		if got := isGone(c.err); got != c.want {
			t.Errorf("%v: gone is %t", c.err, got)
		}
	}
}
