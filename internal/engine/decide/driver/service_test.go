package driver

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/pkg/service"
)

func newService(count int) *Service {
	spec := service.Spec{TaskDefinition: "web:1", Task: newState().Task}
	return NewService(service.New(strings.Repeat("cd", 16), "web", spec, count, service.Config{}, at))
}

func TestServiceSavesBeforeItStartsTasks(t *testing.T) {
	t.Parallel()
	v := newService(1)
	d, err := v.Step(at, v.Tick(at))
	if err != nil {
		t.Fatal(err)
	}
	if d.Record == nil || len(d.Start) != 1 || len(d.State.Tasks) != 1 {
		t.Fatalf("saves %s and starts %v", d.Record, d.Start)
	}
	id := d.State.Tasks[0].ID
	if d, _ = v.Step(at, []Message{{Input: service.Done{ID: id}}}); !slices.Equal(d.Watch, []string{id}) {
		t.Errorf("watches %v, want the task that was made", d.Watch)
	}
	if d, _ = v.Step(at, []Message{{Input: service.Vanished{ID: id}}}); !slices.Equal(d.Unwatch, []string{id}) {
		t.Errorf("the watches %v end, want that of the task that is gone", d.Unwatch)
	}
}

func TestServiceAnswersRequests(t *testing.T) {
	t.Parallel()
	v := newService(0)
	refused := errors.New("refused")
	two := 2
	update := func(s service.State) (service.Input, error) {
		if s.DesiredCount == two {
			return nil, refused
		}
		return service.Updated{DesiredCount: &two}, nil
	}
	var got []error
	reply := func(err error) { got = append(got, err) }
	// The second request meets the state that the first one made.
	d, err := v.Step(at, []Message{{Request: update, Reply: reply}, {Request: update, Reply: reply}})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) > 0 {
		t.Error("the driver has replied before the record was saved")
	}
	for _, a := range d.Answers {
		a.Reply(a.Err)
	}
	if !slices.Equal(got, []error{nil, refused}) || d.State.DesiredCount != two {
		t.Errorf("answers %v, %d copies", got, d.State.DesiredCount)
	}
	if d, _ = v.Step(at, nil); len(d.Answers) > 0 {
		t.Errorf("%d requests are answered again", len(d.Answers))
	}
}

func TestServiceIsRemovedWhenNothingIsLeft(t *testing.T) {
	t.Parallel()
	v := newService(0)
	if d, _ := v.Step(at, v.Tick(at)); d.Settled {
		t.Error("a service without copies has settled")
	}
	d, err := v.Step(at, []Message{{Input: service.DeleteRequested{}}})
	if err != nil || !d.Settled {
		t.Fatalf("settled: %t, %v", d.Settled, err)
	}
	if _, end := v.Rest(d, nil); end != Removed {
		t.Errorf("end %d, want Removed", end)
	}
}
