package pod

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/pkg/taskdef"
)

const demanding = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    spec:
      runtimeClassName: gvisor
      containers:
      - name: app
        image: example.com/app:1
        securityContext: {readOnlyRootFilesystem: true, runAsNonRoot: true}
        lifecycle: {preStop: {exec: {command: [sh]}}}
      - name: side
        image: example.com/side:1
        securityContext: {runAsNonRoot: true}
`

// What a Pod may do without is left out as in an ECS definition.
func TestWithoutLeavesFieldsOut(t *testing.T) {
	t.Parallel()
	if _, _, err := Load(taskdef.ReadSource("f", []byte(demanding)), taskdef.Settings{}, Options{}); !errors.As(err, new(*taskdef.InvalidError)) {
		t.Fatalf("with all it asks for: %v", err)
	}
	s := taskdef.Settings{Without: []string{"runtimeClassName", "securityContext.runAsNonRoot", "lifecycle"}}
	for _, name := range s.Without {
		if err := taskdef.CheckWithout(name); err != nil {
			t.Error(err)
		}
	}
	result, report, err := Load(taskdef.ReadSource("f", []byte(demanding)), s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, w := range report.Warnings {
		if strings.Contains(w.Message, "is left out, as requested") {
			left = append(left, w.Pointer)
		}
	}
	slices.Sort(left)
	const spec = "/spec/template/spec/"
	if want := []string{spec + "containers/0/lifecycle", spec + "containers/0/securityContext/runAsNonRoot", spec + "containers/1/securityContext/runAsNonRoot", spec + "runtimeClassName"}; !slices.Equal(left, want) {
		t.Errorf("warnings %q, want %q", left, want)
	}
	for _, c := range result.Task.Containers {
		if c.Extensions.Kube.NonRoot || c.Name == "app" && !c.ReadonlyRootFS {
			t.Errorf("%s: %+v", c.Name, c)
		}
	}
}

func TestWithoutRefusesNames(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{
		"containers": false, "spec.containers": false, "image": false, "zzz": false, "": false,
		"hostPID": true, "securityContext.seccompProfile": true, "credentialSpecs": true,
	} {
		if err := taskdef.CheckWithout(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// The list of fields that the configuration accepts is that of the members which Pods have.
func TestFieldsThatMayBeLeftOut(t *testing.T) {
	t.Parallel()
	var want []string
	for _, r := range rules {
		if _, member, _ := strings.Cut(r.member, "."); !slices.Contains(vital, member) {
			want = append(want, member)
		}
	}
	slices.Sort(want)
	want = slices.Compact(want)
	if diff := cmp.Diff(want, taskdef.PodFields()); diff != "" {
		t.Errorf("pkg/taskdef/podfields.go (-want +got):\n%s", diff)
	}
}
