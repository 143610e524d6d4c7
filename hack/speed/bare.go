package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"

	"golang.org/x/sync/errgroup"
)

// bare makes the requests to Podman's API that tasks need, with plain HTTP and nothing else. No program
// that gives each task a pod is faster. "once" runs N tasks of one container, one after the other, to
// their end, and removes them. "start" starts one task of N containers, the pod "bare", and leaves it
// running. Like podtask it has four requests in flight and creates containers while the infra container
// starts.
func bare(args []string) error {
	usage := errors.New("usage: speed bare SOCKET once|start N IMAGE ARGUMENT")
	if len(args) < 4 {
		return usage
	}
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	p := podman{http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: atOnce, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", args[0])
	}}}}
	image, command := args[3], args[4:]
	switch args[1] {
	case "once":
		for i := range n {
			if err := p.once(fmt.Sprintf("bare-%d-%d", os.Getpid(), i), image, command); err != nil {
				return err
			}
		}
		return nil
	case "start":
		return p.start(n, image, command)
	}
	return usage
}

// atOnce is the number of requests that are in flight, as podtask has it.
const atOnce = 4

type object map[string]any

type podman struct{ http.Client }

// start starts a task of n containers.
func (p *podman) start(n int, image string, command []string) error {
	if err := p.call("POST", "/pods/create", object{"name": "bare"}); err != nil {
		return err
	}
	var creates, starts errgroup.Group
	creates.SetLimit(atOnce)
	starts.SetLimit(atOnce)
	creates.Go(func() error { return p.call("POST", "/pods/bare/start", nil) })
	name := func(i int) string { return fmt.Sprintf("bare-c%d", i) }
	for i := range n {
		creates.Go(func() error {
			return p.call("POST", "/containers/create", object{"name": name(i), "pod": "bare", "image": image, "command": command})
		})
	}
	if err := creates.Wait(); err != nil {
		return err
	}
	for i := range n {
		starts.Go(func() error { return p.call("POST", "/containers/"+name(i)+"/start", nil) })
	}
	return starts.Wait()
}

// once runs one task to its end and removes it.
func (p *podman) once(name, image string, command []string) error {
	for _, call := range []struct {
		method, path string
		body         object
	}{
		{"POST", "/pods/create", object{"name": name, "no_infra": true}},
		{"POST", "/containers/create", object{"name": name + "-c", "pod": name, "image": image, "command": command}},
		{"POST", "/containers/" + name + "-c/start", nil},
		{"POST", "/containers/" + name + "-c/wait?condition=exited", nil},
		{"DELETE", "/pods/" + name + "?force=true&timeout=0", nil},
	} {
		if err := p.call(call.method, call.path, call.body); err != nil {
			return err
		}
	}
	return nil
}

func (p *podman) call(method, path string, body any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequest(method, "http://d/v4.0.0/libpod"+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	answer, err := p.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	// A container that is created while its pod starts may run already.
	if err == nil && answer.StatusCode >= 300 && answer.StatusCode != http.StatusNotModified {
		err = fmt.Errorf("%s %s: status %d: %s", method, path, answer.StatusCode, said)
	}
	return err
}
