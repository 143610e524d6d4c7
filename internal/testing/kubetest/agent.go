// Package kubetest has the agent that tests of a node of Kubernetes give it.
package kubetest

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Agent has tasks that do what the test says.
type Agent struct {
	mu      sync.Mutex
	changed chan struct{} // closed at each change
	asked   []string

	// What follows is read and changed in Change.

	ByID    map[string]*Task // by their IDs
	Refusal error            // of the next requests
	Names   api.NodeNames
	Tokens  []string        // of the requests
	Gone    map[string]bool // tokens whose task has run and was removed
	Slow    bool            // a task that is killed has failed, and is not settled yet
}

// Task is a task with its Pod and the document of the request.
type Task struct {
	api.Task
	Object     corev1.Pod
	Definition string
}

// NewAgent returns an agent without tasks.
func NewAgent() *Agent { return &Agent{ByID: make(map[string]*Task), changed: make(chan struct{})} }

// Asked returns the requests so far, as "stop ID".
func (a *Agent) Asked() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.asked)
}

// Change calls fn with the lock held, and wakes watchers.
func (a *Agent) Change(fn func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	fn()
	close(a.changed)
	a.changed = make(chan struct{})
}

// Get returns a task, and a channel that is closed at the next change.
func (a *Agent) Get(id string) (Task, chan struct{}, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.ByID[id]; t != nil {
		return *t, a.changed, nil
	}
	return Task{}, nil, api.Failed(api.NotFound, "no task %s", id)
}

// Tasks implements the method of api.Client or the function of its package.
func (a *Agent) Tasks(context.Context) (out []api.Task, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range a.ByID {
		out = append(out, t.Task)
	}
	return out, nil
}

// Create implements the method of api.Client or the function of its package.
func (a *Agent) Create(_ context.Context, n api.NewTask) (made api.Task, err error) {
	var list struct{ Items []json.RawMessage }
	var p corev1.Pod
	if err := json.Unmarshal(n.Definition, &list); err != nil {
		return made, err
	}
	if err := json.Unmarshal(list.Items[0], &p); err != nil {
		return made, err
	}
	a.Change(func() {
		if err = a.Refusal; err != nil {
			return
		}
		id := "task-of-" + string(p.UID)
		a.Tokens = append(a.Tokens, n.ClientToken)
		if a.Gone[n.ClientToken] {
			err = api.Failed(api.Gone, "it has run and was removed")
			return
		}
		made = api.Task{ID: id, Name: n.Name, Status: "NONE", Goal: "UP", Pod: &api.PodRef{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)}}
		p.Status = corev1.PodStatus{Phase: corev1.PodPending}
		a.ByID[id] = &Task{Task: made, Object: p, Definition: string(n.Definition)}
	})
	return made, err
}

// Watch implements the method of api.Client or the function of its package.
func (a *Agent) Watch(ctx context.Context, id string, fn func(api.Task) bool) error {
	for {
		t, changed, err := a.Get(id)
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

// Pod implements the method of api.Client or the function of its package.
func (a *Agent) Pod(_ context.Context, id string) (*corev1.Pod, error) {
	t, _, err := a.Get(id)
	return t.Object.DeepCopy(), err
}

// Stop implements the method of api.Client.
func (a *Agent) Stop(_ context.Context, id, by string, force bool) (err error) {
	what := "stop "
	switch {
	case force:
		what = "kill "
	case by != "Kubernetes":
		what = "shut "
	}
	a.Change(func() {
		a.asked = append(a.asked, what+id)
		switch t := a.ByID[id]; {
		case t == nil:
			err = api.Failed(api.NotFound, "no task %s", id)
		case force && a.Slow:
			t.Status, t.Object.Status.Phase = lifecycle.StatusStopped.String(), corev1.PodFailed
		case force:
			t.End(corev1.PodFailed)
		}
	})
	return err
}

// Remove implements the method of api.Client.
func (a *Agent) Remove(_ context.Context, id, _ string, _ bool) (err error) {
	a.Change(func() {
		a.asked = append(a.asked, "remove "+id)
		if a.ByID[id] == nil {
			err = api.Failed(api.NotFound, "no task %s", id)
		}
		delete(a.ByID, id)
	})
	return err
}

// SetNames implements the method of api.Client or the function of its package.
func (a *Agent) SetNames(_ context.Context, _ string, n api.NodeNames) (err error) {
	a.Change(func() { a.Names = n })
	return nil
}

// Resize implements the method of api.Client or the function of its package.
func (a *Agent) Resize(_ context.Context, id string, r api.PodResources) (err error) {
	a.Change(func() {
		text, _ := json.Marshal(r)
		a.asked = append(a.asked, "resize "+id+" "+string(text))
		t := a.ByID[id]
		if err = a.Refusal; err != nil || t == nil {
			return
		}
		for i, c := range t.Object.Spec.Containers {
			if to := r.Containers[c.Name]; to != nil {
				t.Object.Spec.Containers[i].Resources = corev1.ResourceRequirements{}
				err = json.Unmarshal(to, &t.Object.Spec.Containers[i].Resources)
			}
		}
	})
	return err
}

// End ends the task.
func (t *Task) End(phase corev1.PodPhase) {
	t.Status, t.Settled, t.Goal = lifecycle.StatusStopped.String(), true, "DOWN"
	t.Object.Status.Phase = phase
}

// Pod returns a Pod of the node edge, with one container that is always restarted.
func Pod(name, uid string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(uid)},
		Spec:       corev1.PodSpec{NodeName: "edge", RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
	}
}
