// Bare does N times what a one-shot task of one container needs of Podman, with plain HTTP
// and nothing else: it creates a pod and a container in it, starts that, waits for its end
// and removes the pod. What this costs, a program that gives each task a pod cannot save.
//
//	bare SOCKET N IMAGE ARGUMENT...
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bare:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 3 {
		return fmt.Errorf("usage: bare SOCKET N IMAGE ARGUMENT")
	}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	p := podman{http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", args[0])
	}}}}
	for i := range n {
		if err := p.task(fmt.Sprintf("bare-%d-%d", os.Getpid(), i), args[2], args[3:]); err != nil {
			return err
		}
	}
	return nil
}

type podman struct{ http.Client }

// task runs one task to its end and removes it.
func (p *podman) task(name, image string, command []string) error {
	type object map[string]any
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
			return fmt.Errorf("%s %s: %w", call.method, call.path, err)
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
	if err == nil && answer.StatusCode >= 300 {
		err = fmt.Errorf("status %d: %s", answer.StatusCode, said)
	}
	return err
}
