//go:build e2e

//e2e:bed systemd

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// exampleTests are tests of the project's own examples, with testbox as a stub for their programs.
var exampleTests = map[string]string{
	"web/task.yaml": `
stubs:
  db: {image: IMAGE, command: [print, up, --, sleep, forever], healthCheck: [CMD, /testbox, exit, "0"]}
  migrate: {image: IMAGE, command: [resolve, db]}
  web: {image: IMAGE, command: [serve, "8080"], healthCheck: [CMD, /testbox, get, "http://127.0.0.1:8080/"]}
tests:
- name: the database comes first
  expect:
  - healthy: all
    within: 4m
  - exit: {container: migrate}
  - log: {container: db, equals: up}
  - http: {container: web, port: 8080}
- name: a migration that fails
  stubs:
    migrate: {image: IMAGE, command: [exit, "1"]}
  expect:
  - exit: {container: migrate, code: 1}
    within: 4m
`,
	"service/web.yaml": `
stubs:
  web: {image: IMAGE, command: [serve, "80"], environment: {PAGE: welcome}, healthCheck: [CMD, /testbox, get, "http://127.0.0.1/"]}
tests:
- name: a copy answers
  expect:
  - healthy: web
    within: 4m
  - http: {container: web, port: 80, path: /env/PAGE, body: {equals: welcome}}
`,
	"pod/pod.yaml": `
stubs:
  page: {image: IMAGE, command: [print, made]}
  web: {image: IMAGE, command: [write, /tmp/page, works, --, serve, "80"]}
tests:
- name: the page of the init container
  expect:
  - log: {container: page, contains: made}
    within: 4m
  - healthy: web
  - http: {container: web, port: 80}
  - file: {container: web, path: /tmp/page, equals: works}
`,
	"units/hello.task": `
stubs:
  web: {image: IMAGE, command: [serve, "80"]}
tests:
- name: a unit's definition
  expect:
  - http: {container: web, port: 80}
    within: 4m
`,
	"registry/task.yaml": `
stubs:
  app: {image: IMAGE, command: [print, hello, --, exit, "3"]}
tests:
- name: a program that ends
  expect:
  - exit: {container: app, code: 3}
    within: 4m
  - log: {contains: hello}
`,
}

// The examples of the project are tested as users test theirs, all files in one command.
func TestTheExamplesAreTested(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	image, examples := b.testbox(), os.Getenv("PODTASK_EXAMPLES")
	args := []string{"test", "--jobs", "6"}
	for example, tests := range exampleTests {
		name := strings.NewReplacer("/", "-", ".yaml", "", ".task", "").Replace(example) + ".test.yaml"
		text := "definition: " + filepath.Join(examples, example) + strings.ReplaceAll(tests, "IMAGE", image)
		args = append(args, b.file(name, text))
	}
	if r := b.want(0, args...); !strings.Contains(r.out, "6 tests, 0 failed") {
		t.Errorf("it printed\n%s%s", r.out, r.err)
	}
	// The test files beside the examples are read with their definitions.
	if r := b.want(0, "test", "--list", examples); strings.Count(r.out, "\n") < 4 {
		t.Errorf("the list is\n%s", r.out)
	}
}
