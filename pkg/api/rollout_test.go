package api

import (
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/service"
)

func TestAMethodKeepsWhatIsNotGiven(t *testing.T) {
	t.Parallel()
	percent, bake := 12.5, 60
	m := DeploymentMethod{Strategy: "LINEAR", Linear: &TrafficStep{Percent: &percent}, BakeSeconds: &bake}.Method(service.Method{})
	if want := (service.Increment{Part: 125, Bake: 6 * time.Minute}); m.Step != want || m.Bake != time.Minute {
		t.Errorf("%+v", m)
	}
	pause := []Hook{{Name: "ok", Stages: []string{"POST_SCALE_UP"}, Kind: "PAUSE", TimeoutSeconds: 60}}
	m = DeploymentMethod{Hooks: &pause}.Method(m)
	if m.Strategy != service.Linear || m.Step.Part != 125 || len(m.Hooks) != 1 || m.Hooks[0].Timeout != time.Minute {
		t.Errorf("%+v", m)
	}
	// Another strategy begins with its own steps.
	if m = (DeploymentMethod{Strategy: "CANARY"}).Method(m); m.Step != service.CanaryStep {
		t.Errorf("%+v", m)
	}
	if m = (DeploymentMethod{Strategy: "BLUE_GREEN"}).Method(m); m.Step != (service.Increment{}) || len(m.Hooks) != 1 {
		t.Errorf("%+v", m)
	}
}

func TestMethodsThatCannotBe(t *testing.T) {
	t.Parallel()
	percent, fine := 10.05, 10.1
	step := &TrafficStep{Percent: &fine}
	for _, d := range []DeploymentMethod{
		{Strategy: "BLUE_GREEN", Linear: step}, {Strategy: "LINEAR", Canary: step}, {Linear: step}, {Strategy: "LINEAR", Linear: step, Canary: step},
		{Strategy: "LINEAR", Linear: &TrafficStep{Percent: &percent}},
	} {
		if err := d.Check(""); !Is(err, BadRequest) {
			t.Errorf("%+v: %v", d, err)
		}
	}
	if err := (DeploymentMethod{Linear: step}).Check(service.Linear); err != nil {
		t.Error(err)
	}
}
