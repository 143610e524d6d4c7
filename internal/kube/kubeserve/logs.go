package kubeserve

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/gorilla/mux"
)

// logRequest is a request for the log of a container.
type logRequest struct {
	LogQuery
	timestamps bool
	limit      int64 // in bytes; negative: none
}

// parseLogs reads the parameters of a request for a log (PodLogOptions) and reports all that is
// wrong with them.
func parseLogs(q url.Values, now time.Time) (logRequest, error) {
	r := logRequest{LogQuery: LogQuery{Tail: -1}, limit: -1}
	var wrong []error
	flag := func(name string, to *bool) {
		if text := q.Get(name); text != "" {
			var err error
			if *to, err = strconv.ParseBool(text); err != nil {
				wrong = append(wrong, fmt.Errorf("%s is true or false, not %q", name, text))
			}
		}
	}
	number := func(name string, least int64, to func(int64)) {
		if text := q.Get(name); text != "" {
			n, err := strconv.ParseInt(text, 10, 32)
			if err != nil || n < least {
				wrong = append(wrong, fmt.Errorf("%s is a number of at least %d, not %q", name, least, text))
				return
			}
			to(n)
		}
	}
	flag("follow", &r.Follow)
	flag("previous", &r.Previous)
	flag("timestamps", &r.timestamps)
	number("tailLines", 0, func(n int64) { r.Tail = int(n) })
	number("limitBytes", 1, func(n int64) { r.limit = n })
	number("sinceSeconds", 1, func(n int64) { r.Since = now.Add(-time.Duration(n) * time.Second) })
	if text := q.Get("sinceTime"); text != "" {
		at, err := time.Parse(time.RFC3339, text)
		switch {
		case err != nil:
			wrong = append(wrong, fmt.Errorf("sinceTime is a time as RFC 3339 has it, not %q", text))
		case q.Get("sinceSeconds") != "":
			wrong = append(wrong, errors.New("sinceSeconds and sinceTime exclude each other"))
		default:
			r.Since = at
		}
	}
	return r, errors.Join(wrong...)
}

func (s *Server) serveLogs(w http.ResponseWriter, r *http.Request) {
	q, err := parseLogs(r.URL.Query(), time.Now())
	if err != nil {
		fail(w, fmt.Errorf("%w: %w", ErrRefused, err))
		return
	}
	out := &logWriter{w: w, flush: http.NewResponseController(w), limit: q.limit, timestamps: q.timestamps}
	if q.Follow {
		out.begin() // so that the caller knows that the request is accepted
	}
	if q.Tail != 0 || q.Follow {
		err = s.cfg.Pods.Logs(r.Context(), refOf(r), q.LogQuery, out.write)
	}
	switch {
	case err == nil || errors.Is(err, errEnough):
		out.begin()
	case out.begun || r.Context().Err() != nil:
		panic(http.ErrAbortHandler) // the status has been sent
	default:
		fail(w, err)
	}
}

func refOf(r *http.Request) Ref {
	v := mux.Vars(r)
	return Ref{v["namespace"], v["pod"], v["container"]}
}

// errEnough: the caller has as much as it asked for.
var errEnough = errors.New("enough")

// logWriter writes lines as kubectl shows them.
type logWriter struct {
	w          http.ResponseWriter
	flush      *http.ResponseController
	limit      int64
	timestamps bool
	begun      bool
}

func (o *logWriter) begin() {
	if !o.begun {
		o.begun = true
		o.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		o.w.WriteHeader(http.StatusOK)
		_ = o.flush.Flush()
	}
}

func (o *logWriter) write(l Line) error {
	o.begin()
	text := l.Text
	if !l.Unended {
		text += "\n"
	}
	if o.timestamps {
		text = l.Time.UTC().Format(time.RFC3339Nano) + " " + text
	}
	if o.limit >= 0 {
		text = text[:min(int64(len(text)), o.limit)]
		o.limit -= int64(len(text))
	}
	if _, err := io.WriteString(o.w, text); err != nil {
		return err
	}
	if o.limit == 0 {
		return errEnough
	}
	return o.flush.Flush()
}
