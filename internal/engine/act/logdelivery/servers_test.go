package logdelivery

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/logs/logroute"
	"github.com/podtask/podtask/internal/testing/logstest"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

// The helper is told that the execution role is asked for, and which it is; without a helper the
// credentials are made up.
func TestTheHelperOfCredentialsIsToldTheRole(t *testing.T) {
	t.Parallel()
	const prints = `printf '{"Version":1,"AccessKeyId":"%s","SecretAccessKey":"%s","Expiration":"2036-01-02T03:04:05Z"}' "$PODTASK_ROLE" "$PODTASK_ROLE_ARN"`
	got, err := credentialsOf([]string{"/bin/sh", "-c", prints}, "arn:aws:iam::1:role/shop")(t.Context())
	if err != nil || got.AccessKeyID != "execution" || got.SecretAccessKey != "arn:aws:iam::1:role/shop" || got.Expires.Year() != 2036 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := credentialsOf(nil, "")(t.Context()); err != nil || got.AccessKeyID == "" || !got.Expires.After(time.Now()) {
		t.Errorf("without a helper: %+v, %v", got, err)
	}
}

// The endpoint of an option goes before that of the configuration, which goes before the variable.
func TestTheEndpointOfTheDefinitionGoesFirst(t *testing.T) {
	t.Parallel()
	urls := make([]string, 3)
	servers := make([]*logstest.Server, 3)
	for i := range servers {
		servers[i] = logstest.New("shop")
		web := httptest.NewServer(servers[i])
		t.Cleanup(web.Close)
		urls[i] = web.URL
	}
	for first := range servers {
		options := map[string]string{"awslogs-group": "shop", "awslogs-region": "r", "awslogs-stream": "s"}
		var settings config.Delivery
		if first == 0 {
			options["awslogs-endpoint"] = urls[0]
		}
		if first <= 1 {
			settings.AWSLogsEndpoint = urls[1]
		}
		v := testServers(settings)
		v.Getenv = func(name string) string { return map[string]string{"AWS_ENDPOINT_URL_CLOUDWATCH_LOGS": urls[2]}[name] }
		s := lifecycle.State{ID: taskID, Task: taskdef.Task{Containers: []taskdef.Container{{Name: "app", Log: &taskdef.LogConfiguration{Driver: logdriver.AWSLogs, Options: options}}}}, Containers: make([]lifecycle.Container, 1)}
		sender, err := v.New(t.Context(), s, 0)
		if err != nil {
			t.Fatal(err)
		}
		sender.Add(logroute.Entry{Time: time.Now(), Text: "hello"})
		if _, err := sender.Send(t.Context()); err == nil {
			t.Error("there was a stream")
		}
		for i, server := range servers {
			if asked := len(server.Requests("PutLogEvents")) > 0; asked != (i <= first) {
				t.Errorf("server %d was asked: %t, when %d goes first", i, asked, first)
			}
		}
	}
}

// flaky sends nothing until it may.
type flaky struct {
	Sender
	may <-chan struct{}
}

// Send implements Sender.
func (f flaky) Send(ctx context.Context) (logroute.Sent, error) {
	select {
	case <-f.may:
		return f.Sender.Send(ctx)
	default:
		return logroute.Sent{}, &logroute.SendError{Text: "not now", Pause: firstPause + 1}
	}
}

// flakySenders makes them of those of servers.
type flakySenders struct {
	*Servers
	may <-chan struct{}
}

// New implements Senders.
func (f flakySenders) New(ctx context.Context, s lifecycle.State, i int) (Sender, error) {
	sender, err := f.Servers.New(ctx, s, i)
	return flaky{sender, f.may}, err
}

// That a server stands still, and that it takes lines again, are events.
func TestAServerThatTakesLinesAgainIsAnEvent(t *testing.T) {
	t.Parallel()
	h := newHost(t, "shop")
	may := make(chan struct{})
	h.senders = func(v *Servers) Senders { return flakySenders{v, may} }
	h.write(true, "one")
	p := h.process()
	p.awaitEvent("LOGS_STALLED not now")
	close(may)
	p.awaitEvent("LOGS_RESUMED")
	p.exit()
	h.want("one")
}

// What was not sent of a task that is removed is counted as lost, once its time is over.
func TestWhatIsLeftOfARemovedTaskIsLost(t *testing.T) {
	t.Parallel()
	h := newHost(t, "shop")
	h.senders = func(v *Servers) Senders { return flakySenders{v, nil} }
	h.write(true, "one")
	p := h.process()
	p.awaitEvent("LOGS_STALLED not now")
	p.change(func(s *lifecycle.State) { s.Containers = []lifecycle.Container{{Ended: true}} })
	p.Settings.Drain = time.Millisecond
	p.Drain(t.Context(), false)
	if got := p.counted(); got.LostBytes != 0 {
		t.Errorf("lost before the removal: %+v", got)
	}
	p.change(func(s *lifecycle.State) {
		s.History = append(s.History, lifecycle.Transition{At: time.Now().Add(-2 * time.Hour), Status: lifecycle.StatusStopped.String()})
	})
	p.Settings.Drain = time.Hour // which the server had
	p.Drain(t.Context(), true)
	p.awaitEvent("LOGS_LOST")
	if got := p.counted(); got.LostBytes == 0 {
		t.Errorf("counted are %+v", got)
	}
}

// A task whose execution role has a source sends with it, and needs no setting of the host.
func TestTheSourceOfAnExecutionRole(t *testing.T) {
	t.Parallel()
	var s lifecycle.State
	s.Options.Logs = taskdef.LogsAuto
	s.Task.Containers = []taskdef.Container{{Name: "main", Log: &taskdef.LogConfiguration{Driver: logdriver.AWSLogs, Options: map[string]string{"awslogs-group": "g", "awslogs-region": "r"}}}}
	v := &Servers{Role: func(_ context.Context, s lifecycle.State) ([]byte, error) {
		return []byte(`{"Version":1,"AccessKeyId":"` + s.Task.Identity.ExecutionRoleSource + `","SecretAccessKey":"s","SessionToken":"t","Expiration":"2100-01-01T00:00:00Z"}`), nil
	}}
	if v.Sends(s, 0) {
		t.Error("lines leave a host that is not set up for it")
	}
	s.Task.Identity.ExecutionRoleSource = "file:/a"
	if !v.Sends(s, 0) {
		t.Error("lines stay here")
	}
	if got, err := v.credentials(s)(t.Context()); err != nil || got.AccessKeyID != "file:/a" || got.Token != "t" {
		t.Errorf("%v, %v", got, err)
	}
}
