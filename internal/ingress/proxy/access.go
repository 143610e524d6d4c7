package proxy

import (
	"net/http"
	"time"
)

// Record is a line of the access log. The query of a URL is left out: it may hold secrets.
type Record struct {
	Time      time.Time `json:"time"`
	RequestID string    `json:"requestId"`
	// Service, Deployment and Task are where the request went; empty if it was answered here.
	Service    string `json:"service,omitempty"`
	Deployment string `json:"deployment,omitempty"`
	Task       string `json:"task,omitempty"`
	// Client is an IP address.
	Client    string `json:"client"`
	Scheme    string `json:"scheme"`
	Protocol  string `json:"protocol"`
	Method    string `json:"method"`
	Host      string `json:"host"`
	Path      string `json:"path"`
	UserAgent string `json:"userAgent,omitempty"`
	Status    int    `json:"status"`
	// ReceivedBytes and SentBytes are those of the bodies.
	ReceivedBytes int64   `json:"receivedBytes"`
	SentBytes     int64   `json:"sentBytes"`
	Seconds       float64 `json:"seconds"`
	// Error explains why the proxy answered itself.
	Error string `json:"error,omitempty"`
}

// longest is how much of a text from a client is logged.
const longest = 2048

func short(s string) string { return s[:min(len(s), longest)] }

// record counts and logs a request that has ended.
func (p *Proxy) record(x *exchange, r *http.Request, w *recorder, begun time.Time) {
	status := w.status
	if status == 0 {
		status = 499 // nothing was answered: the client went away
	}
	p.mu.Lock()
	p.requests[requestKey{x.route.Service, status / 100}]++
	p.mu.Unlock()
	scheme := "http"
	if x.secure {
		scheme = "https"
	}
	p.cfg.Access(Record{
		Time: begun.UTC(), RequestID: x.id, Service: x.route.Service, Deployment: x.turn, Task: x.target, Client: x.client, Scheme: scheme, Protocol: r.Proto,
		Method: short(r.Method), Host: short(r.Host), Path: short(r.URL.Path), UserAgent: short(r.UserAgent()), Status: status,
		ReceivedBytes: x.body.Load(), SentBytes: w.bytes, Seconds: time.Since(begun).Seconds(), Error: x.fault,
	})
}
