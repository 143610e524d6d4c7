package short

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/testing/schemafile"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

func tree(t testing.TB, src string) *doctree.Node {
	t.Helper()
	docs, err := doctree.Documents([]byte(src), doctree.Limits{Size: 1 << 20, Values: 50_000, Depth: 40})
	if err != nil || len(docs) != 1 {
		t.Fatalf("%d documents, %v", len(docs), err)
	}
	return docs[0]
}

// Each key becomes what its row says, and the definition is one that taskdef accepts.
func TestExpand(t *testing.T) {
	t.Parallel()
	for _, one := range []struct{ key, want string }{
		{`command: sleep "1 2"`, `"command":["sleep","1 2"]`},
		{`command: [sleep, 1]`, `"command":["sleep",1]`},
		{`entrypoint: []`, `"entryPoint":[]`},
		{`env: {A: 1, B: ""}`, `"environment":[{"name":"A","value":1},{"name":"B","value":""}]`},
		{`environment: [A=b=c]`, `"environment":[{"name":"A","value":"b=c"}]`},
		{`env_file: x.env`, `"environmentFiles":[{"type":"s3","value":"/app/x.env"}]`},
		{`secret: ["a,type=env,target=A"]`, `"secrets":[{"name":"A","valueFrom":"podman:a"}]`},
		{`secrets: a`, `"x-podtask":{"secretFiles":[{"path":"/run/secrets/a","valueFrom":"podman:a","mode":"0444","uid":0,"gid":0}]}`},
		{`ports: [80, "8080:80/udp", "127.0.0.1:8000-8001:81-82", 90-91]`, `"portMappings":[{"containerPort":80},{"containerPort":80,"hostPort":8080,"protocol":"udp"},{"containerPort":81,"hostPort":8000,"x-podtask":{"hostIP":"127.0.0.1"}},{"containerPort":82,"hostPort":8001,"x-podtask":{"hostIP":"127.0.0.1"}},{"containerPortRange":"90-91"}]`},
		{`volumes: ["data:/d", "./a:/a:ro", "podman:old:/o"]`, `"volumes":[{"name":"shop_data","dockerVolumeConfiguration":{"scope":"shared","autoprovision":true}},{"name":"a","host":{"sourcePath":"/app/a"}},{"name":"old","dockerVolumeConfiguration":{"scope":"shared"}}]`},
		{`volumes: ["./a:/a:ro"]`, `"mountPoints":[{"sourceVolume":"a","containerPath":"/a","readOnly":true}]`},
		{`healthcheck: true && echo`, `"healthCheck":{"command":["CMD-SHELL","true \u0026\u0026 echo"]}`},
		{`healthcheck: http://localhost:8080/up`, `"x-podtask":{"httpHealthCheck":"http://localhost:8080/up"}`},
		{`healthcheck: [true, x]`, `"healthCheck":{"command":["CMD",true,"x"]}`},
		{`healthcheck: {test: [NONE]}`, `"healthCheck":{"command":["NONE"]}`},
		{`healthcheck: {test: x, interval: 1m, timeout: 3, retries: 2, start_period: 10s}`, `"healthCheck":{"command":["CMD-SHELL","x"],"interval":60,"timeout":3,"retries":2,"startPeriod":10}`},
		{`essential: true`, `"essential":true`},
		{`restart: no`, `"image":"i"}`},
		{`restart: "on-failure:3"`, `"restartPolicy":{"enabled":true,"ignoredExitCodes":[0],"restartAttemptPeriod":60,"x-podtask":{"backOff":1,"maxCount":3}}`},
		{`restart: always`, `"restartPolicy":{"enabled":true,"restartAttemptPeriod":60,"x-podtask":{"backOff":1}}`},
		{`memory: 64m`, `"memory":64`},
		{`cpus: 0.5`, `"x-podtask":{"cpuLimit":0.5}`},
		{`user: "1000:1000"`, `"user":"1000:1000"`},
		{`working_dir: /srv`, `"workingDirectory":"/srv"`},
		{`read_only: true`, `"readonlyRootFilesystem":true`},
		{`init: true`, `"linuxParameters":{"initProcessEnabled":true}`},
		{`labels: [a=b]`, `"dockerLabels":{"a":"b"}`},
		{`stop_grace_period: 1m30s`, `"stopTimeout":90`},
		{`stop_signal: SIGQUIT`, `"x-podtask":{"stopSignal":"SIGQUIT"}`},
	} {
		root := tree(t, "name: shop\ncontainers:\n  web:\n    image: i\n    "+one.key+"\n")
		def, problems := Expand("web.yaml", "/app", root)
		if !Is(root) || len(problems) > 0 || !strings.Contains(string(def.JSON()), one.want) {
			t.Errorf("%s: %s\nhas no %s; %v", one.key, def.JSON(), one.want, problems)
			continue
		}
		if _, _, err := taskdef.Parse("web.yaml", def.JSON()); err != nil {
			t.Errorf("%s: %v", one.key, err)
		}
	}
}

// Without a condition, what is waited for follows from the other container.
func TestOrder(t *testing.T) {
	t.Parallel()
	def, problems := Expand("", "", tree(t, `
memory: 1g
cpus: 1.5
timeout: 10m
containers:
  web: {image: i, after: [job, checked, plain]}
  api: {image: i, depends_on: {checked: started, job: completed}}
  job: {image: i, job: true}
  checked: {image: i, healthcheck: x}
  plain: {image: i}
`))
	got := string(def.JSON())
	for _, want := range []string{
		`{"family":"web","memory":1024,"cpu":1536,"x-podtask":{"timeout":600}`,
		`"dependsOn":[{"containerName":"job","condition":"SUCCESS"},{"containerName":"checked","condition":"HEALTHY"},{"containerName":"plain","condition":"START"}]`,
		`"dependsOn":[{"containerName":"checked","condition":"START"},{"containerName":"job","condition":"SUCCESS"}]`, `"name":"job","image":"i","essential":false`,
	} {
		if len(problems) > 0 || !strings.Contains(got, want) {
			t.Errorf("%s\nhas no %s; %v", got, want, problems)
		}
	}
}

// What is wrong has its line, its column and what to write.
func TestProblems(t *testing.T) {
	t.Parallel()
	for _, one := range []struct{ src, want string }{
		{"containers: 3", "f:1:13: containers is an object"},
		{"web: {image: i}", "f:1:6: the containers of a short definition are below containers; write containers:"},
		{"colour: 1\ncontainers: {a: {image: i}}", `f:1:1: there is no key "colour" here; podtask explain short`},
		{"family: a\ncontainers: {a: {image: i}}", `f:1:1: there is no key "family" here; write name`},
		{"containers: {a: {image: i, imagee: j}}", `f:1:28: there is no key "imagee" here; did you mean "image"?`},
		{"containers: {a: {image: i, portMappings: []}}", `f:1:28: there is no key "portMappings" here; write ports`},
		{"containers: {a: {image: i, user: [1]}}", "f:1:34: user is a text, not a list"},
		{"containers: {a: {image: i, memory: 5}}", "f:1:36: memory: 5 is 5 bytes; write a unit"},
		{"containers: {a: {image: i, memory: x}}", "f:1:36: memory: "},
		{"cpus: x\ncontainers: {a: {image: i}}", "f:1:7: cpus is a number"},
		{"timeout: 1.5s\ncontainers: {a: {image: i}}", "f:1:10: timeout is a time in whole seconds"},
		{"containers: {a: {image: i, ports: ['80:x', {}]}}", "f:1:36: ports: "},
		{"containers: {a: {image: i, env: {A: null}}}", `f:1:34: env: "A" has no value`},
		{"containers: {a: {image: i, env: [A]}}", "f:1:34: env is a list of NAME=VALUE"},
		{"containers: {a: {image: i, volumes: ['a', '~/a:/b']}}", "f:1:43: \"~/a\" begins with ~"},
		{"containers: {a: {image: i, command: 'a \"b'}}", "f:1:37: command cannot be split"},
		{"containers: {a: {image: i, restart: never}}", "f:1:37: restart is no, always"},
		{"containers: {a: {image: i, after: {b: {condition: service_healthy}}}}", "f:1:39: it waits until another one is started, healthy, completed, not \"\"; write b: healthy"},
		{"containers: {a: {image: i, healthcheck: {command: x}}}", `f:1:42: there is no key "command" here; write test`},
		{"containers: {a: {image: i, image: j}}", "f:1:28: \"image\" is written twice"},
		{"containers: {a: {image: i, secret: [',x']}}", "f:1:37: secret: "},
		{"containers: {a: {image: i, job: maybe}}", "f:1:33: job is true or false"},
	} {
		_, problems := Expand("f", "/", tree(t, one.src))
		var all []string
		for _, p := range problems {
			all = append(all, p.String())
		}
		if !strings.Contains(strings.Join(all, "\n"), one.want) {
			t.Errorf("%s: %q, not %q", one.src, all, one.want)
		}
	}
}

// What multiplies, or has to be compared with all before it, costs no more than its length.
func TestManyVolumesAndPorts(t *testing.T) {
	t.Parallel()
	list := func(n int, one func(i int) string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(one(i) + ",")
		}
		return b.String()
	}
	const many = 5_000
	volumes := tree(t, "containers: {a: {image: i, volumes: ["+list(many, func(i int) string { return fmt.Sprintf("v%d:/v%d", i, i) })+list(many, func(i int) string {
		return fmt.Sprintf("./%s:/p%d", strings.Repeat("~", i%100)+strings.Repeat("!", i/100), i)
	})+"]}}")
	def, problems := Expand("f", "/d", volumes)
	if n := len(def.Member("volumes").Items); n < 2*many-10 || len(problems) > 0 {
		t.Errorf("%d volumes, %v", n, problems)
	}
	names := map[string]bool{}
	for _, v := range def.Member("volumes").Items {
		names[v.Member("name").Text] = true
	}
	if len(names) != len(def.Member("volumes").Items) {
		t.Errorf("%d names of %d volumes", len(names), len(def.Member("volumes").Items))
	}
	def, problems = Expand("f", "/d", tree(t, "containers: {a: {image: i, ports: ["+list(many, func(i int) string { return `"1000-1099:2000-2099"` })+"]}}"))
	ports := def.Member("containerDefinitions").Items[0].Member("portMappings")
	if n := len(ports.Items); n != maxPorts || len(problems) != 1 || !strings.Contains(problems[0].Message, "more than 10000 ports") {
		t.Errorf("%d ports, %v", n, problems)
	}
}

func TestSchemaFile(t *testing.T) {
	t.Parallel()
	schemafile.Check(t, filepath.Join("..", "..", "..", "docs"), SchemaID, Schema())
}

// Documents of other kinds are none in the short form.
func TestIs(t *testing.T) {
	t.Parallel()
	for _, src := range []string{"family: a\ncontainerDefinitions: []", "apiVersion: v1\ncontainers: {}", "services: {a: {image: i}}", "[1]", "members: {web: {file: a}}", "name: a"} {
		if Is(tree(t, src)) {
			t.Errorf("%s counts as a short definition", src)
		}
	}
}

func FuzzExpand(f *testing.F) {
	f.Add("containers: {a: {image: i, ports: ['80:80'], volumes: ['a:/b'], env: {A: 1}, after: [b]}, b: {image: i, job: true}}")
	f.Add("web: {image: i}")
	f.Add("{name: [], containers: {a: {healthcheck: {test: {}}, restart: 'on-failure:-1', secret: 'a,type=b'}}}")
	f.Fuzz(func(t *testing.T, src string) {
		docs, err := doctree.Documents([]byte(src), doctree.Limits{Size: 1 << 16, Values: 1000, Depth: 20})
		if err != nil || len(docs) != 1 || !Is(docs[0]) {
			return
		}
		def, problems := Expand("f", "/d", docs[0])
		if def == nil && len(problems) == 0 {
			t.Fatal("no definition and no problem")
		}
		for _, p := range problems {
			if p.Line == 0 {
				t.Errorf("%s has no place", p)
			}
		}
		if def == nil {
			return
		}
		if again, err := doctree.JSON(def.JSON(), doctree.Limits{Size: 1 << 22, Values: 100_000, Depth: 40}); err != nil || len(again) != 1 {
			t.Errorf("%s is not JSON: %v", def.JSON(), err)
		}
	})
}
