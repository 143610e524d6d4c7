package sim

import (
	"encoding/json"
	"reflect"

	"github.com/podtask/podtask/pkg/lifecycle"
)

// rebootHost is a crash of the whole machine.
func rebootHost(w *World) {
	die(w, 0)
	powerLoss(w)
	w.step(lifecycle.Restarted{})
}

// powerLoss ends all that runs; Podman still knows it afterwards.
func powerLoss(w *World) {
	for i := range w.truth {
		if w.truth[i].presence == lifecycle.Running {
			w.end(i, 255)
		}
	}
	if w.pod == lifecycle.SandboxReady {
		w.pod = lifecycle.SandboxStopped
	}
	w.podKilled = false // starting a member alone does not restore it: it is prepared again
}

// crashAfter ends the owner and starts the next one on what was saved. done tells
// the slots whose operations have acted unnoticed, slot s by bit s+1.
func crashAfter(w *World, done int) {
	die(w, done)
	w.step(lifecycle.Restarted{})
}

func die(w *World, done int) {
	for k := range w.flights {
		if f := &w.flights[k]; done>>(f.slot+1)&1 == 1 && f.result == nil {
			act(w, f)
		}
	}
	w.flights, w.late = nil, nil
	if w.driver != nil {
		w.state = reload(w)
		w.driver = newDriver(w.state)
	}
}

// reload returns the state as a record gives it back.
func reload(w *World) lifecycle.State {
	var back lifecycle.State
	saved := w.state.Durable()
	err := json.Unmarshal(w.driver.Saved(), &back)
	if err == nil {
		err = lifecycle.Check(back)
	}
	if err != nil {
		w.broken(SavedIsAll, "%v", err)
	}
	if !reflect.DeepEqual(saved, back) {
		w.broken(SavedIsAll, "was %+v\nis %+v", saved, back)
	}
	return back
}
