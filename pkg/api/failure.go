package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/podtask/podtask/pkg/taskdef"
)

// Code says what kind of failure a reply reports.
type Code string

// The codes, each with the HTTP status it comes with.
const (
	NotFound   Code = "notFound"   // 404: there is no such task here
	Ambiguous  Code = "ambiguous"  // 409: the prefix or name fits several tasks
	Conflict   Code = "conflict"   // 409: not in this state of the task
	BadRequest Code = "badRequest" // 400: the request is malformed
	Internal   Code = "internal"   // 500: everything else
	// Unsupported, 501: the owner of a single task does not do this, an agent does.
	Unsupported Code = "unsupported"
)

var httpStatus = map[Code]int{
	NotFound: http.StatusNotFound, Ambiguous: http.StatusConflict, Conflict: http.StatusConflict,
	BadRequest: http.StatusBadRequest, Internal: http.StatusInternalServerError, Unsupported: http.StatusNotImplemented,
}

// Failure is an error that crosses the wire: a Backend returns it and the Client
// gives it back. The server makes other errors Internal.
type Failure struct {
	Code Code `json:"code"`
	// Message says what, why and what to do. It never holds a secret.
	Message string `json:"message"`
	// Problems are those of a task definition that is not valid, each with its place.
	Problems []taskdef.Problem `json:"problems,omitempty"`
}

// Error returns the message.
func (f *Failure) Error() string { return f.Message }

// Failed returns a Failure with a message in the manner of fmt.Sprintf.
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

// readFailure turns a reply that is not a success into a *Failure.
func readFailure(resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return fmt.Errorf("read the reply: %w", err)
	}
	var reply failureReply
	if json.Unmarshal(body, &reply) != nil || reply.Error == nil || reply.Error.Message == "" {
		return fmt.Errorf("the server answered %s", resp.Status)
	}
	return reply.Error
}
