package scaling

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/promtext"
	"github.com/podtask/podtask/pkg/scaling"
	"github.com/podtask/podtask/pkg/service"
	"golang.org/x/sync/errgroup"
)

// Bounds of what the endpoints of copies may cost.
const (
	maxPage   = 1 << 20          // bytes
	pageTime  = 3 * time.Second  // for one page
	pagesTime = 10 * time.Second // for all of a round, which comes each scaling.Interval
	atOnce    = 4
)

// reading names a metric of a task.
type reading struct {
	task   string
	metric scaling.Metric
}

// ParseOwn reads a metric of the copies' own, as scaling.ParseOwn does, and checks its labels, which come in order.
func ParseOwn(text string) (scaling.Own, error) {
	o, err := scaling.ParseOwn(text)
	if err != nil {
		return o, err
	}
	series, err := promtext.ParseSeries(o.Series)
	o.Series = series.String()
	return o, err
}

// readValue is the sum of a metric, or the reason why there is none.
type readValue struct {
	promtext.Sum
	err error
}

// readOwn reads the endpoints of the copies, each once for all metrics. What is not read in time is an error.
func (r *round) readOwn(ctx context.Context, scaled []scaled) {
	ctx, cancel := context.WithTimeoutCause(ctx, pagesTime, errors.New("there was no time for it"))
	defer cancel()
	var pages errgroup.Group
	pages.SetLimit(atOnce)
	var mu sync.Mutex
	r.own = make(map[reading]readValue)
	for _, s := range scaled {
		for endpoint, metrics := range s.record.Config.Own() {
			for _, t := range s.service.Tasks {
				task, there := r.tasks[t.ID]
				if !there {
					continue
				}
				pages.Go(func() error {
					sums, err := readPage(ctx, r.host, task, endpoint, metrics)
					mu.Lock()
					defer mu.Unlock()
					for i, m := range metrics {
						v := readValue{err: err}
						if err == nil {
							v.Sum = sums[i]
						}
						r.own[reading{task.ID, m.Metric()}] = v
					}
					return nil
				})
			}
		}
	}
	_ = pages.Wait() // each has its own
}

// readPage reads metrics of one copy. Errors have no content of the page.
func readPage(ctx context.Context, host Host, task lifecycle.State, e scaling.Endpoint, metrics []scaling.Own) ([]promtext.Sum, error) {
	i, found := task.Task.Index(e.Container)
	if !found {
		return nil, fmt.Errorf("the task has no container %s", e.Container)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, pageTime, fmt.Errorf("no answer within %s", pageTime))
	defer cancel()
	transport := &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			conn, err := host.Dial(ctx, task, i, address)
			if err != nil {
				return nil, notReached{err}
			}
			return conn, nil
		},
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", e.Port, e.Path), nil)
	if err != nil {
		return nil, fmt.Errorf("%s is no path", e.Path)
	}
	request.Header.Set("Accept", "text/plain;version=0.0.4")
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return nil, noAnswer(ctx, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer has status %d", answer.StatusCode)
	}
	series := make([]promtext.Series, len(metrics))
	for i, m := range metrics {
		if series[i], err = promtext.ParseSeries(m.Series); err != nil {
			return nil, err
		}
	}
	body := &io.LimitedReader{R: answer.Body, N: maxPage + 1}
	sums, err := promtext.Read(body, series...)
	switch {
	case body.N <= 0:
		return nil, fmt.Errorf("the answer is larger than %d bytes", maxPage)
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return sums, err
}

// notReached is the error of a connection that was not made.
type notReached struct{ error }

// noAnswer returns an error of RoundTrip without what package http quotes of an answer that it cannot read.
func noAnswer(ctx context.Context, err error) error {
	var (
		dial  notReached
		ofNet *net.OpError
	)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &dial):
		return dial.error
	case errors.As(err, &ofNet):
		return ofNet
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return io.ErrUnexpectedEOF
	}
	return errors.New("there is no answer in HTTP")
}

// averages adds the averages of the copies' own metrics over the copies that answered, as the average of a metric of CloudWatch is
// over those that sent it. A counter counts by its increase in a minute.
func (r round) averages(record scaling.State, s service.State, out *scaling.Sample) {
	for _, metrics := range record.Config.Own() {
		for _, o := range metrics {
			m, sum, n := o.Metric(), 0.0, 0
			problem := ""
			for _, t := range s.Tasks {
				got, read := r.own[reading{t.ID, m}]
				if !read {
					continue
				}
				value, known := got.Value, got.Found
				switch {
				case got.err != nil:
					problem = fmt.Sprintf("%s: %v", o.Endpoint, got.err)
				case !got.Found:
					problem = fmt.Sprintf("%s has no %s", o.Endpoint, o.Series)
				case math.IsNaN(value), math.IsInf(value, 0):
					known, problem = false, fmt.Sprintf("%s: the value is no number", o.Endpoint)
				case got.Counter:
					value, known = r.rate("own "+t.ID+" "+string(m), r.at, value)
					value *= time.Minute.Seconds()
				}
				if known {
					sum, n = sum+value, n+1
				}
			}
			if n > 0 {
				out.Values[m] = sum / float64(n)
			} else if problem != "" {
				if out.Problems == nil {
					out.Problems = make(map[scaling.Metric]string)
				}
				out.Problems[m] = problem
			}
		}
	}
}
