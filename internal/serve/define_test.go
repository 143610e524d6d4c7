package serve

import (
	"errors"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/pkg/api"
)

const twoContainers = `{"family": "two", "containerDefinitions": [
	{"name": "web", "image": "web:1", "memory": 64, "dependsOn": [{"containerName": "agent", "condition": "START"}]},
	{"name": "agent", "image": "agent:1", "memory": 64, "essential": false}]}`

// A request runs the images that it names, and leaves containers out.
func TestRequestsNameImagesAndLeaveContainersOut(t *testing.T) {
	t.Parallel()
	pinned := "docker.io/library/web:1@sha256:" + strings.Repeat("a", 64)
	c, err := ChangesOf(api.TaskSettings{Images: map[string]string{"web:1": pinned}, LeaveOut: []string{"agent"}}, api.TaskOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := read(define.Reader{}, define.Document{Name: "two.json", Source: []byte(twoContainers)}, c)
	if err != nil || len(d.Task.Containers) != 1 || d.Task.Containers[0].Image != pinned || len(d.Task.Containers[0].DependsOn) != 0 {
		t.Errorf("the task is %+v, %v", d.Task, err)
	}
	_, err = ChangesOf(api.TaskSettings{Images: map[string]string{"web:1": "A B"}}, api.TaskOptions{})
	var failure *api.Failure
	if !errors.As(err, &failure) || failure.Code != api.BadRequest || !strings.Contains(err.Error(), "images: ") {
		t.Errorf("an image that is none: %v", err)
	}
	c, err = ChangesOf(api.TaskSettings{LeaveOut: []string{"agnet"}}, api.TaskOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := read(define.Reader{}, define.Document{Name: "two.json", Source: []byte(twoContainers)}, c); err == nil || !strings.Contains(err.Error(), `did you mean "agent"`) {
		t.Errorf("a container that is none: %v", err)
	}
}
