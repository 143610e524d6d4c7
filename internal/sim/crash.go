package sim

import (
	"encoding/json"
	"reflect"

	"github.com/podtask/podtask/pkg/lifecycle"
)

// reboot is a crash of the whole machine.
func (w *World) reboot() {
	w.die(0)
	w.powerLoss()
	w.step(lifecycle.Restarted{})
}

// powerLoss ends all that runs; Podman still knows it afterwards.
func (w *World) powerLoss() {
	for i := range w.truth {
		if w.truth[i].presence == lifecycle.Running {
			w.end(i, 255)
		}
	}
	if w.pod == lifecycle.SandboxReady {
		w.pod = lifecycle.SandboxStopped
	}
	w.podKilled = false // a start of a member alone does not mend it: it is prepared again
}

// crash ends the owner and starts the next one on what was saved. done tells
// the slots whose operations have acted unnoticed, slot s by bit s+1.
func (w *World) crash(done int) {
	w.die(done)
	w.step(lifecycle.Restarted{})
}

func (w *World) die(done int) {
	for k := range w.flights {
		if f := &w.flights[k]; done>>(f.slot+1)&1 == 1 && f.result == nil {
			w.act(f)
		}
	}
	w.flights, w.late = nil, nil
	if w.driver != nil {
		w.state = w.reload()
		w.driver = newDriver(w.state)
	}
}

// reload returns the state as a record gives it back.
func (w *World) reload() lifecycle.State {
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
