//go:build e2e

//e2e:bed plain

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// example is the text of a file in examples, with changes: pairs of what is replaced.
func example(t *testing.T, name string, changes ...string) string {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(os.Getenv("PODTASK_EXAMPLES"), name))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(string(src), changes[i]) {
			t.Fatalf("%s does not have %q", name, changes[i])
		}
	}
	return strings.NewReplacer(changes...).Replace(string(src))
}

// The example of a service: three copies behind one port, an update, and the way back.
func TestExampleOfAServiceRuns(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.agent()
	port := freePort(t)
	text := example(t, "service/web.yaml",
		"family: web", "family: "+b.family,
		"image: docker.io/library/nginx:1.29-alpine", "image: "+b.testbox()+"\n    command: [serve, \"80\"]\n    environment: [{name: GREETING, value: one}]",
		`["CMD-SHELL", "wget -q -O /dev/null http://127.0.0.1/"]`, `["CMD", "/testbox", "get", "http://127.0.0.1/"]`)
	file := b.file("web.yaml", text)
	b.want(0, "service", "create", b.family, file, "--count", "3", "--listen", strconv.Itoa(port)+"=web:80", "--wait", "--timeout=4m")
	b.wantAnswer(port, "one")
	if err := os.WriteFile(file, []byte(strings.Replace(text, "value: one", "value: two", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	b.want(0, "service", "update", b.family, file, "--wait", "--timeout=4m")
	b.wantAnswer(port, "two")
	b.want(0, "service", "rollback", b.family, "--wait", "--timeout=4m")
	b.wantAnswer(port, "one")
	b.removeService()
}

// The example of a Pod: the init container writes the page, and the probe finds it.
func TestExampleOfAPodRuns(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	image, _ := b.push("shell:1", shellImage(t))
	text := example(t, "pod/pod.yaml",
		"docker.io/library/alpine:3", image,
		"image: docker.io/library/nginx:alpine", "image: "+image+"\n      args: [serve, \"80\"]",
		", hostPort: 8080", "")
	b.want(0, "run", "-d", "--wait=healthy", "--limits=off", "--name", b.family, b.file("pod.yaml", text))
	if page := b.want(0, "exec", b.family, "web", "/testbox", "cat", "/usr/share/nginx/html/index.html").out; !strings.Contains(page, "It works") {
		t.Errorf("the page is %q", page)
	}
	b.want(0, "rm", "-f", b.family)
}

// Every file in examples that can be run is named in a test of this package, or is run by
// `make demo`. The definition of units/blog.task is that of web/task.yaml.
func TestExamplesAreAllRun(t *testing.T) {
	t.Parallel()
	run := regexp.MustCompile(`^(web/task\.yaml|batch/report\.task|registry/task\.yaml|units/hello\.task|service/web\.yaml|pod/pod\.yaml|(web/web|service/web|pod/pod)\.test\.yaml|shop/.*|units/blog\..*)$`)
	root := os.Getenv("PODTASK_EXAMPLES")
	for _, pattern := range []string{"*/*.yaml", "*/*.json", "*/*.task"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			if name, _ := filepath.Rel(root, file); !run.MatchString(name) {
				t.Errorf("no test runs %s", name)
			}
		}
	}
}
