package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestHealthFollowsTheStartDelay(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		rule    string
		ready   time.Time
		healthy bool
	}{
		{"not before the delay is over", time.Now().Add(time.Hour), false},
		{"afterwards", time.Now().Add(-time.Hour), true},
	} {
		server := httptest.NewServer(handler(tc.ready))
		t.Cleanup(server.Close)
		if err := checkHealth(server.Listener.Addr().String()); (err == nil) != tc.healthy {
			t.Errorf("%s: -check says %v", tc.rule, err)
		}
	}
}

func TestCheckFailsWithoutAServer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(nil)
	addr := server.Listener.Addr().String()
	server.Close()
	if err := checkHealth(addr); err == nil {
		t.Error("healthy without a server")
	}
}

func TestGreetingsAreCounted(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(handler(time.Time{}))
	t.Cleanup(server.Close)
	for _, want := range []string{"number 1", "number 2"} {
		res, err := http.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%q, %v; want %q", body, err, want)
		}
	}
}
