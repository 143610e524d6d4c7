package firelens

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

// The files were written by the generator of the ECS agent itself, with the same input.
func TestTheConfigurationIsThatOfTheAgent(t *testing.T) {
	t.Parallel()
	for file, f := range map[string]Router{
		"fluentd-bridge.conf":   {Fluentd: true, Bind: "0.0.0.0"},
		"fluentd-host.conf":     {Fluentd: true},
		"fluentbit-awsvpc.conf": {Bind: "127.0.0.1"},
		"fluentbit-none.conf":   {},
	} {
		f.Memory, f.Include = 64, "/extra.conf"
		f.Metadata = map[string]string{"ecs_cluster": "podtask", "ecs_task_arn": "arn:task", "ecs_task_definition": "shop:3"}
		_, reference := SecretVariable(f.Fluentd, "key", 1)
		name := logdriver.FireLensPlugin(f.Fluentd)
		f.Outputs = []Output{
			{"app", map[string]string{name: "http", "host": "h", "Port": "80", "key": reference, "include-pattern": "^keep", "exclude-pattern": "debug$", "log-driver-buffer-limit": "9"}},
			{"side", map[string]string{"include-pattern": "^x"}},
			{"last", map[string]string{name: "null"}},
		}
		want, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Config(); string(got) != string(want) {
			t.Errorf("%s:\n%s\nwant\n%s", file, got, want)
		}
	}
}

func TestTheBufferOfARouterIsHalfItsMemory(t *testing.T) {
	t.Parallel()
	for memory, want := range map[int64]string{0: "25MB", 1: "25MB", 100: "50MB"} {
		if got := string(Router{Memory: memory}.Config()); !strings.Contains(got, "Mem_Buf_Limit "+want+"\n") {
			t.Errorf("%d MiB: %s", memory, got)
		}
	}
}
