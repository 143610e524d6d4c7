//go:build e2e

//e2e:bed systemd

package e2e

import (
	"path/filepath"
	"strings"
	"testing"
)

// ECS places a task with a log router: the router gets the lines of the other container, with the options of its log driver.
func TestALogRouterOnAnInstanceOfECS(t *testing.T) {
	t.Parallel()
	i := newECSInstance(t)
	image := i.testbox()
	router := ecsContainer("router", image, words("route /fluent-bit/etc/fluent-bit.conf"), obj{
		"firelensConfiguration": obj{"type": "fluentbit", "options": obj{"enable-ecs-log-metadata": "true"}},
		"dockerConfig":          obj{"config": `{"User":"1000"}`, "hostConfig": `{"NetworkMode":"bridge","LogConfig":{"Type":"json-file","Config":{}}}`, "version": "1.18"},
	})
	app := ecsContainer("app", image, words("print first -- wait /tmp/go -- print last -- exit 4"), obj{
		"dockerConfig": obj{"config": "{}", "hostConfig": `{"NetworkMode":"bridge","LogConfig":{"Type":"awsfirelens","Config":{"Name":"null"}}}`, "version": "1.18"},
		"dependsOn":    []obj{{"containerName": "router", "condition": "START"}},
	})
	i.payload("payload-1", 1, obj{"arn": i.taskARN(1), "desiredStatus": "RUNNING", "containers": []obj{router, app}})
	i.state(1, "RUNNING")
	name := "ecs-" + filepath.Base(i.taskARN(1))
	eventually(t, "the first line", func() bool { return strings.Contains(i.lines(name, "router"), "app stdout first") })
	i.tell(name, "app", "/tmp/go")
	stopped := i.state(1, "STOPPED")
	codes := map[string]int{}
	for _, c := range stopped.Containers {
		if c.ExitCode != nil {
			codes[c.ContainerName] = *c.ExitCode
		}
	}
	if codes["app"] != 4 {
		t.Errorf("STOPPED: %+v", stopped)
	}
	if got := i.lines(name, "router"); strings.Count(got, "app stdout last") != 1 {
		t.Errorf("the router has got\n%s", got)
	}
}
