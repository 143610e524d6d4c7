//go:build e2e

//e2e:bed systemd

package e2e

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/testing/logstest"
)

// The output of a container reaches CloudWatch Logs: while its server fails, with an owner
// that is killed between the acknowledgement and the position, to the last line.
func TestOutputReachesCloudWatchLogs(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	server := logstest.New()
	web := httptest.NewServer(server)
	defer web.Close()
	failures := 2
	server.Fail(func(r logstest.Request) *logstest.Failure {
		if r.Operation != "PutLogEvents" || failures == 0 {
			return nil
		}
		failures--
		return &logstest.Failure{Status: 400, Code: "ThrottlingException", Message: "Rate exceeded"}
	})
	b.env = append(b.env, "PODTASK_AWSLOGS_ENDPOINT="+web.URL)
	path := b.define(ctr{
		Name: "app", Command: words("lines 3000 -- eprint error -- wait /tmp/go -- print last"),
		More: logTo("awslogs", obj{
			"awslogs-group": "shop", "awslogs-region": "eu-west-1", "awslogs-stream-prefix": "web", "awslogs-create-group": "true",
			"awslogs-force-flush-interval-seconds": "1", "mode": "non-blocking",
		}),
	})
	if got := b.want(0, "validate", path).out; !strings.Contains(got, "app: CloudWatch Logs eu-west-1 shop, stream web/app/TASKID") {
		t.Errorf("validate says %s", got)
	}
	env := b.env
	b.env = append(b.env, "PODTASK_FAILPOINT=log-acknowledged")
	killed := b.start("run", "--name", b.family, path)
	if r := killed.wait(); r.code != -1 {
		t.Fatalf("the owner was not killed: %d\n%s", r.code, r.err)
	}
	b.env = env
	waiting := b.start("wait", b.family)
	id := b.inspect(b.family).ID
	stream := func() []string { return server.Messages("shop", "web/app/"+id) }
	eventually(t, "the batch again", func() bool { return len(stream()) >= 2*3001 })
	b.tell(id, "app", "/tmp/go")
	waiting.want(0)
	seen := map[string]int{}
	for _, text := range stream() {
		seen[text]++
	}
	for i := range 3000 {
		if n := seen[fmt.Sprint("line ", i+1)]; n < 1 || n > 2 {
			t.Fatalf("line %d came %d times", i+1, n)
		}
	}
	if got := stream(); got[len(got)-1] != "last" || seen["last"] != 1 || seen["error"] == 0 {
		t.Errorf("the end of %d events is missing: %q", len(got), got[max(0, len(got)-3):])
	}
	if got := b.want(0, "logs", "--routes", id).out; !strings.Contains(got, "stream web/app/"+id) || !strings.Contains(got, " 0B ") || !strings.Contains(got, "ok") {
		t.Errorf("the routes are %s", got)
	}
	b.wantLines(id, "app", append(numbered(3000), "last")...)
	b.want(0, "rm", id)
}

// numbered are the lines of the step lines.
func numbered(n int) (lines []string) {
	for i := range n {
		lines = append(lines, fmt.Sprint("line ", i+1))
	}
	return lines
}
