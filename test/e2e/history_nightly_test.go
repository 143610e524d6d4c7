//go:build e2e && bed_systemd && nightly

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/smithy-go"

	"github.com/podtask/podtask/internal/testing/history"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/test/testbed"
)

// TestHistory has clients of both APIs of an agent change and describe a few services and tasks at once while the agent gets SIGKILL,
// again and again for HISTORY_TIME (1m). There must be an order of the requests that explains all answers.
func TestHistory(t *testing.T) {
	limit := time.Minute
	if text := os.Getenv("HISTORY_TIME"); text != "" {
		var err error
		if limit, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	b := newBox(t)
	address := loopback(t)
	b.env = append(b.env, "PODTASK_SOCKET="+b.agentSocket())
	h := &historyTest{box: b, rand: rand.New(rand.NewPCG(seedOf(t), 0)), args: []string{"--aws-listen=" + address}}
	h.running = b.agent(h.args...)
	env := awsEnv(b, address)
	h.ecs = ecs.New(ecs.Options{BaseEndpoint: aws.String(env["AWS_ENDPOINT_URL"]), Region: env["AWS_REGION"], Credentials: awsCredentials(env), RetryMaxAttempts: 1})
	for range 2 {
		h.definitions = append(h.definitions, registerECS(b, h.ecs, "sleep forever"))
	}
	rounds := 0
	for begun := time.Now(); rounds == 0 || time.Since(begun) < limit && !t.Failed(); rounds++ {
		h.round(rounds)
	}
	t.Logf("history: %d rounds, %d kills, %d requests, %d of them without an answer", rounds, h.kills, h.requests, h.lost)
}

type historyTest struct {
	*box
	rand        *rand.Rand
	args        []string
	ecs         *ecs.Client
	definitions []string
	running     *process

	kills, requests, lost int
	graces                atomic.Int64 // each grace period is used once: it says which update is seen
}

// historyRound is a set of services and tasks of their own, with a history of its own.
type historyRound struct {
	*historyTest
	services, tasks  history.Recorder
	names, tokens    []string
	begun            chan struct{} // a request begins
	mu               sync.Mutex
	ids              map[string]string // of tasks, by token
	definitionNumber map[string]int
}

const historyClients, historyKills = 4, 2

func (h *historyTest) round(n int) {
	r := &historyRound{historyTest: h, begun: make(chan struct{}), ids: map[string]string{}, definitionNumber: map[string]int{}}
	for i, d := range h.definitions {
		r.definitionNumber[d] = i
		r.definitionNumber[fmt.Sprintf("%s:%d", h.family, i+1)] = i
	}
	for i := range 2 {
		r.names = append(r.names, fmt.Sprintf("%s-%d-%d", h.family, n, i))
		r.tokens = append(r.tokens, fmt.Sprintf("%s-%d-%d", h.family, n, i))
	}
	ctx, cancel := context.WithCancel(h.t.Context())
	var wg sync.WaitGroup
	for client := range historyClients {
		rnd := rand.New(rand.NewPCG(h.rand.Uint64(), 0))
		wg.Go(func() {
			for ctx.Err() == nil {
				r.one(ctx, client, rnd)
			}
		})
	}
	for range historyKills {
		for range 20 + h.rand.IntN(60) {
			<-r.begun
		}
		h.running.kill()
		h.kills++
		restarted := make(chan struct{})
		go func() {
			for {
				select {
				case <-r.begun:
				case <-restarted:
					return
				}
			}
		}()
		h.running = h.agent(h.args...)
		close(restarted)
	}
	for range 20 {
		<-r.begun
	}
	cancel()
	wg.Wait()
	r.finish()
}

// one does a random request.
func (r *historyRound) one(ctx context.Context, client int, rnd *rand.Rand) {
	select {
	case r.begun <- struct{}{}:
	case <-ctx.Done():
		return
	}
	i := rnd.IntN(2)
	switch n := rnd.IntN(20); {
	case n < 2:
		r.run(client, r.tokens[i])
	case n < 3:
		r.stop(client, r.tokens[i])
	case n < 7:
		r.lookAtTask(client, r.tokens[i])
	case n < 10:
		r.change(client, r.names[i], history.Create, rnd)
	case n < 11:
		r.remove(client, r.names[i])
	case n < 14:
		r.change(client, r.names[i], history.Update, rnd)
	case n < 17:
		r.lookAtService(client, r.names[i])
	default:
		r.lookByAPI(client, r.names[i])
	}
}

// finish removes what a round has made, checks what it saw, and looks for tasks that no token explains.
func (r *historyRound) finish() {
	r.t.Helper()
	for i := range 2 {
		eventually(r.t, "an answer to a deletion", func() bool { a := r.remove(0, r.names[i]); return !a.Lost })
		eventually(r.t, "the end of a service", func() bool { return r.lookAtService(0, r.names[i]).Status == history.Gone })
		r.run(0, r.tokens[i])
		r.stop(0, r.tokens[i])
		eventually(r.t, "the end of a task", func() bool { return r.lookAtTask(0, r.tokens[i]).Status == "STOPPED" })
	}
	for _, c := range []struct {
		*history.Recorder
		model history.Model
	}{{&r.services, history.Services}, {&r.tasks, history.Tasks}} {
		all, lost := c.Count()
		r.requests, r.lost = r.requests+all, r.lost+lost
		if err := c.Check(c.model, time.Minute); err != nil {
			r.t.Error(err)
		}
	}
	var found []string
	for _, status := range []types.DesiredStatus{types.DesiredStatusRunning, types.DesiredStatusStopped} {
		l, err := r.ecs.ListTasks(r.t.Context(), &ecs.ListTasksInput{StartedBy: &r.names[0], DesiredStatus: status})
		if err != nil {
			r.t.Fatal(err)
		}
		found = append(found, l.TaskArns...)
	}
	slices.Sort(found)
	if want := slices.Sorted(maps.Values(r.ids)); !slices.Equal(found, want) {
		r.t.Errorf("the tokens made %v, and there are %v", want, found)
	}
	r.want(0, "rm", "--force", "--all")
}

// told converts the result of a request of either API.
func (r *historyRound) told(err error, a history.Answer) (history.Answer, bool) {
	var answered smithy.APIError
	var failed *api.Failure
	switch {
	case err == nil:
		return a, true
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, os.ErrNotExist), errors.Is(err, api.ErrNoServer):
		return a, false
	case errors.As(err, &answered) && answered.ErrorCode() != "ServerException":
		return r.refused(answered.ErrorCode() + ": " + answered.ErrorMessage()), true
	case errors.As(err, &failed):
		return r.refused(string(failed.Code) + ": " + failed.Message), true
	}
	return history.Answer{Lost: true}, true
}

// refused tells refusals apart.
func (r *historyRound) refused(text string) history.Answer {
	for part, refusal := range map[string]string{
		"not idempotent": history.Exists, "still Draining": history.NotActive, "is being removed": history.NotActive, "ServiceNotActiveException": history.NotActive,
		"ServiceNotFoundException": history.Missing, string(api.NotFound) + ":": history.Missing, "task was not found": history.Missing,
	} {
		if strings.Contains(text, part) {
			return history.Answer{Refused: refusal}
		}
	}
	r.t.Errorf("a request was refused: %s", text)
	return history.Answer{Lost: true}
}

func (r *historyRound) value(count int, definition string, grace int) string {
	return fmt.Sprintf("%d of revision %d, grace %d", count, r.definitionNumber[definition]+1, grace)
}

// do records a request with a limit of its time. What did not reach the agent waits for the next one.
func (r *historyRound) do(to *history.Recorder, client int, q history.Request, send func(context.Context) (history.Answer, error)) history.Answer {
	reached := false
	a := to.Do(client, q, func() (history.Answer, bool) {
		ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
		defer cancel()
		a, err := send(ctx)
		a, reached = r.told(err, a)
		return a, reached
	})
	if !reached {
		testbed.Until(func() bool {
			c, err := api.Dial(r.t.Context(), r.agentSocket())
			if err == nil {
				c.Close()
			}
			return err == nil
		})
	}
	return a
}

func (r *historyRound) change(client int, name, verb string, rnd *rand.Rand) {
	count, definition, grace := rnd.IntN(2), r.definitions[rnd.IntN(2)], int(r.graces.Add(1))
	byAPI := verb == history.Update && rnd.IntN(2) == 0
	r.do(&r.services, client, history.Request{Of: name, Do: verb, Value: r.value(count, definition, grace)}, func(ctx context.Context) (a history.Answer, err error) {
		switch {
		case byAPI:
			err = r.byAPI(ctx, func(c *api.Client) error {
				_, err := c.UpdateService(ctx, name, api.ServiceUpdate{
					DesiredCount: &count, TaskDefinition: fmt.Sprintf("%s:%d", r.family, r.definitionNumber[definition]+1), ServiceSettings: api.ServiceSettings{HealthCheckGracePeriodSeconds: &grace},
				})
				return err
			})
		case verb == history.Update:
			_, err = r.ecs.UpdateService(ctx, &ecs.UpdateServiceInput{Service: &name, DesiredCount: aws.Int32(int32(count)), TaskDefinition: &definition, HealthCheckGracePeriodSeconds: aws.Int32(int32(grace))})
		default:
			_, err = r.ecs.CreateService(ctx, &ecs.CreateServiceInput{ServiceName: &name, DesiredCount: aws.Int32(int32(count)), TaskDefinition: &definition, HealthCheckGracePeriodSeconds: aws.Int32(int32(grace))})
		}
		return a, err
	})
}

func (r *historyRound) remove(client int, name string) history.Answer {
	return r.do(&r.services, client, history.Request{Of: name, Do: history.Delete}, func(ctx context.Context) (a history.Answer, err error) {
		_, err = r.ecs.DeleteService(ctx, &ecs.DeleteServiceInput{Service: &name, Force: aws.Bool(true)})
		return a, err
	})
}

func (r *historyRound) lookAtService(client int, name string) history.Answer {
	return r.do(&r.services, client, history.Request{Of: name, Do: history.Look}, func(ctx context.Context) (history.Answer, error) {
		out, err := r.ecs.DescribeServices(ctx, &ecs.DescribeServicesInput{Services: []string{name}})
		if err != nil || len(out.Services) == 0 {
			return history.Answer{Status: history.Gone}, err
		}
		s := out.Services[0]
		return history.Answer{Status: *s.Status, Value: r.value(int(s.DesiredCount), *s.TaskDefinition, int(aws.ToInt32(s.HealthCheckGracePeriodSeconds)))}, nil
	})
}

// lookByAPI is lookAtService by the agent's own API.
func (r *historyRound) lookByAPI(client int, name string) {
	r.do(&r.services, client, history.Request{Of: name, Do: history.Look}, func(ctx context.Context) (a history.Answer, err error) {
		err = r.byAPI(ctx, func(c *api.Client) error {
			s, err := c.Service(ctx, name)
			a = history.Answer{Status: s.Status, Value: r.value(s.DesiredCount, s.TaskDefinition, s.HealthCheckGracePeriodSeconds)}
			return err
		})
		return a, err
	})
}

func (r *historyRound) byAPI(ctx context.Context, f func(*api.Client) error) error {
	c, err := api.Dial(ctx, r.agentSocket())
	if err != nil {
		return fmt.Errorf("%w: %w", api.ErrNoServer, err) // nothing was asked
	}
	defer c.Close()
	return f(c)
}

func (r *historyRound) run(client int, token string) {
	r.do(&r.tasks, client, history.Request{Of: token, Do: history.Run}, func(ctx context.Context) (a history.Answer, err error) {
		out, err := r.ecs.RunTask(ctx, &ecs.RunTaskInput{TaskDefinition: &r.definitions[0], ClientToken: &token, StartedBy: &r.names[0]})
		if err != nil {
			return a, err
		}
		if len(out.Tasks) != 1 {
			r.t.Errorf("RunTask gave %d tasks, failures %+v", len(out.Tasks), out.Failures)
			return history.Answer{Lost: true}, nil
		}
		a.Task = *out.Tasks[0].TaskArn
		r.mu.Lock()
		r.ids[token] = a.Task
		r.mu.Unlock()
		return a, nil
	})
}

func (r *historyRound) idOf(token string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ids[token]
}

func (r *historyRound) stop(client int, token string) {
	if id := r.idOf(token); id != "" {
		r.do(&r.tasks, client, history.Request{Of: token, Do: history.Stop, Task: id}, func(ctx context.Context) (a history.Answer, err error) {
			_, err = r.ecs.StopTask(ctx, &ecs.StopTaskInput{Task: &id})
			return a, err
		})
	}
}

func (r *historyRound) lookAtTask(client int, token string) (a history.Answer) {
	id := r.idOf(token)
	if id == "" {
		return a
	}
	return r.do(&r.tasks, client, history.Request{Of: token, Do: history.Look, Task: id}, func(ctx context.Context) (a history.Answer, err error) {
		out, err := r.ecs.DescribeTasks(ctx, &ecs.DescribeTasksInput{Tasks: []string{id}})
		if err != nil {
			return a, err
		}
		if len(out.Tasks) == 0 {
			return history.Answer{Refused: history.Missing}, nil
		}
		return history.Answer{Status: *out.Tasks[0].LastStatus, Down: *out.Tasks[0].DesiredStatus == "STOPPED"}, nil
	})
}
