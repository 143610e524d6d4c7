// Package hostview is the view of other hosts, and of several at once, for `podtask top` and `podtask ui`. A Server
// runs on each host and answers about its tasks and services, in one compressed stream. A View asks the servers of its
// hosts. A connection that breaks is made again; a host that is down has a reason and never holds up the others.
package hostview

import (
	"context"
	"encoding/json"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/top"
	"github.com/podtask/podtask/internal/cli/webui"
	"github.com/podtask/podtask/pkg/api"
)

// Backend is what a Server answers from: the tasks and services of its host. Its methods may be called concurrently.
type Backend interface {
	Tasks(ctx context.Context) ([]top.Task, error)
	Services(ctx context.Context) ([]api.Service, error)
	Beside(ctx context.Context) (console.Beside, error)
	// Explain finds a task by its ID, a beginning of it, or its name; it returns webui.ErrNotFound for none.
	Explain(ctx context.Context, ref string) (top.Detail, error)
	Lines(ctx context.Context, id string, which webui.Lines, fn func(webui.Line) error) error
	Host(ctx context.Context) webui.Host
	Follow(ctx context.Context, id string, fn func(top.Line) error) error
	Stop(ctx context.Context, id string) error
	Restart(ctx context.Context, id string) error
	Continue(ctx context.Context, service string) error
	Rollback(ctx context.Context, service string) error
}

// request is a line to a Server.
type request struct {
	ID   int    `json:"id"`
	Call string `json:"call"`
	// Of is the task or the service; for cancel the number of the request that is to end.
	Of string `json:"of,omitempty"`
	// Lines are those that lines asks for.
	Lines *webui.Lines `json:"lines,omitempty"`
}

// The calls.
const (
	callTasks    = "tasks"
	callServices = "services"
	callBeside   = "beside"
	callExplain  = "explain"
	callLines    = "lines"
	callHost     = "host"
	callFollow   = "follow"
	callStop     = "stop"
	callRestart  = "restart"
	callContinue = "continue"
	callRollback = "rollback"
	callCancel   = "cancel"
)

// answer is a line of a Server. The first one of a stream has the ID 0 and no result.
type answer struct {
	ID       int             `json:"id"`
	Result   json.RawMessage `json:"result,omitempty"`
	Error    string          `json:"error,omitempty"`
	NotFound bool            `json:"notFound,omitempty"`
	// More: further answers to the request follow.
	More bool `json:"more,omitempty"`
}

// besideAnswer is the result of callBeside.
type besideAnswer struct {
	console.Beside
	// Problem is the reason for which some are missing.
	Problem string `json:"problem,omitempty"`
}

// maxLine bounds a line in bytes, maxMore one of several results, waiting those that nobody has read yet, and maxRequests the
// requests that a Server works at at once.
const (
	maxLine     = 64 << 20
	maxMore     = 4 << 20
	waiting     = 64
	maxRequests = 64
)
