package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/podtask/podtask/pkg/taskdef"
)

// Code is the kind of a failure.
type Code string

// The codes, each with its HTTP status.
const (
	NotFound   Code = "notFound"   // 404: there is no such task here
	Ambiguous  Code = "ambiguous"  // 409: the prefix or name fits several tasks
	Conflict   Code = "conflict"   // 409: not possible in the state of the task
	BadRequest Code = "badRequest" // 400: the request is malformed
	Internal   Code = "internal"   // 500: everything else
	// Unsupported, 501: only an agent supports this, not the owner of a single task.
	Unsupported Code = "unsupported"
	Busy        Code = "busy" // 503: too many requests are followed, or one like it is carried out
	// Gone, 410: the task of the client token has run and was removed.
	Gone Code = "gone"
)

var httpStatus = map[Code]int{
	NotFound: http.StatusNotFound, Ambiguous: http.StatusConflict, Conflict: http.StatusConflict,
	BadRequest: http.StatusBadRequest, Internal: http.StatusInternalServerError, Unsupported: http.StatusNotImplemented,
	Busy: http.StatusServiceUnavailable, Gone: http.StatusGone,
}

// Failure is an error that is sent to the client: a Backend returns it, and so does the
// Client. The server converts other errors to Internal.
type Failure struct {
	Code Code `json:"code"`
	// Message says what failed, why, and what to do. It never contains a secret.
	Message string `json:"message"`
	// Problems are those of an invalid task definition, each with its position.
	Problems []taskdef.Problem `json:"problems,omitempty"`
}

// Error returns the message.
func (f *Failure) Error() string { return f.Message }

// Failed returns a Failure with a message formatted like fmt.Sprintf.
func Failed(code Code, format string, args ...any) *Failure {
	return &Failure{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Is reports whether err is or wraps a Failure with the code.
func Is(err error, code Code) bool {
	var f *Failure
	return errors.As(err, &f) && f.Code == code
}

type failureReply struct {
	Error *Failure `json:"error"`
}

func writeFailure(w http.ResponseWriter, err error) {
	var f *Failure
	if !errors.As(err, &f) {
		f = &Failure{Code: Internal, Message: err.Error()}
	}
	status, ok := httpStatus[f.Code]
	if !ok {
		status = http.StatusInternalServerError
	}
	writeJSON(w, status, failureReply{Error: f})
}

// readFailure converts a reply that is not a success to a *Failure.
func readFailure(resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return fmt.Errorf("read the reply: %w", err)
	}
	if resp.StatusCode == http.StatusMethodNotAllowed {
		return Failed(Unsupported, "the server answered %s: it is of an earlier version", resp.Status)
	}
	var reply failureReply
	if json.Unmarshal(body, &reply) != nil || reply.Error == nil || reply.Error.Message == "" {
		return fmt.Errorf("the server answered %s", resp.Status)
	}
	return reply.Error
}
