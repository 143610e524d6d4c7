// Command client asks a server a few times and prints what it says.
//
// SERVER_URL (default http://127.0.0.1:8080/) is whom it asks, REQUESTS (3) how
// often (0: until it is stopped), PAUSE (300ms) the time between two requests.
// It exits 1 if an answer is missing or not 200.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const maxAnswer = 64 << 10 // bytes of an answer that are read

func main() {
	// As process 1 of a container it would ignore SIGTERM without a handler.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if ctx.Err() != nil {
		os.Exit(143)
	}
}

func run(ctx context.Context) error {
	requests, err := strconv.Atoi(setting("REQUESTS", "3"))
	if err != nil {
		return fmt.Errorf("REQUESTS: %w", err)
	}
	pause, err := time.ParseDuration(setting("PAUSE", "300ms"))
	if err != nil {
		return fmt.Errorf("PAUSE: %w", err)
	}
	url := setting("SERVER_URL", "http://127.0.0.1:8080/")
	for i := 0; requests == 0 || i < requests; i++ {
		if i > 0 {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(pause):
			}
		}
		answer, err := ask(ctx, url)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		fmt.Println(answer)
	}
	return nil
}

func setting(name, byDefault string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return byDefault
}

func ask(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	res, err := http.DefaultClient.Do(req)
	var unknown *net.DNSError
	for errors.As(err, &unknown) && ctx.Err() == nil { // a container's name may take a moment
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
			res, err = http.DefaultClient.Do(req)
		}
	}
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return "", err
	}
	if res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answers %s", url, res.Status)
	}
	return strings.TrimSpace(string(body)), nil
}
