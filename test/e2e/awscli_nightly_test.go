//go:build e2e && nightly

package e2e

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/testing/logstest"
)

// awsCLI is Debian's command line of AWS, if it is installed (hack/install.sh awsclients).
const awsCLI = "/usr/bin/aws"

// The command line of AWS reads the lines of a task from the server to which they were sent, and from
// the agent, in order and with their streams.
func TestAWSCLIReadsTheLinesOfATask(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(awsCLI); err != nil {
		t.Skip(err)
	}
	b := newBox(t)
	web := httptest.NewServer(logstest.New())
	defer web.Close()
	address := loopback(t)
	b.env = append(b.env, "PODTASK_AWSLOGS_ENDPOINT="+web.URL)
	b.agent("--aws-listen=" + address)
	group := "/ecs/" + b.family
	b.want(0, "run", "--name", b.family, b.define(ctr{Name: "app", Command: words("print one -- print grüße -- print {\"three\":3} -- print four"), More: logTo("awslogs", obj{
		"awslogs-group": group, "awslogs-region": "eu-west-1", "awslogs-stream-prefix": "web", "awslogs-create-group": "true", "awslogs-force-flush-interval-seconds": "1",
	})}))
	lines := []string{"one", "grüße", `{"three":3}`, "four"}
	stream := "web/app/" + b.inspect(b.family).ID
	own := awsEnv(b, address)
	for _, server := range []struct{ url, key, secret string }{{web.URL, "k", "s"}, {own["AWS_ENDPOINT_URL"], own["AWS_ACCESS_KEY_ID"], own["AWS_SECRET_ACCESS_KEY"]}} {
		call := func(args ...string) string {
			t.Helper()
			cmd := exec.CommandContext(t.Context(), awsCLI, append([]string{"--endpoint-url", server.url, "--region", "eu-west-1", "--output", "json", "logs"}, args...)...)
			cmd.Env = []string{"HOME=" + b.dir, "LANG=C.UTF-8", "AWS_ACCESS_KEY_ID=" + server.key, "AWS_SECRET_ACCESS_KEY=" + server.secret}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("aws logs %q at %s: %v\n%s", args, server.url, err, out)
			}
			return string(out)
		}
		var got []string
		for token := ""; ; {
			args := []string{"get-log-events", "--log-group-name", group, "--log-stream-name", stream, "--start-from-head"}
			if token != "" {
				args = append(args, "--next-token", token)
			}
			var page struct {
				Events           []logstest.Event
				NextForwardToken string
			}
			if err := json.Unmarshal([]byte(call(args...)), &page); err != nil {
				t.Fatal(err)
			}
			for _, e := range page.Events {
				got = append(got, e.Message)
			}
			if page.NextForwardToken == token {
				break
			}
			token = page.NextForwardToken
		}
		if !slices.Equal(got, lines) {
			t.Errorf("get-log-events at %s reads %q", server.url, got)
		}
		got = nil
		for line := range strings.Lines(call("tail", group, "--since", "1h", "--format", "short")) {
			_, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			got = append(got, text)
		}
		if !slices.Equal(got, lines) {
			t.Errorf("tail at %s shows %q", server.url, got)
		}
		if tail := call("tail", group, "--since", "1h"); strings.Count(tail, " "+stream+" ") != len(lines) {
			t.Errorf("tail at %s says of which stream lines are: %s", server.url, tail)
		}
	}
}
