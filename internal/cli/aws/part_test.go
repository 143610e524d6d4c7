package aws

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/aws/awsapi"
	"github.com/podtask/podtask/internal/aws/sigv4"
	"github.com/podtask/podtask/internal/testing/rudeclient"
)

func TestRudeClientsOfTheECSAPI(t *testing.T) {
	t.Parallel()
	server := awsapi.New(awsapi.Config{Log: slog.New(slog.DiscardHandler), Now: time.Now, Key: func() (sigv4.Key, error) { return sigv4.Key{ID: "AKIA", Secret: "x"}, nil }})
	client := rudeclient.Serve(t, 64, "/", func(ctx context.Context, l net.Listener) error {
		s := signedServer(server.Signed())
		s.Listener = l
		return s.Serve(ctx)
	})
	for range 5 {
		resp, err := client.Post("http://x/", "application/x-amz-json-1.1", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(body), "MissingAuthenticationToken") {
			t.Errorf("status %s, %s, %v", resp.Status, body, err)
		}
		_ = resp.Body.Close()
	}
}
