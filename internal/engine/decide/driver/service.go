package driver

import (
	"encoding/json"
	"time"

	"github.com/podtask/podtask/pkg/service"
)

// Message is an input of a service, or a request that becomes one.
type Message struct {
	Input service.Input
	// Request makes the input from the state that it meets, or refuses. It must be pure.
	Request func(service.State) (service.Input, error)
	// Reply is for the sender, who is to be told when the request is refused or saved. A
	// driver never calls it.
	Reply func(error)
}

// Answer is due when the decision is saved.
type Answer struct {
	Reply func(error)
	Err   error // why the request was refused; nil: it was granted
}

// ServiceDecision is what follows from a batch of messages to a service.
type ServiceDecision struct {
	Decision[service.State, service.Effect, string] // watches are ids of tasks
	Answers                                         []Answer
}

// Service drives one service. Its methods must not be called concurrently.
type Service struct {
	machine[service.State, Message, service.Effect, string]
	answers []Answer // of the present step
	before  machine[service.State, Message, service.Effect, string]
}

// NewService returns the driver of a service in the state its record holds.
func NewService(s service.State) *Service {
	v := &Service{}
	v.rules = &rules[service.State, Message, service.Effect, string]{
		step:    v.take,
		encode:  func(s service.State) ([]byte, error) { return json.Marshal(s) },
		watches: serviceWatches,
		wake:    service.State.Wake,
		settled: service.State.Gone,
	}
	v.state = s
	return v
}

// serviceWatches are the tasks that may change.
func serviceWatches(s service.State) (ids []string) {
	for _, t := range s.Tasks {
		if t.Phase == service.Live || t.Phase == service.Stopping {
			ids = append(ids, t.ID)
		}
	}
	return ids
}

func (v *Service) take(s service.State, at time.Time, m Message) (service.State, []service.Effect) {
	if m.Request != nil {
		in, err := m.Request(s)
		v.answers = append(v.answers, Answer{Reply: m.Reply, Err: err})
		if err != nil {
			return s, nil
		}
		m.Input = in
	}
	return service.Step(s, at, m.Input)
}

// Step takes in a batch of messages.
func (v *Service) Step(at time.Time, batch []Message) (ServiceDecision, error) {
	v.answers, v.before = nil, v.machine
	d, err := v.step(at, batch)
	return ServiceDecision{Decision: d, Answers: v.answers}, err
}

// Tick returns the message of a timer that has fired.
func (v *Service) Tick(time.Time) []Message { return []Message{{Input: service.TimerFired{}}} }

// Rest decides what a settled service does: it is done, because nothing is left of it.
func (v *Service) Rest(_ ServiceDecision, arrived []Message) ([]Message, End) {
	return arrived, Removed
}
