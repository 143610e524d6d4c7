package hooks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/service"
)

const (
	// callLimit limits the time that one call may take (a Lambda function: 15 minutes).
	callLimit = 15 * time.Minute
	// maxShown is how much of the end of an output is in a reason, in bytes.
	maxShown = 4 << 10
)

var errCallLimit = fmt.Errorf("one call took longer than %v", callLimit)

// Runner calls hooks. It keeps nothing of a call and may be used by several goroutines.
type Runner struct {
	// Getenv reads the environment; os.Getenv outside of tests.
	Getenv func(string) string

	mu     sync.Mutex
	counts map[count]uint64
	client http.Client
}

// count is what calls are counted by.
type count struct {
	service, hook string
	status        service.HookStatus
}

// New returns a runner with the environment of getenv.
func New(getenv func(string) string) *Runner {
	return &Runner{
		Getenv: getenv, counts: make(map[count]uint64),
		client: http.Client{
			// No proxy of the environment, and no answer from elsewhere than the endpoint.
			Transport:     &http.Transport{DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext, DisableKeepAlives: true, TLSHandshakeTimeout: 10 * time.Second, MaxResponseHeaderBytes: maxAnswer},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Call asks a hook and returns its answer. It returns when nothing of the call runs any more. The
// hook has the time until ctx ends, and at most 15 minutes. Failures are answers, with a reason.
func (r *Runner) Call(ctx context.Context, s service.State, q service.HookRequest) service.HookAnswered {
	in := service.HookAnswered{ID: q.ID, Number: q.Number}
	a, err := r.call(ctx, s, q)
	in.Status, in.CallBackDelay, in.Details = a.Status, a.CallBackDelay, a.Details
	if err != nil {
		in.Status, in.Reason = service.HookFailed, err.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() == nil { // else the answer counts for nothing
		r.counts[count{s.Name, q.Hook, in.Status}]++
	}
	return in
}

func (r *Runner) call(ctx context.Context, s service.State, q service.HookRequest) (Answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callLimit, errCallLimit)
	defer cancel()
	body, err := Payload(s, q)
	if err != nil {
		return Answer{}, err
	}
	var out, said []byte
	switch t := q.Config.Target; {
	case len(t.Command) > 0:
		var p program
		p, err = r.runProgram(ctx, t.Command, body, "PODTASK_HOOK="+q.Hook, "PODTASK_SERVICE="+s.Name, "PODTASK_LIFECYCLE_STAGE="+string(q.Stage))
		out, said = p.out, p.said
	case target(t) != "":
		out, err = r.post(ctx, target(t), body)
	default:
		err = fmt.Errorf("podtask has no way to call a hook of the kind %s", t.Kind)
	}
	var a Answer
	if err == nil {
		a, err = ParseAnswer(out)
	}
	if err != nil {
		return Answer{}, failure(err, append(slices.Clip(out), said...))
	}
	if a.Status == service.HookFailed {
		return a, failure(errors.New("it answered FAILED"), said)
	}
	return a, nil
}

// target is the URL of a target; "" if it has none.
func target(t service.HookTarget) string {
	if t.Kind == service.HookURL {
		return t.Value
	}
	return t.Source
}

// failure adds the end of what was written to an error.
func failure(err error, output []byte) error {
	text := term.Line(string(output[max(0, len(output)-maxShown):]))
	if text == "" {
		return err
	}
	return fmt.Errorf("%w; it wrote: %s", err, text)
}

// post sends a body to an endpoint and returns what it answers with a status from 200 to 299.
func (r *Runner) post(ctx context.Context, to string, body []byte) ([]byte, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return nil, plain(err)
	}
	q.Header.Set("Content-Type", "application/json")
	return r.exchange(q)
}

// exchange sends a request and returns the body of the answer.
func (r *Runner) exchange(q *http.Request) ([]byte, error) {
	q.Header.Set("User-Agent", "podtask")
	answer, err := r.client.Do(q)
	if err != nil {
		if q.Context().Err() != nil {
			return nil, ended(q.Context())
		}
		return nil, fmt.Errorf("%s cannot be called: %w", q.URL.Redacted(), plain(err))
	}
	defer answer.Body.Close()
	out, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case q.Context().Err() != nil:
		return out, ended(q.Context())
	case err != nil:
		return out, fmt.Errorf("the answer of %s broke off: %w", q.URL.Redacted(), plain(err))
	case answer.StatusCode < 200 || answer.StatusCode > 299:
		// Its own words for the status may be anything.
		return out, fmt.Errorf("%s answered %s", q.URL.Redacted(), strings.TrimSpace(fmt.Sprint(answer.StatusCode, " ", http.StatusText(answer.StatusCode))))
	case len(out) > maxAnswer:
		return out[:maxAnswer], errTooMuch
	}
	return out, nil
}

// maxCause limits the bytes of an error of net/http in a reason: it may quote an answer.
const maxCause = 300

// plain is the cause of an error of net/http, whose text has the URL and may have a part of the answer.
func plain(err error) error {
	if at, ok := errors.AsType[*url.Error](err); ok {
		err = at.Err
	}
	text := term.Line(err.Error())
	return errors.New(strings.ToValidUTF8(text[:min(len(text), maxCause)], ""))
}

// Count is the number of calls of a hook that were answered with a status since the agent began.
type Count struct {
	Service, Hook string
	Status        service.HookStatus
	Calls         uint64
}

// Counts returns how many calls there were, in no order.
func (r *Runner) Counts() (all []Count) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c, n := range r.counts {
		all = append(all, Count{c.service, c.hook, c.status, n})
	}
	return all
}

// isURL reports whether a source is that of an HTTP endpoint.
func isURL(source string) bool {
	return strings.HasPrefix(source, "http://") || strings.HasPrefix(source, "https://")
}
