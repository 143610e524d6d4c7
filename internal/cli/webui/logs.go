package webui

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/podtask/podtask/internal/term"
)

const (
	// pageTail is how many last lines of each container a page has without its script, followTail how many with it.
	pageTail, followTail = 200, 1000
	// writeTime is how long a browser may take for what it is sent.
	writeTime = 30 * time.Second
)

// follow sends the last lines of a task and then new ones, each as a line of JSON, until the containers have ended. The
// texts have nothing that steers a terminal.
func (s *Server) follow(w http.ResponseWriter, r *http.Request) {
	d, err := s.source.Explain(r.Context(), r.PathValue("id"))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	lines, ended := make(chan Line, 256), make(chan error, 1)
	go func() {
		defer close(lines)
		ended <- s.source.Lines(ctx, d.Task.ID, Lines{Tail: followTail, Follow: true}, func(l Line) error {
			select {
			case lines <- l:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}()
	unhurried(w)
	w.Header().Set("Content-Type", "application/x-ndjson; charset=utf-8")
	out := stream{json.NewEncoder(w), http.NewResponseController(w)}
	_ = out.c.Flush() // the browser is to know at once that it is connected
	for l := range lines {
		l.Text, l.Container = term.Line(l.Text), term.Line(l.Container)
		if out.send(l, len(lines) == 0) != nil {
			stop() // the browser has closed the connection
		}
	}
	last := struct {
		End     bool   `json:"end"`
		Problem string `json:"problem,omitempty"`
	}{End: true}
	if err := <-ended; err != nil {
		last.Problem = term.Line(err.Error())
	}
	_ = out.send(last, true)
}

// stream sends lines of JSON to a browser.
type stream struct {
	*json.Encoder
	c *http.ResponseController
}

// send sends v; without flush, it may wait for the next.
func (s stream) send(v any, flush bool) error {
	_ = s.c.SetWriteDeadline(time.Now().Add(writeTime))
	if err := s.Encode(v); err != nil || !flush {
		return err
	}
	return s.c.Flush()
}

// download sends all lines of a task as a file.
func (s *Server) download(w http.ResponseWriter, r *http.Request) {
	d, err := s.source.Explain(r.Context(), r.PathValue("id"))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	c := http.NewResponseController(w)
	unhurried(w)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="%s.log"`, fileName(d.Task.Name, d.Task.ID)))
	err = s.source.Lines(r.Context(), d.Task.ID, Lines{Tail: -1}, func(l Line) error {
		_ = c.SetWriteDeadline(time.Now().Add(writeTime))
		_, err := fmt.Fprintf(w, "%s %s | %s\n", l.Time.UTC().Format("2006-01-02T15:04:05.000Z"), term.Line(l.Container), term.Line(l.Text))
		return err
	})
	if err != nil {
		_, _ = fmt.Fprintf(w, "podtask: %s\n", term.Line(err.Error())) // the file is to say that it is not whole
	}
}

// fileName returns a name for a file, of letters, digits, '-' and '_'.
func fileName(name, id string) string {
	if name == "" {
		name = id
	}
	safe := []rune(name)
	for i, c := range safe {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
			safe[i] = '-'
		}
	}
	return string(safe[:min(len(safe), 100)])
}
