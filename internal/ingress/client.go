package ingress

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"syscall"

	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/netns"
)

// maxStatus is the longest status that is read.
const maxStatus = 16 << 20

// NotRunning returns a sentence with the remedy for a proxy that does not run.
func NotRunning() string {
	text := "the ingress proxy is not running; start it with `systemctl --user enable --now podtask-ingress.service` or `podtask ingress serve`"
	if netns.UnprivilegedStart() > lowestPort {
		text += "; `podtask doctor` says how it gets the ports 80 and 443, which this user may not open"
	}
	return text
}

// lowestPort is the lowest port of the proxy, that of HTTP.
const lowestPort = 80

// Client returns a client of the proxy behind a socket. The host of its URLs does not matter.
func Client(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return api.DialSocket(ctx, socket) },
	}}
}

// Ask returns what the proxy says about itself; nil if none runs.
func Ask(ctx context.Context, socket string) (*Status, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://ingress/v1/status", nil)
	if err != nil {
		return nil, err
	}
	answer, err := Client(socket).Do(r)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the ingress proxy does not answer: %w", err)
	}
	defer answer.Body.Close()
	var s Status
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxStatus)).Decode(&s); err != nil {
		return nil, fmt.Errorf("the ingress proxy answers nonsense: %w", err)
	}
	return &s, nil
}

// Problems are what is wrong with what the proxy serves.
func (s Status) Problems() (all []string) {
	if s.Problem != "" {
		all = append(all, s.Problem)
	}
	for _, c := range s.Certificates {
		if c.Problem != "" {
			all = append(all, fmt.Sprintf("the certificate of %s: %s", c.Name, c.Problem))
		}
	}
	for _, l := range s.Listeners {
		if l.Problem != "" {
			all = append(all, fmt.Sprintf("%s of service %s: %s", l.Address, l.Service, l.Problem))
		}
	}
	for _, r := range s.Routes {
		if r.Copies() == 0 {
			all = append(all, fmt.Sprintf("%s: service %s has no healthy copy", r.URL, r.Service))
		}
	}
	return all
}

// Copies is the number of healthy copies.
func (r Route) Copies() (n int) {
	for _, d := range r.Deployments {
		n += len(d.Copies)
	}
	return n
}
