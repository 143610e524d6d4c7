package service

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"
)

// loaded is a world whose service was recorded by a version that had no stages. Its tasks are as they were seen.
func loaded(t *testing.T, name string) *world {
	t.Helper()
	data, err := os.ReadFile("testdata/before-stages-" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{saved: data, now: noon.Add(4 * time.Hour), tasks: map[string]*copyOf{}, bad: map[string]Observation{}, drained: map[string]bool{}}
	if err := json.Unmarshal(data, &w.state); err != nil {
		t.Fatal(err)
	}
	if err := Check(w.state); err != nil {
		t.Fatal(err)
	}
	for _, d := range w.state.Completed {
		w.proven = append([]string{d.ID}, w.proven...)
	}
	for _, task := range w.state.Tasks {
		d, _ := w.state.Deployment(task.Deployment)
		w.tasks[task.ID] = &copyOf{definition: d.TaskDefinition, Observation: task.Seen, stopping: task.Phase == Stopping}
	}
	w.tell(TimerFired{})
	w.lookAtAll()
	return w
}

func TestRecordsWithoutStagesContinue(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"steady":  "web/1 SUCCESSFUL",
		"rolling": "web/1 SUCCESSFUL, web/2 SUCCESSFUL",
		"back":    "web/1 SUCCESSFUL, web/2 SUCCESSFUL, web/3 ROLLBACK_SUCCESSFUL web/2",
	} {
		w := loaded(t, name)
		waitForRest(w, t, time.Minute)
		wantTale(t, w, want)
		running := w.running()
		delete(running, "") // of a deployment that is no longer listed
		if !w.state.Steady || w.state.Threshold() != 3 {
			t.Errorf("%s: steady: %t, %v run", name, w.state.Steady, running)
		}
		for _, a := range w.state.History {
			if a.Progress != nil || !a.rolls() {
				t.Errorf("%s: attempt %d has the stage %s", name, a.Number, a.Progress.Stage)
			}
		}
		// The next deployment may be another one.
		w.tell(configure(Method{Strategy: BlueGreen}))
		w.tell(update(spec(9)))
		waitForRest(w, t, time.Minute)
		w.has(t, "web:9=3")
		if got := tale(w); !strings.HasSuffix(got, " SUCCESSFUL") {
			t.Errorf("%s: then the history is %s", name, got)
		}
	}
}
