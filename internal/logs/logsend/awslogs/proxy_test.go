package awslogs

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/logs/logroute"
	"github.com/podtask/podtask/internal/testing/logstest"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

// byProxyEnv makes the test program one that sends a line to a host that only a proxy knows.
const byProxyEnv = "PODTASK_TEST_BY_PROXY"

// Lines go by the proxy of the environment, which a process reads once: another one sends them.
func TestLinesGoByTheProxy(t *testing.T) {
	t.Parallel()
	if os.Getenv(byProxyEnv) != "" {
		sendByProxy(t)
		return
	}
	server := logstest.New("shop")
	var mu sync.Mutex
	var hosts []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		hosts = append(hosts, r.URL.Host)
		mu.Unlock()
		server.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestLinesGoByTheProxy$")
	cmd.Env = append(os.Environ(), byProxyEnv+"=1", "HTTP_PROXY="+proxy.URL, "http_proxy="+proxy.URL, "NO_PROXY=", "no_proxy=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Contains(hosts, "logs.example") {
		t.Errorf("the proxy was asked for %v", hosts)
	}
}

func sendByProxy(t *testing.T) {
	s := &sending{t: t, Sender: New(Config{
		Options: logdriver.AWSLogsOptions{Region: "eu-west-1", Group: "shop", CreateStream: true, Flush: 5 * time.Second}, Stream: "web", Endpoint: "http://logs.example",
		Credentials: func(context.Context) (Credentials, error) {
			return Credentials{AccessKeyID: "k", SecretAccessKey: "s", Expires: time.Now().Add(time.Hour)}, nil
		},
	})}
	s.Add(logroute.Entry{Time: noon, Text: "by the proxy"})
	if sum := s.all(); sum.Lines != 1 {
		t.Errorf("%+v", sum)
	}
}
