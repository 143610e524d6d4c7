//go:build e2e

//e2e:bed systemd

package e2e

import (
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/testing/guide"
)

// guideTests are tests of definitions as Amazon's guide for developers has them, with testbox for their programs.
var guideTests = map[string]string{
	"web-server.json": `
stubs:
  site: {image: IMAGE, command: [serve, "80"]}
tests:
- name: the site answers
  expect:
  - http: {container: site, port: 80}
    within: 4m
`,
	"start-order.json": `
stubs:
  proxy: {image: IMAGE, command: [print, proxy, --, sleep, forever], healthCheck: [CMD, /testbox, exit, "0"]}
  schema: {image: IMAGE, command: [print, made]}
  app: {image: IMAGE, command: [print, app, --, sleep, forever]}
tests:
- name: the schema is made before the app starts
  expect:
  - log: {container: app, equals: app}
    within: 4m
  - exit: {container: schema}
- name: without a schema there is no app
  stubs:
    schema: {image: IMAGE, command: [exit, "2"]}
  expect:
  - exit: {container: schema, code: 2}
    within: 4m
`,
	"wordpress-links.json": `
stubs:
  blog: {image: IMAGE, command: [resolve, mysql, --, serve, "80"]}
  store: {image: IMAGE, command: [sleep, forever]}
tests:
- name: the blog finds its database
  expect:
  - http: {container: blog, port: 80}
    within: 4m
`,
	"logs-firelens.json": `
leaveOut: [router]
stubs:
  app: {image: IMAGE, command: [print, hello, --, sleep, forever]}
tests:
- name: without its log router the output is here
  expect:
  - log: {container: app, equals: hello}
    within: 4m
`,
	"secrets.json": `
stubs:
  app: {image: IMAGE, command: [print, hello]}
tests:
- name: a stub needs no secrets
  expect:
  - exit: {container: app}
    within: 4m
`,
}

// Definitions that others wrote for Amazon ECS are tested without Amazon.
func TestPublicDefinitionsAreTested(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	image := b.testbox()
	args := []string{"test", "--jobs", "6"}
	for name, tests := range guideTests {
		src, err := guide.Files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		b.file(name, string(src))
		args = append(args, b.file(strings.TrimSuffix(name, ".json")+".test.yaml", "definition: "+name+strings.ReplaceAll(tests, "IMAGE", image)))
	}
	if r := b.want(0, args...); !strings.Contains(r.out, "6 tests, 0 failed") {
		t.Errorf("it printed\n%s%s", r.out, r.err)
	}
}
