package awsapi_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/podtask/podtask/internal/testing/history"
)

// What clients are told has an order, although the server ends, the clock jumps up to three hours in both directions, and answers are
// lost. The seeds make the same requests each time; requests at once are those of TestHistory in test/e2e.
func TestHistoryWithJumpsOfTheClock(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		h := &jumps{world: newWorld(t), Rand: rand.New(rand.NewPCG(seed, 0)), ids: map[string]string{}}
		h.register("web")
		h.register("web")
		socket := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.server.Trusted().ServeHTTP(w, r) }))
		h.sdk = clientOf(socket.URL, key)
		for range 150 {
			h.next()
		}
		socket.Close()
		for r, model := range map[*history.Recorder]history.Model{&h.services: history.Services, &h.runs: history.Tasks} {
			if err := r.Check(model, time.Minute); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		}
		if all, lost := h.services.Count(); all < 50 || lost < 3 {
			t.Errorf("seed %d: %d requests about services, %d without an answer", seed, all, lost)
		}
	}
}

type jumps struct {
	*world
	*rand.Rand
	sdk            *ecs.Client // its requests need no signature, which has the time
	services, runs history.Recorder
	ids            map[string]string // of tasks, by token
}

// next does a request, or has something happen.
func (h *jumps) next() {
	name := fmt.Sprint("s", h.IntN(2))
	value := fmt.Sprintf("%d of web:%d", h.IntN(1000), 1+h.IntN(2))
	var count int32
	var definition string
	_, _ = fmt.Sscanf(value, "%d of %s", &count, &definition)
	ctx := h.t.Context()
	switch h.IntN(14) {
	case 0:
		h.now = h.now.Add(time.Duration(h.IntN(6*3600)-3*3600) * time.Second)
	case 1:
		h.start()
	case 2:
		if s, ok := h.keeper.State(name); ok && s.Status == history.Draining {
			h.keeper.gone(name)
		}
	case 3:
		h.change(h.idOf(name), end)
	case 4, 5:
		h.about(&h.services, history.Request{Of: name, Do: history.Create, Value: value}, func() (a history.Answer, err error) {
			_, err = h.sdk.CreateService(ctx, &ecs.CreateServiceInput{ServiceName: &name, DesiredCount: &count, TaskDefinition: &definition})
			return a, err
		})
	case 6, 7:
		h.about(&h.services, history.Request{Of: name, Do: history.Update, Value: value}, func() (a history.Answer, err error) {
			_, err = h.sdk.UpdateService(ctx, &ecs.UpdateServiceInput{Service: &name, DesiredCount: &count, TaskDefinition: &definition})
			return a, err
		})
	case 8:
		h.about(&h.services, history.Request{Of: name, Do: history.Delete}, func() (a history.Answer, err error) {
			_, err = h.sdk.DeleteService(ctx, &ecs.DeleteServiceInput{Service: &name, Force: aws.Bool(true)})
			return a, err
		})
	case 9, 10:
		h.lookAtService(name)
	case 11:
		if a := h.about(&h.runs, history.Request{Of: name, Do: history.Run}, func() (a history.Answer, err error) {
			out, err := h.sdk.RunTask(ctx, &ecs.RunTaskInput{TaskDefinition: aws.String("web:1"), ClientToken: &name})
			if err == nil {
				a.Task = *out.Tasks[0].TaskArn
			}
			return a, err
		}); a.Task != "" {
			h.ids[name] = a.Task
		}
	case 12:
		h.aboutTask(name, history.Stop, func(id string) (a history.Answer, err error) {
			_, err = h.sdk.StopTask(ctx, &ecs.StopTaskInput{Task: &id})
			return a, err
		})
	default:
		h.lookAtTask(name)
	}
}

func (h *jumps) lookAtService(name string) {
	h.about(&h.services, history.Request{Of: name, Do: history.Look}, func() (history.Answer, error) {
		out, err := h.sdk.DescribeServices(h.t.Context(), &ecs.DescribeServicesInput{Services: []string{name}})
		if err != nil || len(out.Services) == 0 {
			return history.Answer{Status: history.Gone}, err
		}
		s := out.Services[0]
		return history.Answer{Status: *s.Status, Value: fmt.Sprintf("%d of %s", s.DesiredCount, (*s.TaskDefinition)[len(*s.TaskDefinition)-5:])}, nil
	})
}

func (h *jumps) lookAtTask(token string) {
	h.aboutTask(token, history.Look, func(id string) (history.Answer, error) {
		out, err := h.sdk.DescribeTasks(h.t.Context(), &ecs.DescribeTasksInput{Tasks: []string{id}})
		if err != nil || len(out.Tasks) == 0 {
			return history.Answer{Refused: history.Missing}, err
		}
		return history.Answer{Status: *out.Tasks[0].LastStatus, Down: *out.Tasks[0].DesiredStatus == "STOPPED"}, nil
	})
}

// idOf returns the id of the task of a token; it is empty if no client was told.
func (h *jumps) idOf(token string) string {
	id := h.ids[token]
	return id[max(0, len(id)-32):]
}

func (h *jumps) aboutTask(token, verb string, send func(id string) (history.Answer, error)) {
	if id := h.ids[token]; id != "" {
		h.about(&h.runs, history.Request{Of: token, Do: verb, Task: id}, func() (history.Answer, error) { return send(id) })
	}
}

// about records a request. Of every eighth the answer is lost.
func (h *jumps) about(to *history.Recorder, q history.Request, send func() (history.Answer, error)) history.Answer {
	lost := h.IntN(8) == 0
	return to.Do(0, q, func() (history.Answer, bool) {
		a, err := send()
		if lost {
			return history.Answer{Lost: true}, true
		}
		if err == nil {
			return a, true
		}
		refusals := map[string]string{"ServiceNotActiveException": history.NotActive, "ServiceNotFoundException": history.Missing, "InvalidParameterException": history.Exists}
		a.Refused = refusals[code(err)]
		if s, _ := h.keeper.State(q.Of); a.Refused == history.Exists && s.Status == history.Draining {
			a.Refused = history.NotActive
		}
		if a.Refused == "" {
			h.t.Errorf("%s: %v", q.Do, err)
		}
		return a, true
	})
}
