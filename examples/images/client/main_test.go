package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

func TestRunAsksAsOftenAsItIsTold(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(server.Close)
	t.Setenv("SERVER_URL", server.URL)
	t.Setenv("REQUESTS", "4")
	t.Setenv("PAUSE", "1ns")
	if err := run(t.Context()); err != nil || asked.Load() != 4 {
		t.Errorf("asked %d times, %v; want 4", asked.Load(), err)
	}
}

func TestRunFails(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	t.Setenv("SERVER_URL", server.URL)
	if err := run(t.Context()); err == nil {
		t.Error("404 is taken for an answer")
	}
	t.Setenv("REQUESTS", "many")
	if err := run(t.Context()); err == nil {
		t.Error(`REQUESTS="many" is accepted`)
	}
}

func TestRunEndsWhenStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { cancel() }))
	t.Cleanup(server.Close)
	t.Setenv("SERVER_URL", server.URL)
	t.Setenv("REQUESTS", "0")
	t.Setenv("PAUSE", "1h")
	if err := run(ctx); err != nil {
		t.Error(err)
	}
}
