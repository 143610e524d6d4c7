package compose

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/define/composefile"
	"github.com/podtask/podtask/pkg/taskdef"
)

// asStack converts a Compose file in a directory of its own.
func asStack(t *testing.T, text string, vars map[string]string) (StackResult, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "compose.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return ConvertStack(file, "shop", []byte(text), Options{Load: composefile.Load, Lookup: func(name string) (string, bool) { v, ok := vars[name]; return v, ok }})
}

const stackProject = `
services:
  db:
    image: postgres:17
    hostname: db
    volumes: ["data:/var/lib/postgresql/data"]
    healthcheck: {test: [CMD, pg_isready]}
    restart: always
  migrate:
    image: example.com/app:1
    command: [migrate]
    restart: on-failure
    depends_on: {db: {condition: service_healthy}}
  app:
    image: example.com/app:1
    networks: {default: {aliases: [Backend]}}
    deploy: {replicas: 3}
    ports: ["8080:80", "127.0.0.1:8443:443", "9000"]
    depends_on: {migrate: {condition: service_completed_successfully}, vpn: {condition: service_started}, proxy: {condition: service_started}}
    secrets: [token]
    configs: [{source: conf, target: /etc/app.conf}]
  proxy:
    image: example.com/proxy:1
    network_mode: service:vpn
    volumes: ["./conf:/etc/proxy:ro"]
  vpn:
    image: example.com/vpn:1
    expose: ["1080-1081"]
    links: ["db:database"]
  seed:
    image: example.com/app:1
    restart: "no"
  once:
    image: example.com/app:1
    restart: "no"
    ports: ["1:1"]
volumes: {data: {}, theirs: {external: true}}
secrets: {token: {environment: TOKEN}}
configs: {conf: {content: "a=1"}}
`

func TestComposeStack(t *testing.T) {
	t.Parallel()
	r, err := asStack(t, stackProject, map[string]string{"TOKEN": "hunter2"})
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]StackMember{}
	tasks := map[string]taskdef.Task{}
	for _, m := range r.Members {
		by[m.Name] = m
		if tasks[m.Name], _, err = taskdef.Parse(m.Name, m.Definition); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
		if strings.Contains(string(m.Definition), "hunter2") {
			t.Errorf("the value of a secret is in the definition of %s", m.Name)
		}
	}
	if len(by) != 6 || by["proxy"].Name != "" {
		t.Fatalf("%d members: %+v", len(by), r.Members)
	}
	for name, job := range map[string]bool{"migrate": true, "seed": true, "db": false, "app": false, "once": false, "vpn": false} {
		if by[name].Job != job {
			t.Errorf("%s is a job: %v (%s)", name, by[name].Job, by[name].Why)
		}
	}
	if tasks["db"].Containers[0].Restart != nil || tasks["migrate"].Containers[0].Restart == nil {
		t.Error("containers of services are restarted, or those of jobs are not")
	}
	if !by["db"].StopFirst || by["vpn"].StopFirst || by["app"].StopFirst {
		t.Error("which services stop before they start again")
	}
	want := []StackDependency{{"migrate", "service_completed_successfully", "compose.yaml:19"}, {"vpn", "service_started", "compose.yaml:19"}}
	if got := by["app"].After; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("app waits for %v, not %v", got, want)
	}
	if got := by["app"].Listen; !slices.Equal(got, []string{"8080=app:80", "127.0.0.1:8443=app:443"}) || by["app"].Copies != 3 {
		t.Errorf("app listens on %v with %d copies", got, by["app"].Copies)
	}
	for _, p := range tasks["app"].Containers[0].Ports {
		if p.HostPort != 0 || p.ContainerPort != 9000 && p.HostIP != "127.0.0.1" {
			t.Errorf("a copy of app publishes %+v", p)
		}
	}
	for member, names := range map[string]string{"app": "[{app app [80 443 9000]} {backend app [80 443 9000]}]", "db": "[{db db []} {database db []}]", "vpn": "[{vpn vpn [1080 1081]}]"} {
		if got := fmt.Sprint(by[member].Names); got != names {
			t.Errorf("%s has the names %s, not %s", member, got, names)
		}
	}
	if len(tasks["vpn"].Containers) != 2 || tasks["vpn"].Extensions.Network != taskdef.NetworkShared || len(tasks["vpn"].Containers[0].Net.ExtraHosts) > 0 {
		t.Errorf("the task of vpn and proxy: %s", by["vpn"].Definition)
	}
	if len(r.Volumes) != 1 || r.Volumes[0].Name != "shop_data" || tasks["db"].Identity.Tags[StackTag] != "shop" {
		t.Errorf("volumes %v, tags %v", r.Volumes, tasks["db"].Identity.Tags)
	}
	if len(r.Secrets) != 2 || !strings.HasPrefix(r.Secrets[0].Name, SecretPrefix("shop")) || !strings.Contains(string(by["app"].Definition), "podman:"+r.Secrets[0].Name) {
		t.Errorf("secrets: %d, %s", len(r.Secrets), by["app"].Definition)
	}
}

// TestComposeStackProblems: all problems are reported at once, each with its line.
func TestComposeStackProblems(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text string
		want []string
	}{
		"dependencies": {
			"services:\n  a:\n    image: x\n    depends_on: [b, none]\n  b:\n    image: x\n    depends_on:\n      a: {condition: service_started}\n      other: {condition: service_started, required: false}\n      gone: {condition: service_healthy}\n",
			[]string{"compose.yaml:4: service a depends on undefined service none", "compose.yaml:10: service b depends on undefined service gone", "a → b → a wait for each other"},
		},
		"a name twice": {"services:\n  a: {image: x}\n  b: {image: x}\n  a: {image: y}\n", []string{"compose.yaml:4: service a is there twice: the other one is in line 2"}},
		"builds":       {"services:\n  a: {build: .}\n  b: {build: ./b}\n", []string{"compose.yaml:2: a.build", "compose.yaml:3: b.build"}},
		"nothing":      {"services: {}\n", []string{"no services"}},
		"no project":   {"a: 1\n", []string{"is not a Compose file"}},
	} {
		_, err := asStack(t, tt.text, nil)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is not in %v", name, want, err)
			}
		}
	}
}

// FuzzComposeStack: whatever a file says, each member that comes of it is a valid definition.
func FuzzComposeStack(f *testing.F) {
	f.Add([]byte(stackProject))
	f.Add([]byte("services: {a: {image: x, depends_on: [b]}, b: {image: y, ipc: service:a, volumes_from: [a]}}"))
	f.Fuzz(func(t *testing.T, src []byte) {
		r, err := ConvertStack("/nowhere/compose.yaml", "shop", src, Options{Load: composefile.Load})
		if err != nil {
			return
		}
		for _, m := range r.Members {
			if _, _, err := taskdef.Parse(m.Name, m.Definition); err != nil || !json.Valid(m.Definition) {
				t.Errorf("%s: %v\n%s", m.Name, err, m.Definition)
			}
		}
	})
}

// A service with more ports than a definition may have is an error with its place.
func TestAServiceHasTooManyPorts(t *testing.T) {
	t.Parallel()
	_, err := asStack(t, "services:\n  web:\n    image: x\n    ports:\n    - 1-16000:1-16000\n", nil)
	if err == nil || !strings.Contains(err.Error(), "compose.yaml:4: services.web.ports: these are 16000 ports") {
		t.Errorf("the error is %v", err)
	}
}

// TestHostileStacks: a Compose file that grows or names itself is refused, or costs little; names that are paths and options make no files
// elsewhere. What is left of them, the agent refuses.
func TestHostileStacks(t *testing.T) {
	t.Parallel()
	bomb := "x-a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 'b'; i <= 'j'; i++ {
		bomb += "x-" + string(i) + ": &" + string(i) + " [" + strings.Repeat("*"+string(i-1)+", ", 9) + "*" + string(i-1) + "]\n"
	}
	doubled := "x-m0: &m0 {A: 1}\n"
	for i := 1; i < 28; i++ {
		doubled += fmt.Sprintf("x-m%d: &m%d {<<: [*m%d, *m%d], K%d: 1}\n", i, i, i-1, i-1, i)
	}
	one := func(member string) string { return "services:\n  web:\n    image: localhost/x:1\n    " + member + "\n" }
	for name, text := range map[string]string{
		"aliases that multiply":      bomb + one("labels: *j"),
		"merges that multiply":       bomb + "services: {web: {image: x, environment: {A: b, <<: [*j, *j]}}}\n",
		"an alias of itself":         "x-a: &a {b: *a}\n" + one("labels: *a"),
		"20,000 levels":              one("labels: " + strings.Repeat("{a: ", 20_000) + strings.Repeat("}", 20_000)),
		"it includes itself":         "include: [compose.yaml]\n" + one("command: x"),
		"it extends itself":          one("extends: {service: web}"),
		"it extends a device":        one("extends: {file: /dev/zero, service: web}"),
		"it includes a device":       "include: [/dev/zero]\n" + one("command: x"),
		"variables of a device":      one("env_file: /dev/zero"),
		"copies without end":         one("deploy: {replicas: 1000000000000}"),
		"copies less than none":      one("scale: -5"),
		"all ports":                  one("ports: ['1-20000:1-20000']"),
		"all ports of others":        one("expose: ['1-65535']"),
		"merges that double":         doubled + one("environment: *m27"),
		"a port from nowhere":        one("ports: ['70000:1']"),
		"a service that is a path":   "services: {'../../x': {image: y}}\n",
		"a service that is a flag":   "services: {'--help': {image: y}}\n",
		"a service with an escape":   "services: {\"a\\e[2Jb\": {image: y}}\n",
		"a service of two lines":     "services: {\"a\\nExecStart=x\": {image: y}}\n",
		"a long service":             "services: {" + strings.Repeat("a", 5000) + ": {image: y}}\n",
		"a name that is a path":      one("container_name: ../../../etc/x"),
		"a volume that is a path":    "services: {web: {image: y, volumes: ['v:/x']}}\nvolumes: {v: {name: ../../x}}\n",
		"a volume that is an option": "services: {web: {image: y, volumes: ['v:/x']}}\nvolumes: {v: {name: '--rm'}}\n",
		"another name in a network":  one("networks: {default: {aliases: [localhost, \"a\\n127.0.0.1 bank\", '169.254.170.2', '*.x']}}"),
		"a config that is a path":    "services: {web: {image: y, configs: [{source: '../../c', target: /c}]}}\nconfigs: {'../../c': {content: x}}\n",
		"a secret file":              "services: {web: {image: y, secrets: ['../../s']}}\nsecrets: {'../../s': {environment: '../../S'}}\n",
		"a secret that is a path":    "services: {web: {image: y, secrets: [s]}}\nsecrets: {s: {name: ../x, external: true}}\n",
		"ten thousand services": "services:\n" + func() (all string) {
			var b strings.Builder
			for i := range 10_000 {
				fmt.Fprintf(&b, "  s%d: {image: y, depends_on: [s%d]}\n", i, (i+1)%10_000)
			}
			return b.String()
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := asStack(t, text, nil)
			if err != nil {
				if len(err.Error()) > 100_000 {
					t.Errorf("the error has %d bytes: %.300s", len(err.Error()), err)
				}
				return
			}
			for _, m := range r.Members {
				if len(m.Definition) > 32<<20 || len(m.Names) > 100 {
					t.Errorf("member %.100q with %d names and %d bytes", m.Name, len(m.Names), len(m.Definition))
				}
			}
			for _, f := range slices.Concat(r.Files, r.Secrets) { // they are written
				if !regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,200}$`).MatchString(f.Name) {
					t.Errorf("a file is called %.100q", f.Name)
				}
			}
		})
	}
}

// An import of several services says that they become one task, and why a stack may fit better.
func TestImportSaysWhichForm(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		"services: {a: {image: a}}":                "",
		"services: {a: {image: a}, b: {image: b}}": "the 2 services become one task, with one update, one restart and one failure for all; a stack (podtask stack up compose.yaml) is for services that are updated apart",
		"services: {a: {image: a, depends_on: {m: {condition: service_completed_successfully}}, volumes: [vx:/x]}, b: {image: b, volumes: [vy:/y]}, m: {image: m}}\nvolumes: {vx: {}, vy: {}}": "fits better, because m runs to its end, a and b keep data of their own",
	} {
		r, err := Convert("/x/compose.yaml", "shop", []byte(src), Options{Load: composefile.Load})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(r.Form, want) || want == "" && r.Form != "" {
			t.Errorf("%s: %q", src, r.Form)
		}
	}
}

// A service that prepares something by its name is a job only if it is not started again when it has succeeded, and serves nothing.
func TestServicesThatPrepare(t *testing.T) {
	t.Parallel()
	r, err := asStack(t, `services:
  migrator: {image: x, deploy: {restart_policy: {condition: on-failure}}}
  db-init: {image: x}
  setup: {image: x, ports: ["8080:80"]}
  seed: {image: x, restart: always}
  initiative: {image: x}
`, nil)
	if err != nil {
		t.Fatal(err)
	}
	jobs := map[string]bool{}
	for _, m := range r.Members {
		jobs[m.Name] = m.Job
	}
	if want := map[string]bool{"migrator": true, "db-init": true, "setup": false, "seed": false, "initiative": false}; !maps.Equal(jobs, want) {
		t.Errorf("jobs: %v, not %v", jobs, want)
	}
}

// A name with a dot is that of a host for others, and on this host it has a dash.
func TestStackNamesWithDots(t *testing.T) {
	t.Parallel()
	r, err := asStack(t, `services: {node1.db: {image: x, ports: ["8080:80"]}}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := r.Members[0]
	if m.Name != "node1.db" || m.Object != "shop-node1-db" || !slices.Equal(m.Listen, []string{"8080=node1-db:80"}) || m.Names[0].Name != "node1.db" || m.Names[0].Container != "node1-db" {
		t.Errorf("%+v", m)
	}
}
