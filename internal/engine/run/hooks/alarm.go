package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/podtask/podtask/pkg/service"
)

// alarmLimit limits the time that an alarm may take to answer.
const alarmLimit = 30 * time.Second

// CheckAlarm asks whether an alarm is raised. A program says so with its exit status: 0 for no, 1
// for yes. An endpoint is a query of Prometheus: yes if the result is not empty, as in its own
// rules for alerts. Everything else is an error: it is not known.
func (r *Runner) CheckAlarm(ctx context.Context, a service.Alarm) (raised bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, alarmLimit, fmt.Errorf("it took longer than %v", alarmLimit))
	defer cancel()
	if len(a.Target.Command) > 0 {
		p, err := r.runProgram(ctx, a.Target.Command, nil, "PODTASK_ALARM="+a.Name)
		if p.exitCode == 1 && ctx.Err() == nil && len(p.out) < maxAnswer {
			return true, nil
		}
		if err != nil {
			err = failure(err, append(p.out, p.said...))
		}
		return false, err
	}
	if target(a.Target) == "" {
		return false, fmt.Errorf("podtask has no way to ask an alarm of the kind %s", a.Target.Kind)
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, target(a.Target), http.NoBody)
	if err != nil {
		return false, plain(err)
	}
	out, err := r.exchange(q)
	if err == nil {
		raised, err = parseQuery(out)
	}
	if err != nil {
		err = failure(err, out)
	}
	return raised, err
}

// parseQuery reads what Prometheus answers to an instant query.
func parseQuery(data []byte) (raised bool, err error) {
	var answer struct {
		Status string `json:"status"`
		Data   struct {
			Type   string            `json:"resultType"`
			Result []json.RawMessage `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal(data, &answer); err != nil || answer.Status != "success" {
		return false, errors.New("that is not the answer of Prometheus to a query")
	}
	if t := answer.Data.Type; t != "vector" && t != "matrix" {
		return false, fmt.Errorf("the query has a result of the type %.20q: write a comparison, whose result is empty while all is well", t)
	}
	return len(answer.Data.Result) > 0, nil
}
