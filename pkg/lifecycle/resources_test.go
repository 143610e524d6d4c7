package lifecycle

import (
	"slices"
	"testing"
	"time"

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

// A container whose policy says so is stopped and started again at once, whatever its exit code and however
// soon after its start; others run on.
func TestOtherResourcesRestartContainers(t *testing.T) {
	t.Parallel()
	policy := func(c *taskdef.Container) {
		c.Restart = &taskdef.RestartPolicy{AttemptPeriod: time.Minute, BackOff: 4 * time.Second, IgnoredExitCodes: []int{0}}
	}
	d := drive(t, Options{}, container("web", policy), container("side", policy), container("job"))
	d.upTo(Stop)
	r := ResourcesOf(d.s.Task)
	r.Containers[0].Memory, r.Restart = 7<<20, []int{0, 2}
	d.do(ResourcesRequested{Resources: r})
	if !slices.Contains(d.asked, Effect(StopContainer{ID: d.op(0).ID, Index: 0, Grace: 10 * time.Second})) || d.op(1).Kind != Idle || d.op(2).Kind != Idle || !d.s.Resizing() {
		t.Fatalf("asked for %v", d.asked)
	}
	d.do(Restarted{}) // another owner
	d.answer(Admit, -1, Failure{}, Result{Admitted: true})
	for i := range d.s.Containers {
		d.see(Inspect, i, Running)
	}
	if !d.s.Resizing() || d.op(0).Kind != Stop {
		t.Fatalf("another owner does %s: %+v", d.op(0).Kind, d.s.Containers[0])
	}
	d.at = d.at.Add(time.Second)
	d.see(Stop, 0, Exited, 0)
	c := d.s.Containers[0]
	d.upTo(Start)
	if d.s.Resizing() || d.op(0).Kind != Start || len(c.Runs) != 1 || !c.Runs[0].Resized || c.QuickExits != 0 || d.s.Goal != Up {
		t.Fatalf("%s is next: %+v", d.op(0).Kind, c)
	}
	d.see(Start, 0, Running)
	if c = d.s.Containers[0]; c.Restarts != 1 || c.Presence != Running {
		t.Errorf("%+v", c)
	}
	if last := d.s.History[len(d.s.History)-2]; last.Status != Restarting || last.Reason != "restart 1 for other resources" {
		t.Errorf("%+v", last)
	}
	if wrong := (Resources{Containers: r.Containers, Restart: []int{3}}); wrong.Fits(d.s.Task) {
		t.Error("a container that the task does not have is restarted")
	}
}

// TestAContainerIsRestartedOnRequest: without a restart policy, at once, while the others run.
func TestAContainerIsRestartedOnRequest(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("web"), container("side"))
	d.upTo(Stop)
	if d.s.Task.Containers[1].Restart != nil {
		t.Fatal("the container has a restart policy")
	}
	d.do(RestartRequested{Container: 7})
	d.do(RestartRequested{Container: 1})
	if d.op(1).Kind != Stop || d.op(0).Kind != Idle {
		t.Fatalf("%s and %s are in flight", d.op(0).Kind, d.op(1).Kind)
	}
	d.at = d.at.Add(time.Second)
	d.see(Stop, 1, Exited, 143)
	d.upTo(Start)
	if d.s.Goal != Up || d.op(1).Kind != Start {
		t.Fatalf("%s is next: %+v", d.op(1).Kind, d.s.Containers[1])
	}
	d.see(Start, 1, Running)
	c := d.s.Containers[1]
	if c.Restarts != 1 || c.Presence != Running || c.RestartRequested || !c.Runs[0].Requested || c.Runs[0].ExitCode != 143 {
		t.Errorf("%+v", c)
	}
	if last := d.s.History[len(d.s.History)-2]; last.Status != Restarting || last.Reason != "restart 1 as requested" {
		t.Errorf("%+v", last)
	}
	d.at = d.at.Add(time.Minute)
	d.do(Hinted{Index: 1})
	d.see(Inspect, 1, Exited, 3)
	if c := d.s.Containers[1]; !c.Ended {
		t.Errorf("a container without a restart policy is restarted after an exit of its own: %+v", c)
	}
}

// A task that is stopped meanwhile is stopped; no restart comes after.
func TestATaskThatIsStoppedIsNotRestartedForItsResources(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("web", func(c *taskdef.Container) { c.Restart = &taskdef.RestartPolicy{AttemptPeriod: time.Minute} }))
	d.upTo(Stop)
	r := ResourcesOf(d.s.Task)
	r.Memory, r.Restart = 7<<20, []int{0}
	d.do(ResourcesRequested{Resources: r})
	d.do(StopRequested{By: "user"})
	d.see(Stop, 0, Exited, 143)
	if c := d.s.Containers[0]; !c.Ended || c.Restarts != 0 || d.s.Resizing() || c.NotRestarted != "" {
		t.Errorf("%+v", c)
	}
}
