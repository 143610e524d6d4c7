package libpod_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/host/libpod"
)

// imageLabels are labels of an image that somebody else made.
const imageLabels = `{"io.containers.autoupdate":"registry","io.containers.autoupdate.authfile":"/etc/passwd","PODMAN_SYSTEMD_UNIT":"evil.service",
	"podtask.task-id":"other","podtask.spec":"x","podtask.service":"web","podtask.tag.team":"red","com.amazonaws.ecs.cluster":"prod","team":"blue"}`

// Podman gives a container each label of its image that the request does not have.
func TestReservedLabelsOfAnImageAreNotTheContainers(t *testing.T) {
	t.Parallel()
	for name, user := range map[string]string{"the user of the image": "", "another user": "7"} {
		var sent struct{ Labels map[string]string }
		c := recorded(t, "5.4.2", func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/images/") {
				reply(w, http.StatusOK, `{"Id":"0123","User":"","Labels":`+imageLabels+`}`)
				return
			}
			if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
				t.Error(err)
			}
			reply(w, http.StatusCreated, `{"Id":"c"}`)
		})
		given := map[string]string{"podtask.family": "f", "com.amazonaws.ecs.cluster": "default"}
		if _, err := c.CreateContainer(soon(t), libpod.ContainerSpec{Name: "a", TaskID: "t", Image: "0123", User: user, Labels: given}); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		if err := json.Unmarshal([]byte(imageLabels), &got); err != nil {
			t.Fatal(err)
		}
		for key, value := range sent.Labels {
			got[key] = value
		}
		for key, want := range map[string]string{
			"io.containers.autoupdate": "disabled", "io.containers.autoupdate.authfile": "", "PODMAN_SYSTEMD_UNIT": "",
			"podtask.task-id": "t", "podtask.service": "", "podtask.tag.team": "", "com.amazonaws.ecs.cluster": "default", "team": "blue", "podtask.family": "f",
		} {
			if got[key] != want {
				t.Errorf("%s: %s is %q, want %q", name, key, got[key], want)
			}
		}
		if got["podtask.spec"] == "x" || len(given) != 2 {
			t.Errorf("%s: the digest is %q, and the caller's labels are %v", name, got["podtask.spec"], given)
		}
	}
}

func TestAutoUpdateThatWasAskedForStays(t *testing.T) {
	t.Parallel()
	var sent struct{ Labels map[string]string }
	c := recorded(t, "5.4.2", func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/images/") {
			reply(w, http.StatusOK, `{"Id":"0123","Labels":{"io.containers.autoupdate":"local"}}`)
			return
		}
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
			t.Error(err)
		}
		reply(w, http.StatusCreated, `{"Id":"c"}`)
	})
	labels := map[string]string{"io.containers.autoupdate": "registry", "PODMAN_SYSTEMD_UNIT": "web-task.service"}
	if _, err := c.CreateContainer(soon(t), libpod.ContainerSpec{Name: "a", TaskID: "t", Image: "0123", Labels: labels}); err != nil {
		t.Fatal(err)
	}
	for key, want := range labels {
		if sent.Labels[key] != want {
			t.Errorf("%s is %q, want %q", key, sent.Labels[key], want)
		}
	}
}

// Anyone can write a label into an image, also one with the ID of a task that exists.
func TestContainersOutsideOfPodsAreNotTheTasks(t *testing.T) {
	t.Parallel()
	c := recorded(t, "5.4.2", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.Contains(r.URL.Path, "/pods/"):
			reply(w, http.StatusOK, `[{"Id":"p","Name":"podtask-f-1","Labels":{"podtask.task-id":"t"}}]`)
		case strings.Contains(r.URL.Path, "/containers/"):
			reply(w, http.StatusOK, `[{"Id":"own","Names":["own"],"Pod":"p","State":"running","Labels":{"podtask.task-id":"t"}},
				{"Id":"alone","Names":["alone"],"State":"running","Labels":{"podtask.task-id":"t"}},
				{"Id":"elsewhere","Names":["elsewhere"],"Pod":"q","State":"running","Labels":{"podtask.task-id":"t"}},
				{"Id":"lies","Names":["lies"],"Pod":"p","State":"running","Labels":{"podtask.task-id":"u"}}]`)
		default:
			reply(w, http.StatusOK, `[]`)
		}
	})
	found, err := c.List(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range found {
		names = append(names, f.Name)
	}
	if got := strings.Join(names, " "); got != "podtask-f-1 own" {
		t.Errorf("found %q", got)
	}
}
