package metadata

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/podtask/podtask/pkg/fault"
)

// FaultInjector injects faults into the network of the task. Both methods return when the task has the fault,
// or has it no longer; errors are *fault.Error.
type FaultInjector interface {
	// Refused returns why the task cannot have faults; nil if it can.
	Refused() error
	// Start injects a fault for a time, or for 0 until it is stopped.
	Start(ctx context.Context, f fault.Fault, duration time.Duration) error
	// Stop removes the faults that like Matches.
	Stop(ctx context.Context, like fault.Fault) error
}

// faultPath is the path under ECS_AGENT_URI at which a container injects faults.
const faultPath = "/api/{id}/fault/v1/"

// The limits of the ECS agent: a container may make one request of each kind in five seconds.
const faultEvery = 5 * time.Second

const (
	// maxFaultBody limits the body of a request.
	maxFaultBody = 64 << 10
	// faultTime bounds an answer; a request that has begun is finished without its client.
	faultTime = 40 * time.Second
)

// The requests have the names of those of the ECS agent, because its clients see them in errors.

// NetworkBlackholePortRequest is the body of a request about a black hole.
type NetworkBlackholePortRequest struct {
	Port            *uint16  `json:"Port"`
	Protocol        *string  `json:"Protocol"`
	TrafficType     *string  `json:"TrafficType"`
	SourcesToFilter []string `json:"SourcesToFilter,omitempty"`
}

// NetworkLatencyRequest is the body of a request for latency.
type NetworkLatencyRequest struct {
	DelayMilliseconds  *uint64  `json:"DelayMilliseconds"`
	JitterMilliseconds *uint64  `json:"JitterMilliseconds"`
	Sources            []string `json:"Sources"`
	SourcesToFilter    []string `json:"SourcesToFilter,omitempty"`
	FlowsPercent       *int     `json:"FlowsPercent"`
}

// NetworkPacketLossRequest is the body of a request for packet loss.
type NetworkPacketLossRequest struct {
	LossPercent     *uint64  `json:"LossPercent"`
	Sources         []string `json:"Sources"`
	SourcesToFilter []string `json:"SourcesToFilter,omitempty"`
	FlowsPercent    *int     `json:"FlowsPercent"`
}

// faultAnswer is the answer to every request.
type faultAnswer struct {
	Status string `json:"Status,omitempty"`
	Error  string `json:"Error,omitempty"`
}

// faultLimits allow each container one request of each kind in five seconds.
type faultLimits struct {
	mu     sync.Mutex
	limits map[faultRequest]*rate.Limiter
}

// faultRequest is what is limited.
type faultRequest struct {
	container int
	kind      fault.Kind
	verb      string
}

func (l *faultLimits) allow(r faultRequest, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.limits == nil {
		l.limits = make(map[faultRequest]*rate.Limiter)
	}
	if l.limits[r] == nil {
		l.limits[r] = rate.NewLimiter(rate.Every(faultEvery), 1)
	}
	return l.limits[r].AllowN(now, 1)
}

// faultRoutes adds the routes of all kinds.
func (s *Server) faultRoutes(mux *http.ServeMux) {
	for _, kind := range fault.Kinds() {
		for verb, do := range map[string]func(context.Context, fault.Fault) (string, error){
			"start": s.startFault, "stop": s.stopFault, "status": s.faultStatus,
		} {
			mux.HandleFunc("POST "+faultPath+string(kind)+"/"+verb, func(w http.ResponseWriter, r *http.Request) {
				s.serveFault(w, r, faultRequest{kind: kind, verb: verb}, do)
			})
		}
	}
}

// serveFault answers a request in the order of the ECS agent: its body comes first, then the task.
func (s *Server) serveFault(w http.ResponseWriter, r *http.Request, what faultRequest, do func(context.Context, fault.Fault) (string, error)) {
	refuse := func(status int, why string) { s.answer(w, status, faultAnswer{Error: why}) }
	i, known := s.byID[r.PathValue("id")]
	if !known {
		refuse(http.StatusNotFound, "unable to get task arn from request: unable to get task Arn from v3 endpoint ID: "+r.PathValue("id"))
		return
	}
	done, ok := s.admit(w, r)
	if !ok {
		return
	}
	defer done()
	if what.container = i; !s.faults.allow(what, s.src.now()) {
		refuse(http.StatusTooManyRequests, "You have reached maximum request limit")
		return
	}
	f, wrong := readFault(http.MaxBytesReader(w, r.Body, maxFaultBody), what)
	if wrong != "" {
		refuse(http.StatusBadRequest, wrong)
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(2 * faultTime)) // not of every writer
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), faultTime)
	defer cancel()
	status, err := "", error(fault.Refuse(fault.Invalid, "faults cannot be injected into this task"))
	if s.src.Faults != nil {
		if err = s.src.Faults.Refused(); err == nil {
			status, err = do(ctx, f)
		}
	}
	if err != nil {
		s.src.Log.Info("a request for a fault is refused", "request", what.verb+" "+string(what.kind), "error", err)
		refuse(faultCode(err), err.Error())
		return
	}
	s.answer(w, http.StatusOK, faultAnswer{Status: status})
}

// faultCode is the status of HTTP for an error.
func faultCode(err error) int {
	if refused, ok := errors.AsType[*fault.Error](err); ok {
		switch refused.Code {
		case fault.Invalid:
			return http.StatusBadRequest
		case fault.Conflict:
			return http.StatusConflict
		case fault.Failed:
		}
	}
	return http.StatusInternalServerError
}

func (s *Server) startFault(ctx context.Context, f fault.Fault) (string, error) {
	return "running", s.src.Faults.Start(ctx, f, 0)
}

func (s *Server) stopFault(ctx context.Context, f fault.Fault) (string, error) {
	return "stopped", s.src.Faults.Stop(ctx, f)
}

func (s *Server) faultStatus(_ context.Context, f fault.Fault) (string, error) {
	if fault.Find(fault.Active(s.src.State().Faults), f) >= 0 {
		return "running", nil
	}
	return "not-running", nil
}

// readFault reads the body of a request, and returns what is wrong with it in the words of the ECS agent. Only a
// start says more than which fault it is about; as there, other members are not looked at.
func readFault(body io.Reader, what faultRequest) (f fault.Fault, wrong string) {
	f.Kind = what.kind
	if what.verb != "start" && f.Shaped() {
		return f, "" // there is only one of the kind
	}
	decode := func(into any) string {
		switch err := json.NewDecoder(body).Decode(into); {
		case errors.Is(err, io.EOF):
			return "required request body is missing"
		case err != nil:
			return err.Error()
		}
		return ""
	}
	missing := func(name string) string { return "required parameter " + name + " is missing" }
	switch f.Kind {
	case fault.BlackholePort:
		var r NetworkBlackholePortRequest
		if wrong = decode(&r); wrong != "" {
			return f, wrong
		}
		f.Port, f.Protocol, f.TrafficType, f.SourcesToFilter = value(r.Port), value(r.Protocol), value(r.TrafficType), r.SourcesToFilter
	case fault.Latency:
		var r NetworkLatencyRequest
		wrong = decode(&r)
		switch {
		case wrong != "":
			return f, wrong
		case r.DelayMilliseconds == nil:
			return f, missing("DelayMilliseconds")
		case r.JitterMilliseconds == nil:
			return f, missing("JitterMilliseconds")
		}
		f.DelayMilliseconds, f.JitterMilliseconds, f.Sources, f.SourcesToFilter = *r.DelayMilliseconds, *r.JitterMilliseconds, r.Sources, r.SourcesToFilter
		f.FlowsPercent = flowsOf(r.FlowsPercent)
	case fault.PacketLoss:
		var r NetworkPacketLossRequest
		switch wrong = decode(&r); {
		case wrong != "":
			return f, wrong
		case r.LossPercent == nil:
			return f, missing("LossPercent")
		}
		f.LossPercent, f.Sources, f.SourcesToFilter = *r.LossPercent, r.Sources, r.SourcesToFilter
		f.FlowsPercent = flowsOf(r.FlowsPercent)
	}
	if problems := f.Problems(); len(problems) > 0 {
		return f, problems[0]
	}
	return f, ""
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// flowsOf is the part of the connections that a request names: all, if it names none.
func flowsOf(p *int) int {
	if p == nil {
		return 100
	}
	return *p
}
