//go:build e2e && bed_systemd

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// What `podtask generate --from` makes is run here, as services, and has to do what
// its source does: ports, volumes, variables and the order of starts.

// conversion is a source and what becomes of it.
type conversion struct {
	name  string
	from  string // the file that is converted, or "" for the task of this name
	files map[string]string
	task  def               // where from is empty
	flags []string          // of the run of task
	lost  []string          // what each line about a loss says
	check func(task string) // besides the port, if it has one
}

// source writes the files of a conversion into a directory of their own. IMAGE, PORT
// and FAMILY stand for what the test has.
func (u *units) source(c conversion, port int) (dir string) {
	u.t.Helper()
	dir = filepath.Join(u.dir, "..", u.family+"-"+c.name)
	u.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	fill := strings.NewReplacer("IMAGE", u.testbox(), "PORT", strconv.Itoa(port), "FAMILY", u.family)
	for name, text := range c.files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			u.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(fill.Replace(text)), 0o644); err != nil {
			u.t.Fatal(err)
		}
	}
	return dir
}

// convert converts a source to a unit of the manager, with the test's environment.
func (u *units) convert(c conversion, dir string) (service string) {
	u.t.Helper()
	from, name := u.name(c.name), u.name(c.name+"-new")
	if c.from != "" {
		from = filepath.Join(dir, c.from)
	}
	r := u.want(0, "generate", "--from", from, "--name", name, "--output", u.dir)
	if got := strings.Count(r.err, "Lost: "); got != len(c.lost) {
		u.t.Errorf("%s: %d losses are told, want %d\n%s", c.name, got, len(c.lost), r.err)
	}
	for _, l := range c.lost {
		if !strings.Contains(r.err, l) {
			u.t.Errorf("%s: the loss of %s is not told:\n%s", c.name, l, r.err)
		}
	}
	dropIn := filepath.Join(u.dir, name+".task.d")
	if err := os.MkdirAll(dropIn, 0o700); err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(func() { _ = os.RemoveAll(dropIn) })
	text := "[Service]\nEnvironment=XDG_STATE_HOME=" + u.stateHome() + " REGISTRY_AUTH_FILE=" + bed.auth + " NO_COLOR=1\n"
	if err := os.WriteFile(filepath.Join(dropIn, "test.conf"), []byte(text), 0o600); err != nil {
		u.t.Fatal(err)
	}
	u.files = append(u.files, filepath.Join(u.dir, name+".task"), filepath.Join(u.dir, name+".json"))
	if strings.Contains(c.files["compose.yaml"], "configs:") {
		u.files = append(u.files, filepath.Join(u.dir, name+".greeting"))
	}
	service = name + "-task.service"
	u.made = append(u.made, service)
	return service
}

// converted converts sources, starts what came of them and checks it.
func (u *units) converted(list []conversion) {
	u.t.Helper()
	var services, tasks []string
	var ports []int
	for _, c := range list {
		port := freePort(u.t)
		dir := u.source(c, port)
		if c.from == "" {
			for i := range c.task.Containers {
				for j := range c.task.Containers[i].Ports {
					c.task.Containers[i].Ports[j].Host = port
				}
			}
			u.want(0, append([]string{"run", "-d", "--wait=running", "--name", u.name(c.name), u.write(c.task)}, c.flags...)...)
		}
		services = append(services, u.convert(c, dir))
		if c.from == "" {
			u.want(0, "rm", "--force", u.name(c.name)) // for its ports
		}
		tasks, ports = append(tasks, u.name(c.name+"-new")), append(ports, port)
	}
	u.systemctl("daemon-reload")
	u.systemctl(append([]string{"start"}, services...)...)
	for i, c := range list {
		if len(u.inspect(tasks[i]).Ports) > 0 {
			eventually(u.t, "an answer of "+tasks[i], func() bool {
				answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/", ports[i]))
				return err == nil && answer.Body.Close() == nil
			})
			u.askWeb(ports[i])
		}
		c.check(tasks[i])
	}
	u.systemctl(append([]string{"stop"}, services...)...)
	for _, name := range strings.Fields(u.podman("volume", "ls", "--format", "{{.Name}}")) {
		if strings.Contains(name, u.family) {
			u.podman("volume", "rm", name)
		}
	}
}

func TestComposeFilesAreConvertedAndRun(t *testing.T) {
	u := newUnits(t)
	u.converted([]conversion{{
		name: "web", from: "compose.yaml",
		files: map[string]string{"compose.yaml": `
services:
  store:
    image: IMAGE
    command: ["term", "0", "--", "serve", "8080"]
    healthcheck: {test: ["CMD", "/testbox", "get", "http://127.0.0.1:8080/"], interval: 5s}
    volumes: ["data:/data"]
  shop:
    image: IMAGE
    command: term 0 -- await http://store:8080/ -- write /data/hello yes -- serve 8081
    environment: {GREETING: hello from FAMILY}
    ports: ["127.0.0.1:PORT:8081"]
    depends_on: {store: {condition: service_healthy}}
    volumes: ["data:/data", "kept:/kept"]
volumes: {data: {}, kept: {name: FAMILY-kept}}
`},
		check: func(task string) {
			inOrder(t, u.events(), "store HEALTHY", "shop RUNNING")
			if got := u.podman("exec", u.inspect(task).Containers[0].RuntimeID, "/testbox", "cat", "/data/hello"); got != "yes" {
				t.Errorf("the volume is not shared: %q", got)
			}
			for _, volume := range []string{u.family + "-web_data", u.family + "-kept"} {
				if !u.hasVolume(volume) {
					t.Errorf("there is no volume %s, as Compose calls it", volume)
				}
			}
		},
	}, {
		name: "job", from: "docker-compose.yml",
		files: map[string]string{"conf/file": "from the host", "level.env": "LEVEL=debug\n", "docker-compose.yml": `
x-common: &common
  image: IMAGE
services:
  migrate:
    <<: *common
    command: [cat, /etc/conf/file]
    volumes: ["./conf:/etc/conf:ro"]
  worker:
    <<: *common
    build: .
    command: ["term", "0", "--", "env", "MODE", "--", "env", "LEVEL", "--", "sleep", "forever"]
    environment: ["MODE=fast", "UNSET"]
    env_file: level.env
    depends_on: {migrate: {condition: service_completed_successfully}}
    deploy: {replicas: 2}
`},
		lost: []string{"worker.build", "variable UNSET", "worker has 2 replicas"},
		check: func(task string) {
			inOrder(t, u.events(), "migrate STOPPED", "worker RUNNING")
			u.prints(task, "migrate", "from the host")
			u.prints(task, "worker", "MODE=fast", "LEVEL=debug")
		},
	}, {
		name: "long", from: "compose.yaml",
		files: map[string]string{"conf/file": "from the host", "compose.yaml": `
services:
  front:
    image: IMAGE
    entrypoint: ["/testbox", "term", "5"]
    command: ["--", "cat", "/etc/conf/file", "--", "cannot", "write", "/etc/conf/x", "no", "--", "cannot", "write", "/x", "no", "--", "write", "/keep/x", "yes", "--", "serve", "8070"]
    environment: {GREETING: hello from FAMILY}
    read_only: true
    hostname: front
    ports: [{target: 8070, published: PORT, host_ip: 127.0.0.1, protocol: tcp}]
    volumes:
      - {type: volume, source: FAMILY-long, target: /keep}
      - {type: bind, source: ./conf, target: /etc/conf, read_only: true}
    depends_on: [side]
    stop_grace_period: 3s
  side:
    image: IMAGE
    user: "1000"
    command: term 0 -- where -- cat /etc/greeting -- sleep forever
    restart: on-failure
    configs: [{source: greeting, target: /etc/greeting}]
configs: {greeting: {content: "hello from a config"}}
networks: {default: {}}
volumes: {FAMILY-long: {}}
`},
		lost: []string{"networks"},
		check: func(task string) {
			inOrder(t, u.events(), "side RUNNING", "front RUNNING")
			u.prints(task, "front", "from the host", "cannot write", "cannot write")
			eventually(t, "user 1000, which reads the config", func() bool {
				lines := u.lines(task, "side")
				return strings.Contains(lines, "uid=1000") && strings.Contains(lines, "hello from a config")
			})
		},
	}})
}

func TestQuadletFilesAreConvertedAndRun(t *testing.T) {
	u := newUnits(t)
	u.converted([]conversion{{
		name: "web", from: "web.pod",
		files: map[string]string{
			"web.pod":         "[Unit]\nDescription=The web\n[Pod]\nPublishPort=127.0.0.1:PORT:8081\nVolume=FAMILY-q.volume:/data\n",
			"store.container": "[Container]\nImage=IMAGE\nPod=web.pod\nExec=term 0 -- serve 8080\nHealthCmd=[\"/testbox\", \"get\", \"http://127.0.0.1:8080/\"]\nHealthInterval=5s\nNotify=healthy\n",
			"shop.container":  "[Unit]\nRequires=store.container\nAfter=store.container\n[Container]\nImage=IMAGE\nPod=web.pod\nEnvironment=\"GREETING=hello from FAMILY\"\nExec=term 0 -- await http://127.0.0.1:8080/ -- write /data/hello yes -- serve 8081\n",
			"other.container": "[Container]\nImage=nobody.example/other\nPod=other.pod\n",
		},
		check: func(task string) {
			inOrder(t, u.events(), "store HEALTHY", "shop RUNNING")
			for _, c := range u.inspect(task).Containers {
				if got := u.podman("exec", c.RuntimeID, "/testbox", "cat", "/data/hello"); got != "yes" {
					t.Errorf("the volume is not in %s: %q", c.Name, got)
				}
			}
			if !u.hasVolume("systemd-" + u.family + "-q") {
				t.Error("the volume does not have the name that Quadlet gives it")
			}
			if got := u.show(task+"-task.service", "Description"); got != "The web" {
				t.Errorf("the service is called %s", got)
			}
		},
	}, {
		name: "alone", from: "alone.container",
		files: map[string]string{
			"conf/file": "from the host", "level.env": "LEVEL=debug\n",
			"alone.container": "[Container]\nImage=IMAGE\nContainerName=app\nExec=term 0 -- cat /etc/conf/file -- cannot write /etc/conf/x no -- env LEVEL -- env UNIT -- serve 8090\nEnvironmentFile=./level.env\nEnvironment=\"GREETING=hello from FAMILY\" \"UNIT=%N $${X} 5%%\"\nUserNS=keep-id\nVolume=./conf:/etc/conf:ro\nPublishPort=PORT:8090\nAddDevice=/dev/null\nStopTimeout=3\n[Service]\nRestart=always\n",
		},
		lost: []string{"UserNS="},
		check: func(task string) {
			u.prints(task, "app", "from the host", "cannot write", "LEVEL=debug", "UNIT=alone ${X} 5%")
			if got := u.show(task+"-task.service", "Restart"); got != "always" {
				t.Errorf("Restart=%s", got)
			}
		},
	}, {
		name: "three", from: "three.pod",
		files: map[string]string{
			"three.pod":   "[Pod]\nShmSize=1m\n",
			"a.container": "[Container]\nImage=IMAGE\nPod=three.pod\nUser=1000\nExec=term 0 -- where -- sleep forever\n",
			"b.container": "[Unit]\nWants=a.service\nAfter=a.service\n[Container]\nImage=IMAGE\nPod=three.pod\nEnvironment=A=1 \"B=two words\"\nExec=term 0 -- env A -- env B -- sleep forever\n",
			"c.container": "[Unit]\nBindsTo=b.container\nAfter=b.container\n[Container]\nImage=IMAGE\nPod=three.pod\nReadOnly=true\nEntrypoint=[\"/testbox\",\"term\",\"0\"]\nExec=-- cannot write /x no -- sleep forever\n",
		},
		lost: []string{"[Pod] ShmSize=", "ReadOnly="},
		check: func(task string) {
			inOrder(t, u.events(), "a RUNNING", "b RUNNING", "c RUNNING")
			u.prints(task, "b", "A=1", "B=two words")
			u.prints(task, "c", "cannot write")
			eventually(t, "user 1000", func() bool { return strings.Contains(u.lines(task, "a"), "uid=1000") })
		},
	}})
}

func TestRunningTasksAreConvertedAndRun(t *testing.T) {
	u := newUnits(t)
	file, level := u.secretFile("file", "from the host"), u.secretFile("level.env", "LEVEL=debug\n")
	all := []conversion{{
		name: "web",
		task: def{Containers: []ctr{
			{Name: "store", Command: words("term 0 -- serve 8080"), Health: healthyIf("get http://127.0.0.1:8080/"), StopTimeout: 3},
			{Name: "shop", Command: words("term 0 -- serve 8081"), DependsOn: []on{{"store", "HEALTHY"}}, Ports: []port{{Container: 8081}}},
		}},
		flags: []string{"--env", "GREETING=hello from " + u.family},
		check: func(string) {
			inOrder(t, u.events(), "store HEALTHY", "shop RUNNING", "shop STOPPED", "store HEALTHY", "shop RUNNING")
		},
	}, {
		name: "volumes",
		task: def{Containers: []ctr{{
			Name: "writer", Essential: optional, Command: words("cat /file -- write /scratch/f hello"),
			More: obj{"mountPoints": []obj{{"sourceVolume": "file", "containerPath": "/file", "readOnly": true}, mountAt("scratch", "/scratch")}},
		}, {
			Name: "reader", DependsOn: []on{{"writer", "SUCCESS"}}, Command: words("term 0 -- cat /scratch/f -- cannot write /scratch/g no -- sleep forever"),
			More: obj{"volumesFrom": []obj{{"sourceContainer": "writer", "readOnly": true}}},
		}}, More: obj{"volumes": []obj{{"name": "scratch"}, {"name": "file", "host": obj{"sourcePath": file}}}}},
		check: func(task string) {
			u.prints(task, "writer", "from the host")
			u.prints(task, "reader", "hello", "cannot write")
		},
	}, {
		name: "secrets",
		task: def{Containers: []ctr{{
			Name: "app", Command: words("term 0 -- env LEVEL -- env TOKEN -- sleep forever"), Restart: restarts(3, 7),
			More: obj{"secrets": []obj{{"name": "TOKEN", "valueFrom": "file:" + file}}, "environmentFiles": []obj{{"type": "s3", "value": level}},
				"ulimits": []obj{{"name": "nofile", "softLimit": 100, "hardLimit": 200}}},
		}}},
		lost: []string{"app: linux"},
		check: func(task string) {
			u.prints(task, "app", "LEVEL=debug", "TOKEN=from the host")
		},
	}}
	u.converted(all)
}
