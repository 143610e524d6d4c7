package tasktest

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/define/testfile"
	"github.com/podtask/podtask/internal/engine/act/prober"
	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/promtext"
)

// describe returns what a check is about, in words for reports.
func describe(c testfile.Check) string {
	switch {
	case len(c.Healthy) > 0:
		return "healthy " + strings.Join(c.Healthy, ", ")
	case c.Exit != nil:
		return fmt.Sprintf("exit of %s with code %d", c.Exit.Container, c.Exit.Code)
	case c.HTTP != nil:
		return fmt.Sprintf("%s %s of %s port %d", method(c.HTTP), path(c.HTTP.Path), c.HTTP.Container, c.HTTP.Port)
	case c.GRPC != nil:
		return strings.TrimSpace(fmt.Sprintf("gRPC health of %s port %d %s", c.GRPC.Container, c.GRPC.Port, c.GRPC.Service))
	case c.Log != nil:
		return fmt.Sprintf("a line of %s that %s", cmp.Or(c.Log.Container, "any container"), c.Log.Text.String())
	case c.File != nil:
		return fmt.Sprintf("the file %s in %s", c.File.Path, c.File.Container)
	case c.Metric != nil:
		return fmt.Sprintf("the metric %s of %s port %d", c.Metric.Name, c.Metric.Container, c.Metric.Port)
	case c.Run != nil:
		return "run " + stepName(*c.Run)
	}
	return "nothing"
}

func method(h *testfile.HTTP) string { return cmp.Or(h.Method, http.MethodGet) }

func path(p string) string {
	if !strings.HasPrefix(p, "/") {
		return "/" + p
	}
	return p
}

// finding is what one look at a task has found.
type finding struct {
	ok bool
	// hopeless: it cannot become ok any more.
	hopeless bool
	got      string
	evidence []string
}

// expect waits until a check holds. It returns a failure when that cannot be any more, or not in time.
func (r *runner) expect(ctx context.Context, run *running, c testfile.Check, number int) *Failure {
	within := c.Within.Or(testfile.DefaultWithin)
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("not within %v", within))
	defer cancel()
	if c.Run != nil {
		return r.step(ctx, *c.Run, addresses(run.seen()), fmt.Sprintf("step-%d", number+1))
	}
	look, expected := r.looker(run, c)
	var last finding
	for tries := 1; ; tries++ {
		change := run.next()
		before := run.seen()
		found := look(ctx)
		if found.ok {
			return nil
		}
		if ctx.Err() == nil || last.got == "" {
			last = found // a look that was cut off says less
		}
		f := &Failure{Expected: expected, Got: last.got, Evidence: last.evidence}
		if last.hopeless {
			return f
		}
		if stopped(before) {
			f.Got += "; the task has stopped: " + cmp.Or(before.StoppedReason, "unknown reason")
			return f
		}
		select {
		case <-time.After(pollEvery):
		case <-change:
		case <-ctx.Done():
			f.Got += fmt.Sprintf("; %v, after %d tries", context.Cause(ctx), tries)
			return f
		}
	}
}

// looker returns a function that looks whether a check holds, and what is expected, in words.
func (r *runner) looker(run *running, c testfile.Check) (look func(context.Context) finding, expected string) {
	switch {
	case len(c.Healthy) > 0:
		return func(context.Context) finding { return lookHealthy(run.seen(), c.Healthy) }, "healthy: " + strings.Join(c.Healthy, ", ")
	case c.Exit != nil:
		return func(context.Context) finding { return lookExit(run.seen(), *c.Exit) }, fmt.Sprintf("exit code %d", c.Exit.Code)
	case c.HTTP != nil:
		return func(ctx context.Context) finding { return lookHTTP(ctx, run.seen(), *c.HTTP) }, expectedHTTP(*c.HTTP)
	case c.GRPC != nil:
		return func(ctx context.Context) finding { return lookGRPC(ctx, run.seen(), *c.GRPC) }, "the answer SERVING"
	case c.Log != nil:
		return func(ctx context.Context) finding { return r.lookLog(ctx, run, *c.Log) }, "a line that " + c.Log.Text.String()
	case c.Metric != nil:
		return func(ctx context.Context) finding { return lookMetric(ctx, run.seen(), *c.Metric) }, expectedMetric(*c.Metric)
	}
	expected = "the file, and in it " + c.File.Text.String()
	if c.File.Absent {
		expected = "no such file"
	}
	return func(ctx context.Context) finding { return r.lookFile(ctx, run, *c.File) }, expected
}

// lookHealthy looks at the health of containers. A container that ended with success is as good as a healthy one if
// all are meant.
func lookHealthy(t api.Task, names []string) finding {
	var missing []string
	for _, c := range t.Containers {
		all := len(names) == 1 && names[0] == "all"
		if !all && !slices.Contains(names, c.Name) {
			continue
		}
		running := c.Status == lifecycle.StatusRunning.String()
		switch {
		case running && (c.Health == nil || c.Health.Status == lifecycle.HealthHealthy.String()):
		case all && !c.Essential && c.ExitCode != nil && *c.ExitCode == 0:
		default:
			word := c.Name + " is " + c.Status
			if c.Health != nil {
				word += " and " + c.Health.Status
				if said := strings.TrimSpace(c.Health.Output); said != "" && c.Health.Status != lifecycle.HealthHealthy.String() {
					word += ", its check printed " + quoted(said)
				}
			}
			missing = append(missing, word)
		}
	}
	return finding{ok: len(missing) == 0 && t.Status == lifecycle.StatusRunning.String(), got: cmp.Or(strings.Join(missing, "; "), "the task is "+t.Status)}
}

func lookExit(t api.Task, e testfile.Exit) finding {
	for _, c := range t.Containers {
		if c.Name != e.Container {
			continue
		}
		if c.ExitCode == nil && c.Status == lifecycle.StatusStopped.String() {
			return finding{hopeless: true, got: "it never ran: " + cmp.Or(c.Reason, "the task has stopped")}
		}
		if c.ExitCode == nil || c.Status != lifecycle.StatusStopped.String() {
			return finding{got: c.Name + " is " + c.Status + " and has not ended"}
		}
		return finding{ok: int(*c.ExitCode) == e.Code, hopeless: true, got: fmt.Sprintf("exit code %d", *c.ExitCode)}
	}
	return finding{hopeless: true, got: "there is no such container"}
}

// maxBody bounds what is read of an answer or a file.
const maxBody = 4 << 20

// requestLimit bounds one request.
const requestLimit = 10 * time.Second

func expectedHTTP(h testfile.HTTP) string {
	text := fmt.Sprintf("status %d", cmp.Or(h.Status, http.StatusOK))
	for name, value := range h.Answer {
		text += fmt.Sprintf(", the header %s: %s", name, value)
	}
	if !h.Body.Empty() {
		text += ", a body that " + h.Body.String()
	}
	return text
}

func lookHTTP(ctx context.Context, t api.Task, h testfile.HTTP) finding {
	answer, body, f := ask(ctx, t, h)
	if answer == nil {
		return f
	}
	f.got = fmt.Sprintf("status %d", answer.StatusCode)
	for name := range h.Answer {
		f.got += fmt.Sprintf(", the header %s: %s", name, answer.Header.Get(name))
	}
	f.got += ", the body " + quoted(string(body))
	f.ok = answer.StatusCode == cmp.Or(h.Status, http.StatusOK) && h.Body.Fits(string(body))
	for name, value := range h.Answer {
		f.ok = f.ok && answer.Header.Get(name) == value
	}
	return f
}

// ask sends a request. Without an answer, the finding says why.
func ask(ctx context.Context, t api.Task, h testfile.HTTP) (*http.Response, []byte, finding) {
	address := addressOf(t, h.Container, h.Port)
	if address == "" {
		return nil, nil, finding{got: fmt.Sprintf("port %d of %s is not published yet: the task is %s", h.Port, h.Container, t.Status)}
	}
	scheme := "http"
	if h.TLS {
		scheme = "https"
	}
	url := scheme + "://" + address + path(h.Path)
	f := finding{evidence: []string{method(&h) + " " + url}}
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method(&h), url, strings.NewReader(h.Send))
	if err != nil {
		f.hopeless, f.got = true, err.Error()
		return nil, nil, f
	}
	for name, value := range h.Headers {
		req.Header.Set(name, value)
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, Proxy: nil, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, // a test's own server
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(req)
	if err != nil {
		f.got = "no answer: " + err.Error()
		return nil, nil, f
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxBody))
	if err != nil {
		f.got = "the answer ends: " + err.Error()
		return nil, nil, f
	}
	return answer, body, f
}

func lookGRPC(ctx context.Context, t api.Task, g testfile.GRPC) finding {
	address := addressOf(t, g.Container, g.Port)
	if address == "" {
		return finding{got: fmt.Sprintf("port %d of %s is not published yet: the task is %s", g.Port, g.Container, t.Status)}
	}
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return finding{hopeless: true, got: err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	answer, err := prober.GRPCHealth(ctx, at, g.Service)
	if err != nil {
		answer.Output = err.Error()
	}
	return finding{ok: err == nil && answer.Healthy, got: answer.Output, evidence: []string{"asked " + address}}
}

func (r *runner) lookLog(ctx context.Context, run *running, l testfile.Log) finding {
	lines := r.lines(ctx, run.state, l.Container, -1)
	for _, line := range lines {
		if l.Fits(line) {
			return finding{ok: true}
		}
	}
	return finding{got: fmt.Sprintf("none of %d lines", len(lines))}
}

func (r *runner) lookFile(ctx context.Context, run *running, want testfile.FileIn) finding {
	i, ok := run.state.Task.Index(want.Container)
	if !ok {
		return finding{hopeless: true, got: "there is no such container"}
	}
	text, found, err := r.readFile(ctx, taskspec.ContainerName(run.state, i), want.Path)
	switch {
	case err != nil:
		return finding{got: err.Error()}
	case !found:
		return finding{ok: want.Absent, got: "there is no such file"}
	case want.Absent:
		return finding{got: "the file is there: " + quoted(text)}
	}
	return finding{ok: want.Fits(text), got: "the file is " + quoted(text)}
}

// readFile reads a file of a container with Podman's own program, as podtask cp does.
func (r *runner) readFile(ctx context.Context, container, path string) (text string, found bool, err error) {
	args := []string{"cp", "--", container + ":" + path, "-"}
	if url := r.getenv("CONTAINER_HOST"); url != "" {
		args = append([]string{"--url", url}, args...)
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, "podman", args...)
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", false, err
	}
	if err := cmd.Start(); err != nil {
		return "", false, fmt.Errorf("run podman: %w", err)
	}
	text, isFile, readErr := firstFile(out)
	_, _ = io.Copy(io.Discard, out) // so that podman ends
	if err := cmd.Wait(); err != nil {
		words := strings.TrimSpace(said.String())
		if strings.Contains(words, "could not be found on container") || strings.Contains(words, "no such file") {
			return "", false, nil
		}
		return "", false, errors.New(cmp.Or(words, err.Error()))
	}
	if readErr != nil {
		return "", false, readErr
	}
	if !isFile {
		return "", false, fmt.Errorf("%s is no regular file", path)
	}
	return text, true, nil
}

// firstFile returns the first entry of an archive, if it is a regular file.
func firstFile(r io.Reader) (text string, isFile bool, err error) {
	archive := tar.NewReader(r)
	head, err := archive.Next()
	if errors.Is(err, io.EOF) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	if head.Typeflag != tar.TypeReg {
		return "", false, nil
	}
	b, err := io.ReadAll(io.LimitReader(archive, maxBody))
	return string(b), true, err
}

func expectedMetric(m testfile.Metric) string {
	switch {
	case m.Value != nil:
		return fmt.Sprintf("the value %v", *m.Value)
	case m.Min != nil && m.Max != nil:
		return fmt.Sprintf("a value from %v to %v", *m.Min, *m.Max)
	case m.Min != nil:
		return fmt.Sprintf("a value of at least %v", *m.Min)
	case m.Max != nil:
		return fmt.Sprintf("a value of at most %v", *m.Max)
	}
	return "any value"
}

func lookMetric(ctx context.Context, t api.Task, m testfile.Metric) finding {
	answer, body, f := ask(ctx, t, testfile.HTTP{Endpoint: m.Endpoint, Path: cmp.Or(m.Path, "/metrics")})
	if answer == nil {
		return f
	}
	if answer.StatusCode != http.StatusOK {
		f.got = fmt.Sprintf("status %d instead of metrics", answer.StatusCode)
		return f
	}
	sums, err := promtext.Read(bytes.NewReader(body), promtext.Series{Name: m.Name, Labels: m.Labels})
	switch {
	case err != nil:
		f.got = "an answer that cannot be read: " + err.Error()
	case !sums[0].Found:
		f.got = "no sample of it"
	default:
		value := sums[0].Value
		f.got = fmt.Sprintf("the value %v", value)
		f.ok = (m.Value == nil || value == *m.Value) && (m.Min == nil || value >= *m.Min) && (m.Max == nil || value <= *m.Max)
	}
	return f
}

// maxQuote is the number of characters of a text in a report.
const maxQuote = 300

// quoted quotes a text for a report, cut to a readable length.
func quoted(text string) string {
	r := []rune(strings.TrimSpace(strings.ToValidUTF8(text, "?")))
	if len(r) <= maxQuote {
		return fmt.Sprintf("%q", string(r))
	}
	return fmt.Sprintf("%q... (%d characters)", string(r[:maxQuote]), len(r))
}
