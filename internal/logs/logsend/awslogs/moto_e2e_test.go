//go:build e2e && bed_systemd && nightly

package awslogs

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/logs/logroute"
	"github.com/podtask/podtask/internal/testing/logstest"
	"github.com/podtask/podtask/internal/testing/mototest"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

// stored are the texts of a stream, as `aws logs get-log-events` reads them.
func stored(t *testing.T, url, token string) (texts []string, next string) {
	t.Helper()
	args := []string{
		"--endpoint-url", url, "--region", "eu-west-1", "--output", "json", "logs", "get-log-events", "--log-group-name", "shop", "--log-stream-name", "web",
		"--start-from-head",
	}
	if token != "" {
		args = append(args, "--next-token", token)
	}
	cmd := exec.CommandContext(t.Context(), "aws", args...)
	cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID=k", "AWS_SECRET_ACCESS_KEY=s")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("aws: %v, %s", err, out)
	}
	var page struct {
		Events           []struct{ Message string }
		NextForwardToken string
	}
	if err := json.Unmarshal(out, &page); err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Events {
		texts = append(texts, e.Message)
	}
	return texts, page.NextForwardToken
}

// TestMotoStoresTheSame sends the same lines to moto's server, which is foreign, and to that of the tests.
// Both have the same events in the end; those of moto are read by `aws logs get-log-events`.
func TestMotoStoresTheSame(t *testing.T) {
	t.Parallel()
	url, own := mototest.Start(t), logstest.New()
	web := httptest.NewServer(own)
	t.Cleanup(web.Close)
	lines := []string{"one", "", "two\r", "a\xffb", "ümläut €", strings.Repeat("x", EventBytes+5), strings.Repeat("y", EventBytes)}
	for i := range 11_000 { // more than a request may have
		lines = append(lines, fmt.Sprint("line ", i))
	}
	for _, endpoint := range []string{url, web.URL} {
		s := &sending{t: t, server: own, Sender: New(Config{
			Options: logdriver.AWSLogsOptions{Region: "eu-west-1", Group: "shop", CreateGroup: true, CreateStream: true, Flush: time.Second}, Stream: "web", Endpoint: endpoint,
			Credentials: func(context.Context) (Credentials, error) {
				return Credentials{AccessKeyID: "k", SecretAccessKey: "s", Expires: time.Now().Add(time.Hour)}, nil
			},
		})}
		begin := time.Now().Add(-4 * time.Hour)
		for i, text := range lines {
			e := logroute.Entry{Time: begin.Add(time.Duration(i) * time.Second), Text: text}
			e.Next[0], e.Next[1] = logroute.Mark{Segment: 1, Offset: int64(i)}, logroute.Mark{Segment: 1, Offset: int64(i)}
			s.Add(e)
		}
		if sum := s.all(); sum.Lost != 0 || int(sum.Next[0].Offset) != len(lines)-1 {
			t.Errorf("%s: it reports %+v", endpoint, sum)
		}
	}
	var got []string
	for token := ""; ; {
		page, next := stored(t, url, token)
		got = append(got, page...)
		if len(page) == 0 || next == token {
			break
		}
		token = next
	}
	if want := own.Messages("shop", "web"); !slices.Equal(got, want) {
		t.Errorf("moto has %d events, want %d", len(got), len(want))
	}
}
