//go:build e2e && bed_systemd

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// project writes a Compose project of five services: a database with a volume, a migration, a cache, a web server and a worker. What is
// in vars takes the place of ${NAME}.
func (b *box) project(image string, port int) string {
	b.t.Helper()
	dir := filepath.Join(b.dir, "project")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	text := fmt.Sprintf(`name: %s
services:
  db:
    image: %[2]s
    command: [serve, "5432"]
    expose: ["5432"]
    volumes: ["data:/data"]
    healthcheck: {test: [CMD, /testbox, get, "http://127.0.0.1:5432/"], interval: 5s}
    restart: unless-stopped
  migrate:
    image: %[2]s
    command: [get, "http://db:5432/", --, print, "migrated ${VERSION}"]
    depends_on: {db: {condition: service_healthy}}
  cache:
    image: %[2]s
    command: [serve, "6379"]
    expose: ["6379"]
  web:
    image: %[2]s
    command: [term, "0", --, cannot, exists, "/no/${WEB:-}", --, serve, "8080"]
    environment: {GREETING: "${VERSION}"}
    ports: ["127.0.0.1:%[3]d:8080"]
    depends_on: {migrate: {condition: service_completed_successfully}, cache: {condition: service_started}}
    healthcheck: {test: [CMD, /testbox, get, "http://127.0.0.1:8080${CHECK:-/}"], interval: 5s, retries: 1, start_period: 4s}
  worker:
    image: %[2]s
    command: [await, "http://web:8080/env/GREETING", --, print, "working ${VERSION}", --, sleep, forever]
    depends_on: [web]
volumes: {data: {}}
`, b.family, image, port)
	file := filepath.Join(dir, "compose.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return file
}

// with sets variables of the Compose file.
func (b *box) with(vars ...string) *box {
	return &box{t: b.t, dir: b.dir, family: b.family, env: append(slices.Clone(b.env), vars...)}
}

// stackRow is a member in `podtask stack ps --format json`.
type stackRow struct {
	Name, Kind, Object, Status string
	Desired, Healthy           int
}

func (b *box) members(name string) map[string]stackRow {
	b.t.Helper()
	var rows []stackRow
	if err := json.Unmarshal([]byte(b.want(0, "stack", "ps", "--format=json", name).out), &rows); err != nil {
		b.t.Fatal(err)
	}
	all := map[string]stackRow{}
	for _, r := range rows {
		all[r.Name] = r
	}
	return all
}

// copies are the IDs of the copies of each service of a stack that are not stopped.
func (b *box) copiesOf(name string, services ...string) map[string]string {
	b.t.Helper()
	all := map[string]string{}
	for _, s := range services {
		all[s] = strings.TrimSpace(b.want(0, "service", "ps", "--quiet", name+"-"+s).out)
	}
	return all
}

// removeStack removes a stack and checks that nothing of it is left.
func (b *box) removeStack(name string) {
	b.t.Helper()
	b.want(0, "stack", "rm", "--volumes", name)
	if out := b.want(0, "stack", "ls", "--quiet").out + b.want(0, "service", "ls", "--quiet").out + b.want(0, "ps", "--all", "--quiet").out; out != "" {
		b.t.Errorf("left: %s", out)
	}
	if out := b.podman("volume", "ls", "--quiet", "--filter", "name="+name); strings.TrimSpace(out) != "" {
		b.t.Errorf("volumes are left: %s", out)
	}
	if left, _ := filepath.Glob(filepath.Join(b.stateHome(), "podtask", "stacks", "files", "*")); len(left) > 0 {
		b.t.Errorf("left: %v", left)
	}
}

// A Compose project comes up in its order, is updated where it differs only, and is put back as a whole if a service of it fails.
func TestStack(t *testing.T) {
	b := newBox(t)
	agent := b.agent()
	file := b.project(b.testbox(), 18181)
	one, two := b.with("VERSION=one"), b.with("VERSION=two")
	answer := func() string {
		text, err := get("http://127.0.0.1:18181/env/GREETING")
		if err != nil {
			t.Error(err)
		}
		return strings.TrimSpace(text)
	}
	r := one.want(0, "stack", "up", file)
	for _, want := range []string{"+ db", "> migrate", "+ worker", "(after cache started, migrate completed)", "stops before its next copy starts", "runs to its end"} {
		if !strings.Contains(r.err, want) {
			t.Errorf("the plan does not have %q:\n%s", want, r.err)
		}
	}
	if got := answer(); got != "one" {
		t.Errorf("the address answers %q", got)
	}
	members := b.members(b.family)
	if len(members) != 5 || members["db"].Healthy != 1 || members["migrate"].Kind != "job" || members["migrate"].Status != "exited (0)" {
		t.Errorf("ps: %+v", members)
	}
	first := b.copiesOf(b.family, "db", "cache", "web", "worker")
	if r := one.want(0, "stack", "up", file); !strings.Contains(r.out, "up to date") {
		t.Errorf("a second up: %s%s", r.out, r.err)
	}

	two.want(0, "stack", "up", file)
	second := b.copiesOf(b.family, "db", "cache", "web", "worker")
	if got := answer(); got != "two" || second["db"] != first["db"] || second["cache"] != first["cache"] || second["web"] == first["web"] {
		t.Errorf("after the update: %q; before %v, now %v", got, first, second)
	}
	if out := b.want(0, "stack", "logs", b.family, "migrate").out; !strings.Contains(out, "migrated two") {
		t.Errorf("the job has not run again: %s", out)
	}

	broken := b.with("VERSION=three", "CHECK=/exists/nothing")
	r = broken.want(125, "stack", "up", file)
	if !strings.Contains(r.err, "web failed") || !strings.Contains(r.err, "The change was put back") {
		t.Errorf("a broken service: %s", r.err)
	}
	third := b.copiesOf(b.family, "db", "cache", "web", "worker")
	if got := answer(); got != "two" || third["db"] != first["db"] || third["web"] != second["web"] {
		t.Errorf("after the change was put back: %q; before %v, now %v", got, second, third)
	}
	b.want(0, "stack", "rollback", b.family)
	if got := answer(); got != "one" {
		t.Errorf("after the rollback: %q", got)
	}
	if out := b.want(0, "stack", "history", b.family).out; !strings.Contains(out, "put back") || strings.Count(out, "done") != 3 {
		t.Errorf("history:\n%s", out)
	}
	b.removeStack(b.family)
	agent.end()
}

// Whatever step `stack up` is killed at, the next one continues the change, and a rollback puts it back.
func TestStackIsKilled(t *testing.T) {
	b := newBox(t)
	agent := b.agent()
	file := b.project(b.testbox(), 18182)
	one, two := b.with("VERSION=one"), b.with("VERSION=two")
	answers := func(want string) {
		t.Helper()
		got, err := get("http://127.0.0.1:18182/env/GREETING")
		if err != nil || strings.TrimSpace(got) != want {
			t.Errorf("the address answers %q, not %q (%v)", got, want, err)
		}
	}
	for n := 1; ; n += 5 {
		killed := one.with(fmt.Sprintf("PODTASK_FAILPOINT=stack-step:%d", n))
		if r := killed.podtask("stack", "up", file); r.code == 0 {
			break
		} else if r.code != -1 {
			t.Fatalf("step %d: code %d, %s", n, r.code, r.err)
		}
	}
	answers("one")
	for _, n := range []int{1, 4, 7, 10} {
		two.with(fmt.Sprintf("PODTASK_FAILPOINT=stack-step:%d", n)).want(-1, "stack", "up", file)
		if r := b.want(0, "stack", "why", b.family); !strings.Contains(r.out, "has not ended") {
			t.Errorf("step %d: %s", n, r.out)
		}
		b.with(fmt.Sprintf("PODTASK_FAILPOINT=stack-step:%d", 3)).podtask("stack", "rollback", b.family)
		if strings.Contains(b.want(0, "stack", "why", b.family).out, "has not ended") {
			b.want(0, "stack", "rollback", b.family)
		}
		answers("one")
	}
	two.want(0, "stack", "up", file)
	answers("two")
	for n := 1; n < 8; n += 3 {
		b.with(fmt.Sprintf("PODTASK_FAILPOINT=stack-step:%d", n)).want(-1, "stack", "rm", "--volumes", b.family)
	}
	b.removeStack(b.family)
	agent.end()
}

// The first change of a stack that fails leaves nothing.
func TestStackThatNeverWorked(t *testing.T) {
	b := newBox(t)
	agent := b.agent()
	file := b.project(b.testbox(), 18183)
	r := b.with("VERSION=one", "CHECK=/exists/nothing").want(125, "stack", "up", file)
	if !strings.Contains(r.err, "nothing of it is left but its volumes") {
		t.Errorf("it says %s", r.err)
	}
	if out := b.want(0, "service", "ls", "--quiet").out + b.want(0, "ps", "--all", "--quiet").out + b.want(0, "stack", "ls", "--quiet").out; out != "" {
		t.Errorf("left: %s", out)
	}
	b.want(0, "stack", "rm", "--volumes", b.family)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	bad := strings.Replace(string(text), "depends_on: {db: {condition: service_healthy}}", "depends_on: [worker, nobody]", 1)
	if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
		t.Fatal(err)
	}
	r = b.with("VERSION=one").want(125, "stack", "up", file)
	for _, want := range []string{"compose.yaml:13: service migrate depends on undefined service nobody", "migrate → worker → web → migrate"} {
		if !strings.Contains(r.err, want) {
			t.Errorf("%q is not in %s", want, r.err)
		}
	}
	agent.end()
}

// stackFile writes a file of a stack.
func (b *box) stackFile(name, text string) string {
	b.t.Helper()
	path := filepath.Join(b.dir, "files", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// A directory of manifests is a stack: names and addresses by Services, volumes by claims, values by Secrets, an order by annotations.
func TestStackOfManifests(t *testing.T) {
	b := newBox(t)
	agent := b.agent()
	b.stackFile("k8s/db.yaml", fmt.Sprintf(`apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers:
      - {name: db, image: %s, args: [serve, "5432"], ports: [{containerPort: 5432, name: sql}], volumeMounts: [{name: data, mountPath: /data}]}
  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]
---
apiVersion: v1
kind: Service
metadata: {name: database}
spec: {selector: {app: db}, ports: [{port: 15432, targetPort: sql}]}
---
apiVersion: v1
kind: Secret
metadata: {name: words}
stringData: {greeting: hello-from-a-secret}
`, b.testbox()))
	web := fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: web, annotations: {podtask/after: "migrate"}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: %[1]s
        args: [serve, "8080"]
        env: [{name: GREETING, valueFrom: {secretKeyRef: {name: words, key: greeting}}}, {name: VERSION, value: "one"}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: NodePort, selector: {app: web}, ports: [{port: 80, targetPort: 8080, nodePort: 30080}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: migrate, annotations: {podtask/after: "db=healthy"}}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: m, image: %[1]s, args: [get, "http://database:15432/", --, print, migrated]}]}}}
`, b.testbox())
	b.stackFile("k8s/web.yaml", web)
	dir := filepath.Join(b.dir, "files", "k8s")
	r := b.want(0, "stack", "up", "--name", b.family, dir)
	if !strings.Contains(r.err, "(after migrate completed)") || strings.Contains(r.err, "db.yaml:6") {
		t.Errorf("the plan:\n%s", r.err)
	}
	for _, volume := range []string{"_data", "_data-db-1"} {
		b.podman("volume", "exists", b.family+volume)
	}
	answer := func(path, want string) {
		t.Helper()
		if got, err := get("http://127.0.0.1:30080/env/" + path); err != nil || strings.TrimSpace(got) != want {
			t.Errorf("%s: %q, not %q: %v", path, got, want, err)
		}
	}
	answer("GREETING", "hello-from-a-secret")
	first := b.copiesOf(b.family, "db", "web")
	if r := b.want(0, "stack", "up", "--name", b.family, dir); !strings.Contains(r.out, "up to date") {
		t.Errorf("a second up: %s%s", r.out, r.err)
	}
	b.stackFile("k8s/web.yaml", strings.Replace(web, `value: "one"`, `value: "two"`, 1))
	b.want(0, "stack", "up", "--name", b.family, dir)
	answer("VERSION", "two")
	if second := b.copiesOf(b.family, "db", "web"); second["db"] != first["db"] || second["web"] == first["web"] {
		t.Errorf("before %v, now %v", first, second)
	}
	b.want(0, "stack", "rollback", b.family)
	answer("VERSION", "one")
	b.removeStack(b.family)
	agent.end()
}

// podtask's own file makes a stack of several definitions, and all that is wrong with it is said at once.
func TestStackOfDefinitions(t *testing.T) {
	b := newBox(t)
	agent := b.agent()
	b.stackFile("own/db.json", fmt.Sprintf(`{"family": "db", "containerDefinitions": [{"name": "db", "image": %q, "command": ["serve", "5432"], "portMappings": [{"containerPort": 5432}]}]}`, b.testbox()))
	b.stackFile("own/app.json", fmt.Sprintf(`{"family": "app", "containerDefinitions": [{"name": "app", "image": %q, "command": ["await", "http://db:5432/", "--", "serve", "8080"], "portMappings": [{"containerPort": 8080}]}]}`, b.testbox()))
	b.stackFile("own/job.json", fmt.Sprintf(`{"family": "job", "containerDefinitions": [{"name": "job", "image": %q, "command": ["get", "http://db:5432/", "--", "print", "migrated"]}]}`, b.testbox()))
	own := b.stackFile("own/stack.yaml", fmt.Sprintf(`name: %s
members:
  db: {file: db.json}
  migrate: {file: job.json, job: true, after: [db]}
  app: {file: app.json, count: 2, listen: 127.0.0.1:18186=app:8080, env: [COLOR=blue], after: {migrate: completed}}
`, b.family))
	b.want(0, "stack", "plan", "--lock", own)
	b.want(0, "stack", "up", "--locked", own)
	if out := b.want(0, "ps", "--format=wide", "--sort=stack").out; !strings.Contains(out, b.family) {
		t.Errorf("ps: %s", out)
	}
	if got, err := get("http://127.0.0.1:18186/env/COLOR"); err != nil || strings.TrimSpace(got) != "blue" {
		t.Errorf("%q: %v", got, err)
	}
	if members := b.members(b.family); members["app"].Healthy != 2 || members["migrate"].Kind != "job" {
		t.Errorf("%+v", members)
	}
	b.stackFile("own/db.json", fmt.Sprintf(`{"family": "db", "containerDefinitions": [{"name": "db", "image": %q, "command": ["serve", "5432"]}]}`, b.testbox()))
	if r := b.want(125, "stack", "up", "--locked", own); !strings.Contains(r.err, "is not the lock of") {
		t.Errorf("a stack that has changed since its lock: %s", r.err)
	}
	b.removeStack(b.family)
	b.stackFile("own/stack.yaml", "members:\n  db: {file: db.json, after: {app: healthy}}\n  app: {file: app.json, after: {db: healthy, nobody: started}}\n")
	r := b.want(125, "stack", "up", own)
	for _, want := range []string{"stack.yaml:3: app waits for nobody, which is not in the stack", "stack.yaml:2: db → app → db wait for each other in a circle"} {
		if !strings.Contains(r.err, want) {
			t.Errorf("%q is not in %s", want, r.err)
		}
	}
	agent.end()
}

// A stack is stopped and started in its order, also by its systemd service.
func TestStackIsStartedAtBoot(t *testing.T) {
	b := newBox(t)
	agent := b.agent()
	one := b.with("VERSION=one")
	one.want(0, "stack", "up", b.project(b.testbox(), 18187))
	r := b.want(0, "stack", "stop", b.family)
	if w, d := strings.Index(r.err, "worker is stopped"), strings.Index(r.err, "db is stopped"); w < 0 || d < w {
		t.Errorf("it is stopped in the wrong order: %s", r.err)
	}
	if copies := b.copiesOf(b.family, "db", "web"); copies["db"] != "" || copies["web"] != "" {
		t.Errorf("copies run: %v", copies)
	}
	b.want(0, "stack", "install", b.family)
	unit := "podtask-stack-" + b.family + ".service"
	b.ownUnits("podtask-stack-"+b.family, stackExposure)
	if out, err := exec.Command("systemctl", "--user", "is-active", unit).CombinedOutput(); err != nil {
		t.Errorf("%s: %v", out, err)
	}
	if members := b.members(b.family); members["web"].Healthy != 1 || members["worker"].Healthy != 1 {
		t.Errorf("%+v", members)
	}
	if out, err := exec.Command("systemctl", "--user", "stop", unit).CombinedOutput(); err != nil {
		t.Errorf("%s: %v", out, err)
	}
	if copies := b.copiesOf(b.family, "db", "web"); copies["db"] != "" || copies["web"] != "" {
		t.Errorf("copies run: %v", copies)
	}
	r = b.want(0, "stack", "start", b.family)
	if w, d := strings.Index(r.err, "worker starts"), strings.Index(r.err, "db starts"); d < 0 || w < d {
		t.Errorf("it is started in the wrong order: %s", r.err)
	}
	b.removeStack(b.family)
	if out, err := exec.Command("systemctl", "--user", "cat", unit).CombinedOutput(); err == nil {
		t.Errorf("the service is left: %s", out)
	}
	agent.end()
}

// A preview of which nothing ever runs is listed, its volume is made again for each attempt to fill it, and it goes at its end with that.
func TestPreviewThatFails(t *testing.T) {
	b := newBox(t)
	b.agent()
	file := b.project(b.testbox(), 18189)
	name := b.family + "-pr-1"
	volumes := func() string { return strings.TrimSpace(b.podman("volume", "ls", "--quiet", "--filter", "name="+name)) }
	marks := filepath.Join(b.dir, "marks")
	once := "d=$(podman volume inspect --format '{{.Mountpoint}}' $PODTASK_VOLUME); cat $d/half >> " + marks + "; echo half | tee -a $d/half " + marks + "; exit 3"
	up := []string{"stack", "up", "--preview", "pr-1", "--fill", "data=" + once, file}
	r := b.with("VERSION=one").want(125, append(up, "--ttl", "1h")...)
	if !strings.Contains(r.err, "nothing was changed: fill the volume "+name+"_data: exit status 3") {
		t.Errorf("it printed %s", r.err)
	}
	if got := volumes(); got != name+"_data" || !strings.Contains(b.want(0, "stack", "ls", "--quiet").out, name) {
		t.Errorf("volumes: %s", got)
	}
	b.with("VERSION=one").want(125, append(up, "--ttl", "1s")...)
	if text, err := os.ReadFile(marks); err != nil || string(text) != "half\nhalf\n" {
		t.Errorf("the second command found what the first one left: %q, %v", text, err)
	}
	eventually(t, "the volume is gone", func() bool {
		return volumes() == "" && !strings.Contains(b.want(0, "stack", "ls", "--quiet").out, name)
	})
}

// A preview has addresses and volumes of its own beside its stack, is filled once, and is removed by the agent at its end.
func TestPreview(t *testing.T) {
	b := newBox(t)
	agent := b.agent()
	file := b.project(b.testbox(), 18188)
	one := b.with("VERSION=one")
	one.want(0, "stack", "up", file)
	mark := filepath.Join(b.dir, "filled")
	up := []string{"stack", "up", "--preview", "pr-42", "--fill", "data=echo $PODTASK_VOLUME >> " + mark, file}
	r := b.with("VERSION=two").want(0, append(up, "--ttl", "1h")...)
	_, after, found := strings.Cut(r.err, "its address 127.0.0.1:18188 is ")
	address, _, _ := strings.Cut(after, "\n")
	if !found {
		t.Fatalf("no address: %s", r.err)
	}
	for at, want := range map[string]string{"127.0.0.1:18188": "one", address: "two"} {
		if got, err := get("http://" + at + "/env/GREETING"); err != nil || strings.TrimSpace(got) != want {
			t.Errorf("%s answers %q, not %q: %v", at, got, want, err)
		}
	}
	name := b.family + "-pr-42"
	if out := b.podman("volume", "ls", "--quiet", "--filter", "name="+name); !strings.Contains(out, name+"_data") {
		t.Errorf("volumes: %s", out)
	}
	if r := b.with("VERSION=two", "PODTASK_STACK_PREVIEWS=1").want(125, "stack", "up", "--preview", "pr-43", file); !strings.Contains(r.err, "stack-previews allows 1") {
		t.Errorf("one too many: %s", r.err)
	}
	b.with("VERSION=two").want(0, append(up, "--ttl", "1s")...)
	if text, err := os.ReadFile(mark); err != nil || string(text) != name+"_data\n" {
		t.Errorf("filled: %q, %v", text, err)
	}
	eventually(t, "the preview is gone", func() bool { return !strings.Contains(b.want(0, "stack", "ls", "--quiet").out, name) })
	if out := b.podman("volume", "ls", "--quiet", "--filter", "name="+name); strings.TrimSpace(out) != "" {
		t.Errorf("volumes are left: %s", out)
	}
	if got, err := get("http://127.0.0.1:18188/env/GREETING"); err != nil || strings.TrimSpace(got) != "one" {
		t.Errorf("the stack itself answers %q: %v", got, err)
	}
	b.removeStack(b.family)
	agent.end()
}
