package metadata

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/podtask/podtask/pkg/lifecycle"
)

// protectionPath is the path under ECS_AGENT_URI at which a container protects its task.
const protectionPath = "/api/{id}/task-protection/v1/state"

// How long a protection may last, in minutes (ECS: UpdateTaskProtection).
const (
	defaultProtection = 120
	longestProtection = lifecycle.MaxProtection / time.Minute
)

// protectionRequest is the body of PUT, with the members of the ECS agent.
type protectionRequest struct {
	ProtectionEnabled *bool
	ExpiresInMinutes  *int64
}

// protection is the answer of the ECS agent about a task.
type protection struct {
	ExpirationDate    *time.Time `json:",omitempty"`
	ProtectionEnabled bool
	TaskArn           string
}

// protectionError is a request that the ECS agent, or ECS itself, would refuse.
type protectionError struct{ Arn, Code, Message string }

// protectionFailure is a task that cannot be protected.
type protectionFailure struct {
	Arn    string
	Reason string
	Detail string
}

// maxProtectionBody limits the body of a request.
const maxProtectionBody = 1 << 10

// protect answers GET and PUT.
func (s *Server) protect(w http.ResponseWriter, r *http.Request) {
	if _, ok := s.byID[r.PathValue("id")]; !ok {
		s.answer(w, http.StatusNotFound, map[string]any{"error": protectionError{Code: "ResourceNotFoundException", Message: "there is no container of this task by that id; use ECS_AGENT_URI as it is"}})
		return
	}
	done, ok := s.admit(w, r)
	if !ok {
		return
	}
	defer done()
	arn := s.src.Names.TaskARN
	if r.Method == http.MethodPut {
		var ask protectionRequest
		if why := readProtection(r.Body, &ask); why != "" {
			s.answer(w, http.StatusBadRequest, map[string]any{"error": protectionError{arn, "InvalidParameterException", why}})
			return
		}
		if err := s.src.Protect(r.Context(), ask.until(s.src.now())); err != nil {
			s.src.Log.Warn("the task is not protected", "error", err)
			s.answer(w, http.StatusInternalServerError, map[string]any{"error": protectionError{arn, "ServerException", err.Error()}})
			return
		}
	}
	st := s.src.State()
	if st.Goal != lifecycle.Up {
		s.answer(w, http.StatusOK, map[string]any{"failure": protectionFailure{Arn: arn, Reason: "TASK_NOT_VALID", Detail: "the task is stopping"}})
		return
	}
	doc := protection{TaskArn: arn}
	if until := st.ProtectedUntil; s.src.now().Before(until) {
		doc.ProtectionEnabled, doc.ExpirationDate = true, &until
	}
	s.answer(w, http.StatusOK, map[string]any{"protection": doc})
}

func (s Source) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}

// until returns the end of the requested protection; zero for none.
func (p protectionRequest) until(now time.Time) time.Time {
	if !*p.ProtectionEnabled {
		return time.Time{}
	}
	minutes := int64(defaultProtection)
	if p.ExpiresInMinutes != nil {
		minutes = *p.ExpiresInMinutes
	}
	return now.Add(time.Duration(minutes) * time.Minute).UTC().Truncate(time.Second)
}

// readProtection reads a request and returns what is wrong with it.
func readProtection(from io.Reader, ask *protectionRequest) (wrong string) {
	dec := json.NewDecoder(io.LimitReader(from, maxProtectionBody))
	dec.DisallowUnknownFields()
	switch err := dec.Decode(ask); {
	case err != nil:
		return "the request is not valid: " + err.Error()
	case ask.ProtectionEnabled == nil:
		return "the request has no ProtectionEnabled"
	case ask.ExpiresInMinutes != nil && (*ask.ExpiresInMinutes < 1 || *ask.ExpiresInMinutes > int64(longestProtection)):
		return "ExpiresInMinutes is 1 to " + strconv.Itoa(int(longestProtection)) + ", not " + strconv.FormatInt(*ask.ExpiresInMinutes, 10)
	}
	return ""
}

// Protector protects a task until a moment, or for the zero time no longer. It returns when
// that is recorded, or the task is stopping.
type Protector func(ctx context.Context, until time.Time) error
