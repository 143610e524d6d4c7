package pod

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/podtask/podtask/pkg/taskdef"
)

// taskOf is the task of a Pod as the agent keeps it.
func taskOf(t *testing.T, manifest string) taskdef.Task {
	t.Helper()
	r, _, err := Load(taskdef.ReadSource("pod", []byte(manifest)), taskdef.Settings{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Task
}

const resizable = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{
"initContainers":[{"name":"first","image":"x","restartPolicy":"Always","resources":{"limits":{"cpu":"100m","memory":"32Mi"}}}],
"containers":[{"name":"app","image":"x","env":[{"name":"A","value":"1"}],"resources":{"limits":{"cpu":"500m","memory":"64Mi"},"requests":{"cpu":"250m","memory":"32Mi"}}}]}}`

// A resize is what a new task of the changed Pod would have.
func TestAResizeIsWhatANewTaskWouldHave(t *testing.T) {
	t.Parallel()
	was := taskOf(t, resizable)
	r, err := Resize(was, map[string]json.RawMessage{"app": json.RawMessage(`{"limits":{"cpu":"1","memory":"128Mi"},"requests":{"cpu":"500m","memory":"48Mi"}}`)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := taskOf(t, strings.Replace(resizable, `{"limits":{"cpu":"500m","memory":"64Mi"},"requests":{"cpu":"250m","memory":"32Mi"}}`,
		`{"limits":{"cpu":"1","memory":"128Mi"},"requests":{"cpu":"500m","memory":"48Mi"}}`, 1))
	got := r.Apply(was)
	if got.CPU != want.CPU || got.Memory != want.Memory || *got.Extensions.Requests != *want.Extensions.Requests {
		t.Errorf("the task has %v, %d, %+v, not %v, %d, %+v", got.CPU, got.Memory, got.Extensions.Requests, want.CPU, want.Memory, want.Extensions.Requests)
	}
	for i, c := range want.Containers {
		g := got.Containers[i]
		if g.Memory != c.Memory || g.MemoryReservation != c.MemoryReservation || g.CPU != c.CPU || g.Extensions.CPULimit != c.Extensions.CPULimit {
			t.Errorf("%s: %+v, not %+v", c.Name, g, c)
		}
	}
	if was.Containers[1].Memory != 64<<20 {
		t.Error("the task that was given has changed")
	}
	p, err := From("", got)
	if err != nil || !strings.Contains(string(p.Source), `"128Mi"`) || !strings.Contains(string(p.Source), `"env"`) {
		t.Errorf("the Pod is %s (%v)", p.Source, err)
	}
	again, err := Resize(got, nil, nil)
	if err != nil || !again.Equal(got) {
		t.Errorf("a resize to what there is changes something: %v", err)
	}
}

func TestLimitsThatAreRemovedAreGone(t *testing.T) {
	t.Parallel()
	r, err := Resize(taskOf(t, resizable), map[string]json.RawMessage{"app": json.RawMessage(`{}`)}, json.RawMessage(`{"limits":{"memory":"1Gi"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if c := r.Containers[1]; c.Memory != 0 || c.CPULimit != 0 || c.MemoryReservation != 0 || r.Memory != 1<<30 || r.CPU != 0 {
		t.Errorf("%+v", r)
	}
}

// A container is restarted if its resizePolicy wants that for a resource that changes.
func TestAResizeRestartsContainersByTheirPolicy(t *testing.T) {
	t.Parallel()
	was := taskOf(t, strings.Replace(resizable, `"env":`, `"resizePolicy":[{"resourceName":"cpu","restartPolicy":"NotRequired"},{"resourceName":"memory","restartPolicy":"RestartContainer"}],"env":`, 1))
	for resources, want := range map[string]int{
		`{"limits":{"cpu":"1","memory":"64Mi"},"requests":{"cpu":"250m","memory":"32Mi"}}`:      0,
		`{"limits":{"cpu":"500m","memory":"65Mi"},"requests":{"cpu":"250m","memory":"32Mi"}}`:   1,
		`{"limits":{"cpu":"500m","memory":"64Mi"},"requests":{"cpu":"250m","memory":"48Mi"}}`:   1,
		`{"limits":{"cpu":"0.5","memory":"65536Ki"},"requests":{"cpu":"250m","memory":"32Mi"}}`: 0,
	} {
		r, err := Resize(was, map[string]json.RawMessage{"app": json.RawMessage(resources)}, nil)
		if err != nil || len(r.Restart) != want || want == 1 && r.Restart[0] != 1 {
			t.Errorf("%s: restarts %v (%v), want %d", resources, r.Restart, err, want)
		}
	}
}

func TestAResizeThatCannotBe(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ resources, want string }{
		{`{"app":{"limits":{"memory":"1Mi"}}}`, "at least 6 MiB"},
		{`{"app":{"limits":{"cpu":"1","memory":"64Mi"},"requests":{"cpu":"2"}}}`, "/spec/containers/0/resources/requests/cpu"},
		{`{"app":{"limits":{"cpu":"one"}}}`, "/spec/containers/0/resources/limits/cpu"},
		{`{"app":{"limits":["cpu"]}}`, "/spec/containers/0/resources/limits"},
		{`{"app":{"limits":{"gpu.example/x":"1"}}}`, "gpu.example/x"},
		{`{"other":{}}`, "no container other"},
		{`{"app":nothing}`, "resources"},
	} {
		body := map[string]json.RawMessage{"app": json.RawMessage(`nothing`)}
		if json.Valid([]byte(c.resources)) {
			body = map[string]json.RawMessage{}
			if err := json.Unmarshal([]byte(c.resources), &body); err != nil {
				t.Fatal(err)
			}
		}
		_, err := Resize(taskOf(t, resizable), body, nil)
		var invalid *taskdef.InvalidError
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.resources, err)
		}
	}
	if _, err := Resize(taskdef.Task{Family: "f", Containers: []taskdef.Container{{Name: "app"}}}, nil, nil); err == nil {
		t.Error("a task that was not made from a Pod is resized")
	}
}

func FuzzResize(f *testing.F) {
	f.Add(`{"limits":{"cpu":"1","memory":"128Mi"}}`, `{}`)
	f.Add(`{"requests":{"cpu":"1"}}`, `{"limits":{"memory":"1Gi"}}`)
	f.Add(`[]`, `null`)
	f.Fuzz(func(t *testing.T, app, whole string) {
		was := taskOf(t, resizable)
		r, err := Resize(was, map[string]json.RawMessage{"app": json.RawMessage(app)}, json.RawMessage(whole))
		if err == nil {
			err = r.Apply(was).Check()
			if err != nil {
				t.Errorf("%s and %s make a task that is invalid: %v", app, whole, err)
			}
		}
	})
}

// TestOtherWordsOfAResizePolicyAreRefused: they would count only when a cluster changes the Pod.
func TestOtherWordsOfAResizePolicyAreRefused(t *testing.T) {
	t.Parallel()
	_, _, err := parseText(strings.Replace(resizable, `"env":`, `"resizePolicy":[{"resourceName":"gpu","restartPolicy":"Never"}],"env":`, 1))
	if err == nil || !strings.Contains(err.Error(), `resizePolicy/0/resourceName: this cannot be "gpu"`) || !strings.Contains(err.Error(), `resizePolicy/0/restartPolicy: this cannot be "Never"`) {
		t.Error(err)
	}
}
