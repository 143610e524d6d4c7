package lifecycle

import (
	"testing"

	"github.com/podtask/podtask/pkg/taskdef"
)

func TestOtherResourcesAreAskedForAsAnotherShare(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("web", hungry))
	d.answer(Admit, -1, Failure{}, Result{Admitted: true})
	d.upTo(Stop)
	was := d.s.Task
	r := ResourcesOf(was)
	r.CPU, r.Containers[0].Memory = was.CPU+2, 7<<20
	d.do(ResourcesRequested{Resources: r})
	if d.s.Task.Containers[0].Memory != 7<<20 || d.s.Resizes != 1 || was.Containers[0].Memory == 7<<20 {
		t.Errorf("the task has %+v after %d changes, before %+v", d.s.Task.Containers[0], d.s.Resizes, was.Containers[0])
	}
	if e, ok := d.asked[len(d.asked)-1].(AdmitTask); !ok || !e.Begun || d.s.Need().CPU != int64(r.CPU*1024) {
		t.Errorf("asked for %+v, need %+v", d.asked, d.s.Need())
	}
	d.answer(Admit, -1, Failure{}, Result{Admitted: true})
	asked := len(d.asked)
	d.do(ResourcesRequested{Resources: r}) // again
	d.do(ResourcesRequested{})             // of a task without containers
	if len(d.asked) != asked || d.s.Resizes != 1 || !r.Equal(d.s.Task) {
		t.Errorf("resources that do not change anything are applied: %+v", d.asked[asked:])
	}
}

func TestResourcesAreEqualByTheirContent(t *testing.T) {
	t.Parallel()
	task := taskdef.Task{Containers: []taskdef.Container{{Memory: 5}}, Extensions: taskdef.TaskExtensions{Requests: &taskdef.Requests{CPU: 1}}}
	r := ResourcesOf(task)
	r.Requests = &taskdef.Requests{CPU: 1}
	if !r.Equal(task) {
		t.Error("the same requests are others")
	}
	for name, change := range map[string]func(*Resources){
		"requests":    func(r *Resources) { r.Requests = &taskdef.Requests{CPU: 2} },
		"no requests": func(r *Resources) { r.Requests = nil },
		"a container": func(r *Resources) { r.Containers = []ContainerResources{{Memory: 6}} },
		"the Pod":     func(r *Resources) { r.Pod = []byte("{}") },
	} {
		other := r
		if change(&other); other.Equal(task) {
			t.Errorf("another value of %s is the same", name)
		}
	}
}
