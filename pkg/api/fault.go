package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/pkg/fault"
)

// Fault is a fault in the network of a task.
type Fault = fault.Fault

// NewFault is the body of a request for a fault.
type NewFault struct {
	Fault
	// DurationSeconds is the time that the fault lasts at most, up to a week; until it is stopped if it is 0.
	DurationSeconds int64 `json:"durationSeconds,omitempty"`
}

// read completes the request, and reports all that is wrong with it.
func (n NewFault) read() (f fault.Fault, duration time.Duration, err error) {
	kind, known := fault.ParseKind(string(n.Kind))
	if !known {
		return f, 0, Failed(BadRequest, "kind %q is none of blackhole-port, latency and packet-loss", string(n.Kind))
	}
	f = n.Fault
	if f.Kind = kind; f.Shaped() && f.FlowsPercent == 0 {
		f.FlowsPercent = 100
	}
	problems := append(f.Problems(), f.Foreign()...)
	if !n.Since.IsZero() || !n.Until.IsZero() {
		problems = append(problems, "since and until are not given; durationSeconds says how long the fault lasts")
	}
	if most := int64(fault.MaxDuration / time.Second); n.DurationSeconds < 0 || n.DurationSeconds > most {
		problems = append(problems, "durationSeconds is 1 to "+strconv.FormatInt(most, 10)+", not "+strconv.FormatInt(n.DurationSeconds, 10))
	}
	if len(problems) > 0 {
		return f, 0, Failed(BadRequest, "%s", strings.Join(problems, "; "))
	}
	return f, time.Duration(n.DurationSeconds) * time.Second, nil
}

// FaultBackend is a Backend that injects faults. Both methods return when the task has the fault, or has it no
// longer.
type FaultBackend interface {
	// StartFault injects a fault for a time; 0: until it is stopped.
	StartFault(ctx context.Context, id string, f fault.Fault, duration time.Duration) error
	// StopFaults removes the faults that like Matches.
	StopFaults(ctx context.Context, id string, like fault.Fault) error
}

func (h taskHandler) withFaults(serve func(http.ResponseWriter, *http.Request, Task, FaultBackend) error) func(http.ResponseWriter, *http.Request, Task) error {
	return func(w http.ResponseWriter, r *http.Request, t Task) error {
		b, err := backendAs[FaultBackend](h.backend, "this process injects no faults")
		if err != nil {
			return err
		}
		return serve(w, r, t, b)
	}
}

func serveStartFault(w http.ResponseWriter, r *http.Request, t Task, b FaultBackend) error {
	var n NewFault
	if err := readBody(w, r, "fault", &n); err != nil {
		return err
	}
	f, duration, err := n.read()
	if err == nil {
		err = faultFailure(b.StartFault(r.Context(), t.ID, f, duration))
	}
	return finish(w, http.StatusNoContent, err)
}

func serveStopFaults(w http.ResponseWriter, r *http.Request, t Task, b FaultBackend) error {
	like, err := readLike(r.URL.Query())
	if err == nil {
		err = faultFailure(b.StopFaults(r.Context(), t.ID, like))
	}
	return finish(w, http.StatusNoContent, err)
}

// readLike reads which faults are to be stopped: all, those of a kind, or one black hole.
func readLike(q url.Values) (like fault.Fault, err error) {
	if name := q.Get("kind"); name != "" {
		kind, known := fault.ParseKind(name)
		if !known {
			return like, Failed(BadRequest, "kind %q is none of blackhole-port, latency and packet-loss", name)
		}
		like.Kind = kind
	}
	like.Protocol, like.TrafficType = q.Get("protocol"), q.Get("trafficType")
	if text := q.Get("port"); text != "" {
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil || port == 0 {
			return like, Failed(BadRequest, "port %q is not 1 to 65535", text)
		}
		like.Port = uint16(port)
	}
	return like, nil
}

// faultFailure converts an error of a FaultBackend.
func faultFailure(err error) error {
	var refused *fault.Error
	if !errors.As(err, &refused) {
		return err
	}
	code := Internal
	switch refused.Code {
	case fault.Invalid:
		code = BadRequest
	case fault.Conflict:
		code = Conflict
	case fault.Failed:
	}
	return Failed(code, "%s", refused.Message)
}

// StartFault injects a fault into the network of a task for a time, or for 0 until it is stopped. It returns
// when the task has it.
func (c *Client) StartFault(ctx context.Context, id string, f fault.Fault, duration time.Duration) error {
	body, err := json.Marshal(NewFault{f, int64((duration + time.Second - 1) / time.Second)})
	if err != nil {
		return err
	}
	return c.call(ctx, http.MethodPost, taskPath(id)+"/faults", body, nil)
}

// StopFaults removes the faults of a task that like Matches. It returns when the task does not have them.
func (c *Client) StopFaults(ctx context.Context, id string, like fault.Fault) error {
	query := url.Values{}
	for name, value := range map[string]string{"kind": string(like.Kind), "protocol": like.Protocol, "trafficType": like.TrafficType} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if like.Port != 0 {
		query.Set("port", strconv.Itoa(int(like.Port)))
	}
	return c.call(ctx, http.MethodDelete, taskPath(id)+"/faults?"+query.Encode(), nil, nil)
}
