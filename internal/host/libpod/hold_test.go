package libpod

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestServiceIsNeededWhileAContainerRunsAndAfterRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var n need
		n.request()
		<-time.After(time.Minute)
		if !n.now(2 * time.Minute) {
			t.Error("not needed a minute after a request")
		}
		done := n.wait()
		<-time.After(time.Hour)
		if !n.now(2 * time.Minute) {
			t.Error("not needed while a container runs")
		}
		done()
		<-time.After(time.Minute)
		if !n.now(2 * time.Minute) {
			t.Error("not needed a minute after the end of a container")
		}
		<-time.After(time.Minute)
		if n.now(2 * time.Minute) {
			t.Error("needed two minutes after everything")
		}
	})
}

// The connection that keeps the service running is closed while nothing needs it.
func TestServiceIsHeldWhileItIsNeeded(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "podman.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var open atomic.Int32
	changed := make(chan struct{}, 100)
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler:           http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		ConnState: func(_ net.Conn, s http.ConnState) {
			switch s {
			case http.StateNew:
				open.Add(1)
			case http.StateClosed:
				open.Add(-1)
			}
			changed <- struct{}{}
		},
	}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	c := &Client{service: &service{ours: socket, idle: 20 * time.Millisecond, current: socket}, pool: &http.Transport{}}
	c.need.request()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	done := c.need.wait()
	go func() {
		defer close(ended)
		c.keepServiceRunning(ctx)
	}()
	for range 10 { // changes of a connection that is used again and again
		<-changed
	}
	if open.Load() != 1 {
		t.Errorf("%d connections while a container is waited for", open.Load())
	}
	done()
	for open.Load() > 0 {
		<-changed
	}
	cancel()
	<-ended
}
