package prober

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/podtask/podtask/pkg/netns"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Result is what a check has found. Output says why it failed.
type Result struct {
	Healthy bool
	Output  string
}

// dialer connects to containers.
type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// target is where an action of a container goes.
type target struct {
	dial dialer
	// host stands in where the action names none.
	host string
	// hook: any answer of HTTP will do (kubelet, runHTTPHandler).
	hook bool
}

const (
	// maxBody and maxHeader bound what is read of an answer, maxOutput what is reported of it, in bytes.
	maxBody, maxHeader, maxOutput = 10 << 10, 64 << 10, 1024
	maxRedirects                  = 10
)

// userAgent begins as the kubelet's, because servers keep such requests out of their logs.
const userAgent = "kube-probe/1.35 podtask"

// do makes one attempt. The error says that nothing was learned.
func (t target) do(ctx context.Context, a taskdef.Action) (Result, error) {
	var err error
	out := Result{Healthy: true}
	switch {
	case a.HTTP != nil:
		out, err = t.http(ctx, *a.HTTP)
	case a.TCP != nil:
		err = t.tcp(ctx, *a.TCP)
	case a.GRPC != nil:
		out, err = t.grpc(ctx, *a.GRPC)
	default:
		return Result{}, fmt.Errorf("prober: %s is not for the network", a)
	}
	switch {
	case err == nil:
		return out, nil
	case errors.Is(context.Cause(ctx), context.Canceled), errors.As(err, new(*netns.SocketError)):
		return Result{}, err
	case ctx.Err() != nil:
		return Result{Output: "there was no answer in time"}, nil
	}
	return Result{Output: brief(err.Error())}, nil
}

func brief(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxOutput)], "") }

func (t target) address(host string, port uint16) string {
	if host == "" {
		host = t.host
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

func (t target) tcp(ctx context.Context, a taskdef.TCPAction) error {
	c, err := t.dial(ctx, "tcp", t.address(a.Host, a.Port))
	if err != nil {
		return err
	}
	return c.Close()
}

// redirected begins what is reported of an answer that leads to another host, as a kubelet says it.
const redirected = "Probe terminated redirects, Response body: "

// http follows redirects to the same host only. One to another host is a success that is reported, and so is
// every status from 200 to 399 a success.
func (t target) http(ctx context.Context, a taskdef.HTTPAction) (Result, error) {
	req, err := t.request(ctx, a)
	if err != nil {
		return Result{}, err
	}
	transport := &http.Transport{
		DialContext: t.dial, DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHeader,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // as in Kubernetes: it is not about trust
	}
	defer transport.CloseIdleConnections()
	elsewhere := false
	client := &http.Client{Transport: transport, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		switch {
		case next.URL.Hostname() != via[0].URL.Hostname():
			elsewhere = true
			return http.ErrUseLastResponse
		case len(via) >= maxRedirects:
			return fmt.Errorf("stopped after %d redirects", maxRedirects)
		}
		return nil
	}}
	res, err := client.Do(req)
	if err != nil {
		if outer, ok := errors.AsType[*url.Error](err); ok {
			err = outer.Err // without the address, which may hold what is secret
		}
		return Result{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	switch {
	case err == nil && elsewhere && !t.hook:
		return Result{Healthy: true, Output: brief(redirected + strings.TrimSpace(string(body)))}, nil
	case t.hook || err == nil && 200 <= res.StatusCode && res.StatusCode < 400:
		return Result{Healthy: true}, nil
	case err != nil:
		return Result{}, err
	}
	return Result{Output: brief(strings.TrimSpace(fmt.Sprintf("HTTP status %s %s", res.Status, body)))}, nil
}

func (t target) request(ctx context.Context, a taskdef.HTTPAction) (*http.Request, error) {
	u, err := url.Parse(a.Path)
	if err != nil { // as it is, then
		u = &url.URL{Path: a.Path}
	}
	u.Scheme, u.Host = "http", t.address(a.Host, a.Port)
	if a.HTTPS {
		u.Scheme = "https"
	}
	if !strings.HasPrefix(u.Path, "/") {
		u.Path = "/" + u.Path
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	for _, h := range a.Headers {
		req.Header.Add(h.Name, h.Value)
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	for name, value := range map[string]string{"User-Agent": userAgent, "Accept": "*/*"} {
		if _, set := req.Header[name]; !set {
			req.Header.Set(name, value)
		}
	}
	return req, nil
}

// The answers of the health service (grpc.health.v1.HealthCheckResponse.ServingStatus).
var servingStatus = []string{"UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"}

// grpc asks the health service for the status of a service. The messages are so small that
// a library for gRPC would be the larger risk: a request has one text, an answer one number.
func (t target) grpc(ctx context.Context, a taskdef.GRPCAction) (Result, error) {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{DialContext: t.dial, Protocols: protocols, MaxResponseHeaderBytes: maxHeader}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+t.address("", a.Port)+"/grpc.health.v1.Health/Check", bytes.NewReader(healthRequest(a.Service)))
	if err != nil {
		return Result{}, err
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Te", "trailers")
	req.Header.Set("User-Agent", userAgent)
	res, err := transport.RoundTrip(req)
	if err != nil {
		return Result{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	if err != nil {
		return Result{}, err
	}
	status, text := res.Trailer.Get("Grpc-Status"), res.Trailer.Get("Grpc-Message")
	if status == "" { // an answer without a body has them in the header
		status, text = res.Header.Get("Grpc-Status"), res.Header.Get("Grpc-Message")
	}
	switch {
	case res.StatusCode != http.StatusOK:
		return Result{Output: "HTTP status " + res.Status + " instead of an answer of gRPC"}, nil
	case status != "0":
		return Result{Output: brief(strings.TrimSpace("gRPC status " + status + " " + text))}, nil
	}
	return healthAnswer(body)
}

// healthRequest is a message HealthCheckRequest with its length before it.
func healthRequest(service string) []byte {
	var message []byte
	if service != "" {
		message = binary.AppendUvarint([]byte{1<<3 | 2}, uint64(len(service))) // field 1, text
		message = append(message, service...)
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}

// healthAnswer reads a message HealthCheckResponse with its length before it.
func healthAnswer(body []byte) (Result, error) {
	const prefix = 5
	if len(body) < prefix || body[0] != 0 || binary.BigEndian.Uint32(body[1:]) != uint32(len(body)-prefix) {
		return Result{}, errors.New("the answer is not one message of gRPC")
	}
	status := uint64(0)
	if message := body[prefix:]; len(message) > 0 {
		n := 0
		if message[0] == 1<<3 { // field 1, number
			status, n = binary.Uvarint(message[1:])
		}
		if n <= 0 {
			return Result{}, errors.New("the answer is not one of the health service")
		}
	}
	if status == 1 {
		return Result{Healthy: true}, nil
	}
	word := strconv.FormatUint(status, 10)
	if status < uint64(len(servingStatus)) {
		word = servingStatus[status]
	}
	return Result{Output: "the service answers " + word}, nil
}
