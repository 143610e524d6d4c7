package metadata

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/lifecycle"
)

// protecting returns a server of a task that can be protected.
func protecting(st *lifecycle.State) *Server {
	src := source(*st)
	src.State = func() lifecycle.State { return *st }
	src.Now = func() time.Time { return start.Add(time.Hour) }
	src.Protect = func(_ context.Context, until time.Time) error {
		st.ProtectedUntil = until
		return nil
	}
	return New(src)
}

func send(s *Server, method, path, body string) (int, string) {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w.Code, strings.TrimSpace(w.Body.String())
}

func TestTaskProtection(t *testing.T) {
	t.Parallel()
	st := running()
	s := protecting(&st)
	path := "/api/" + containerID(key, "web") + "/task-protection/v1/state"
	const off = `{"protection":{"ProtectionEnabled":false,"TaskArn":"arn:task"}}`
	for _, tt := range []struct {
		method, body string
		code         int
		want         string
	}{
		{"GET", "", 200, off},
		{"PUT", `{"ProtectionEnabled":true}`, 200, `{"protection":{"ExpirationDate":"2026-05-01T15:00:00Z","ProtectionEnabled":true,"TaskArn":"arn:task"}}`},
		{"PUT", `{"ProtectionEnabled":true,"ExpiresInMinutes":2880}`, 200, `"ExpirationDate":"2026-05-03T13:00:00Z"`},
		{"GET", "", 200, `"ExpirationDate":"2026-05-03T13:00:00Z"`},
		{"PUT", `{"ProtectionEnabled":true,"ExpiresInMinutes":0}`, 400, `"Code":"InvalidParameterException"`},
		{"PUT", `{"ProtectionEnabled":true,"ExpiresInMinutes":2881}`, 400, "1 to 2880"},
		{"PUT", `{"ExpiresInMinutes":10}`, 400, "ProtectionEnabled"},
		{"PUT", `{"ProtectionEnabled":true,"Odd":1}`, 400, "unknown field"},
		{"PUT", `{"ProtectionEnabled":true` + strings.Repeat(" ", maxProtectionBody), 400, "not valid"},
		{"GET", "", 200, `"ExpirationDate":"2026-05-03T13:00:00Z"`},
		{"PUT", `{"ProtectionEnabled":false}`, 200, off},
		{"POST", `{"ProtectionEnabled":true}`, 404, "nothing at this path"},
	} {
		if code, body := send(s, tt.method, path, tt.body); code != tt.code || !strings.Contains(body, tt.want) {
			t.Errorf("%s %s: %d %s, want %d %s", tt.method, tt.body, code, body, tt.code, tt.want)
		}
	}
	st.Goal = lifecycle.Down
	if code, body := send(s, "PUT", path, `{"ProtectionEnabled":true}`); code != http.StatusOK || !strings.Contains(body, `"failure":{"Arn":"arn:task","Reason":"TASK_NOT_VALID"`) {
		t.Errorf("of a task that stops: %d %s", code, body)
	}
}

func TestTaskProtectionThatFails(t *testing.T) {
	t.Parallel()
	st := running()
	s := protecting(&st)
	s.src.Protect = func(context.Context, time.Time) error { return errors.New("its owner is ending") }
	if code, body := send(s, "PUT", "/api/"+containerID(key, "web")+"/task-protection/v1/state", `{"ProtectionEnabled":true}`); code != 500 || !strings.Contains(body, "ServerException") {
		t.Errorf("%d %s", code, body)
	}
	if code, body := send(s, "GET", "/api/guess/task-protection/v1/state", ""); code != 404 || !strings.Contains(body, "ResourceNotFoundException") {
		t.Errorf("%d %s", code, body)
	}
}
