// Command server is a small web server with a health check. It is healthy
// after START_DELAY (default 1s); it listens on LISTEN (:8080) and ends in
// order on SIGTERM.
//
// With -check it asks the server beside it for its health and exits 0 or 1:
// a health check for an image without a shell.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	check := flag.Bool("check", false, "ask the running server for its health and exit")
	flag.Parse()
	listen := os.Getenv("LISTEN")
	if listen == "" {
		listen = ":8080"
	}
	act := serve
	if *check {
		act = checkHealth
	}
	if err := act(listen); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(listen string) error {
	delay := time.Second
	if text := os.Getenv("START_DELAY"); text != "" {
		var err error
		if delay, err = time.ParseDuration(text); err != nil {
			return fmt.Errorf("START_DELAY: %w", err)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	server := &http.Server{Addr: listen, Handler: handler(time.Now().Add(delay)), ReadHeaderTimeout: 5 * time.Second}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		limit, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		stopped <- server.Shutdown(limit)
	}()
	fmt.Println("listening on", listen)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	err := <-stopped
	fmt.Println("stopped")
	return err
}

// handler greets, and is healthy from ready on.
func handler(ready time.Time) http.Handler {
	var greeted atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		n := greeted.Add(1)
		fmt.Printf("greeting number %d\n", n)
		fmt.Fprintf(w, "hello, you are number %d\n", n)
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if time.Now().Before(ready) {
			http.Error(w, "starting", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return mux
}

func checkHealth(listen string) error {
	_, port, err := net.SplitHostPort(listen)
	if err != nil {
		return fmt.Errorf("LISTEN: %w", err)
	}
	client := &http.Client{Timeout: 2 * time.Second}
	res, err := client.Get("http://" + net.JoinHostPort("127.0.0.1", port) + "/healthz")
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("not healthy: %s", res.Status)
	}
	return nil
}
