package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// restCalls has requests to the service of Podman in place of the command of the scenario of that name, which makes the
// scenario rest-NAME. One request a line: method, path and body. A line that ends with & does not wait for the answer.
// ID is the one of the answer before.
var restCalls = map[string]string{
	"create": postCreate,
	"run":    postCreate + "\nPOST /containers/c/start",
	"start":  "POST /containers/c/start",
	"stop":   "POST /containers/c/stop?timeout=5",
	"wait":   "POST /containers/c/wait?condition=stopped &\nPOST /containers/c/stop?timeout=5",
	"rm":     "DELETE /containers/c?force=true&timeout=0",
	"exec": `POST /containers/c/exec {"Cmd":["true"],"AttachStdout":true}` + "\n" +
		`POST /exec/ID/start {"Detach":false,"Tty":false}`,
	"pod-create": `POST /pods/create {"name":"p","netns":{"nsmode":"none"}}`,
	"pod-start":  "POST /pods/p/start",
	"pod-rm":     "DELETE /pods/p?force=true&timeout=0",
}

const postCreate = `POST /containers/create {"name":"c","image":"IMAGE","netns":{"nsmode":"none"},` +
	`"command":["sh","-c","trap 'exit 3' TERM; sleep TOKEN & wait"]}`

func init() {
	for name, call := range restCalls {
		s := scenarios[name]
		if name == "wait" { // a wait is over when the container has ended
			s = scenarios["stop"]
		}
		s.about, s.kill = s.about+", by the REST API", call
		scenarios["rest-"+name] = s
	}
}

func isRequest(command string) bool {
	return strings.HasPrefix(command, "POST ") || strings.HasPrefix(command, "DELETE ")
}

// noAnswer precedes the error of a request that was not answered. Only a killed service may do that.
const noAnswer = "no answer: "

var idInAnswer = regexp.MustCompile(`"Id":"([0-9a-f]+)"`)

// request makes the requests of t.rest as soon as the service listens, and then ends the service. Only calls that are made
// between the first request and the last answer are counted.
func (t *tracer) request() {
	lines := strings.Split(t.rest, "\n")
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", lines[0])
	}}}
	for {
		if err := send(client, "GET /_ping", nil); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond) // if the service ends, so does this process
	}
	t.counts.Store(true)
	var failed atomic.Bool
	var all sync.WaitGroup
	id := ""
	for _, line := range lines[1:] {
		line, background := strings.CutSuffix(strings.Replace(line, "/ID/", "/"+id+"/", 1), " &")
		one := func(id *string) {
			if err := send(client, line, id); err != nil {
				fmt.Printf("%s: %v\n", line, err)
				failed.Store(true)
			}
		}
		if !background {
			one(&id)
			continue
		}
		all.Add(1)
		go func() { defer all.Done(); one(new(string)) }()
	}
	if !failed.Load() { // without the stop, a wait would not end
		all.Wait()
	}
	t.counts.Store(false)
	if failed.Load() {
		t.answered <- 1
	} else {
		t.answered <- 0
	}
	_ = syscall.Kill(t.root, syscall.SIGTERM)
}

// send makes one request, reads the whole answer, and sets id to the ID in it.
func send(client *http.Client, line string, id *string) error {
	method, rest, _ := strings.Cut(line, " ")
	path, body, _ := strings.Cut(rest, " ")
	// The oldest version of the API that all Podmans from 4 on have.
	req, err := http.NewRequest(method, "http://podman/v4.0.0/libpod"+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("%s%w", noAnswer, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return fmt.Errorf("%s%w", noAnswer, err)
	case resp.StatusCode >= 400:
		return fmt.Errorf("%s: %s", resp.Status, answer)
	}
	if found := idInAnswer.FindSubmatch(answer); found != nil && id != nil {
		*id = string(found[1])
	}
	return nil
}
