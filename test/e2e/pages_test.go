//go:build e2e && bed_systemd

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/creack/pty"
)

// page is a page of the documentation with commands.
type page struct {
	// given prepares what the page says that its reader has.
	given func(u *tutorial)
	// special are the lines that do not simply end with success.
	special func(u *tutorial) map[string]func(line string)
	// shell has all lines typed, not only those that are for podtask.
	shell bool
	// alone: no other page is typed meanwhile.
	alone bool
}

// pages are all pages with commands but the tutorial, and those whose commands other tests run.
var pages = map[string]page{
	"../README.md": {
		given: func(u *tutorial) { u.env = append(u.env, "PODTASK_BUDGET_CPU=1") },
		special: func(u *tutorial) map[string]func(string) {
			sees := u.sees("../README.md")
			image := func(name string) string {
				ref, _ := u.push(name, u.program)
				return ref
			}
			return map[string]func(string){
				"podtask init": func(line string) { u.typed(line).want(0); u.written("web.yaml") },
				"podtask run -d --wait=healthy --name shop task.json": func(line string) {
					u.box.file("task.json", fmt.Sprintf(`{"family": "shop", "cpu": "1024", "containerDefinitions": [
						{"name": "migrate", "image": %q, "command": ["/testbox", "print", "done"], "essential": false},
						{"name": "server", "image": %q, "command": ["/testbox", "serve", "8080"], "portMappings": [{"containerPort": 8080}], "dependsOn": [{"containerName": "migrate", "condition": "SUCCESS"}],
							"healthCheck": {"command": ["CMD", "/testbox", "get", "http://localhost:8080/"], "interval": 5}},
						{"name": "client", "image": %q, "command": ["/testbox", "sleep", "forever"], "stopTimeout": 2, "dependsOn": [{"containerName": "server", "condition": "HEALTHY"}]}]}`,
						image("migrate:1"), image("server:1"), image("client:1")))
					sees(line)
					u.box.file("batch.json", fmt.Sprintf(`{"family": "batch", "cpu": "1024", "containerDefinitions": [{"name": "app", "image": %q}]}`, image("batch:1")))
				},
				"podtask run -d --name batch batch.json": func(line string) { sees(line); u.untilQueued("batch") },
				"podtask ps":                             sees,
				"podtask why batch": func(line string) {
					sees(line)
					u.want(0, "rm", "-f", "batch", "shop")
				},
			}
		},
	},
	"agent.md": {
		given: func(u *tutorial) { u.agent(); u.web("") },
		special: func(u *tutorial) map[string]func(string) {
			special := map[string]func(string){}
			for _, line := range shown(u.t, "agent.md") {
				special[line] = func(line string) {
					line = strings.ReplaceAll(line, "$sock", u.agentSocket()) + " --silent --show-error --fail-with-body"
					switch {
					case strings.Contains(line, "/events"):
						u.untilCtrlC(line, `"seq"`)
						return
					case strings.Contains(line, "follow"): // there may be nothing to see, or nothing more
						u.typed(line).interruptUntilEnded()
						return
					case strings.Contains(line, "DELETE"): // the stop before it was only accepted
						u.podtask("wait", "web")
					}
					u.typed(line).want(0)
				}
			}
			return special
		},
	},
	"aws.md": {special: elsewhere("aws.md")}, // TestAWSCLIReadsTheLinesOfATask
	"leaving.md": {given: func(u *tutorial) {
		u.box.file("shop.yaml", fmt.Sprintf("containers:\n  web: {image: %q}\n", u.image))
	}},
	"names.md":       {special: elsewhere("names.md")},       // TestServiceIsReachedByName, TestServiceConnect
	"online.md":      {special: elsewhere("online.md")},      // TestIngressServesAService
	"autoscaling.md": {special: elsewhere("autoscaling.md")}, // TestServiceScales
	"sleep.md":       {special: elsewhere("sleep.md")},       // TestSleepAndWakeByListener, TestSleepAndWakeByIngressAndName
	"browser.md":     {special: elsewhere("browser.md")},     // TestUIShowsAndStopsATask, TestHostBySSHSeveralHostsInOneView
	"ci.md":          {given: (*tutorial).pipeline},
	"coming-from.md": {
		given:   (*tutorial).fromElsewhere,
		special: (*tutorial).importing,
	},
	"compose.md": {
		given: func(u *tutorial) {
			u.web("")
			u.box.file(".env", "DB_PASSWORD=plum\n")
			u.box.file("compose.yaml", fmt.Sprintf(`name: shop
services:
  db: {image: %[1]q, environment: {POSTGRES_PASSWORD: "${DB_PASSWORD}"}, volumes: ["data:/data"], healthcheck: {test: [CMD, /testbox, exit, "0"], interval: 2s}}
  migrate: {image: %[1]q, command: [/testbox, print, done], depends_on: {db: {condition: service_healthy}}}
  web: {image: %[1]q, ports: ["%[2]d:80"], depends_on: {migrate: {condition: service_completed_successfully}}}
volumes: {data: {}}
`, u.image, freePort(u.t)))
		},
		special: func(u *tutorial) map[string]func(string) {
			return map[string]func(string){
				"podtask unit install shop.task": func(string) {}, // the tutorial installs a unit
			}
		},
	},
	"develop.md": {
		given: func(u *tutorial) {
			if err := os.Mkdir(filepath.Join(u.box.dir, "src"), 0o755); err != nil {
				u.t.Fatal(err)
			}
			u.box.file("src/main", "text")
			u.box.file("key", "plum")
			u.shop("")
		},
		special: func(u *tutorial) map[string]func(string) {
			return map[string]func(string){
				// TestDeploy
				"podtask deploy web":                                          func(string) {},
				"podtask --host ssh://box deploy web ./app":                   func(string) {},
				"podtask deploy web --registry registry.example.com/team/web": func(string) {},
				"podtask logs -f shop":                                        func(line string) { u.typed(line).interruptUntilEnded() },
				"podtask exec shop": func(string) {
					shell := u.onTerminal("exec", "shop")
					shell.keysIn("exit 3\n")
					shell.want(3)
				},
				"podtask cp shop:/tmp/profile.out .": func(line string) { u.typed(strings.ReplaceAll(line, "/tmp/profile.out", "/src/main")).want(0) },
				"podtask run -d --replace --name shop -e MODE=debug -p 9090:8080 shop.yaml": func(line string) {
					u.typed(strings.ReplaceAll(line, "9090:8080", fmt.Sprintf("%d:80", freePort(u.t))) + " --map-volume source=./src").want(0)
				},
				"podtask run -d --replace --name shop --map-secret /shop/key=file:./key shop.yaml": func(line string) {
					u.shop(`"secrets": [{"name": "KEY", "valueFrom": "/shop/key"}],`)
					u.typed(line + " --map-volume source=./src").want(0)
				},
			}
		},
	},
	"doctor.md": {
		special: func(u *tutorial) map[string]func(string) {
			return map[string]func(string){"podtask doctor": func(line string) { u.typed(line).wait() }} // this host may lack something
		},
	},
	"exit-codes.md": {
		given: (*tutorial).endings,
		shell: true,
		alone: true, // if its manager is reloaded just then, systemd 257 takes a unit that has failed for started
		special: func(u *tutorial) map[string]func(string) {
			special := map[string]func(string){}
			text, err := os.ReadFile(filepath.Join(os.Getenv("PODTASK_DOCS"), "exit-codes.md"))
			if err != nil {
				u.t.Fatal(err)
			}
			for _, row := range regexp.MustCompile(`(?m)^    (.*?)  # (prints )?(.*)$`).FindAllStringSubmatch(string(text), -1) {
				special[row[1]] = func(line string) {
					r := u.typed(line).wait()
					if row[2] == "" && strconv.Itoa(r.code) != row[3] || row[2] != "" && !strings.Contains(r.out, row[3]) {
						u.t.Errorf("%s: exit code %d, printed %q %q; the page has %s%s", line, r.code, r.out, r.err, row[2], row[3])
					}
				}
			}
			return special
		},
	},
	"faults.md":       {special: elsewhere("faults.md")},       // TestBlackHole, and TestFaults in the virtual machine, whose kernel has sch_netem
	"ecs-anywhere.md": {special: elsewhere("ecs-anywhere.md")}, // TestAnInstanceOfECS
	"images.md": {
		special: func(*tutorial) map[string]func(string) {
			return map[string]func(string){"podtask image resolve docker.io/library/alpine:3.20": func(string) {}} // a public registry
		},
	},
	"importing.md":  {special: elsewhere("importing.md")},  // TestTemplatesBecomeServices and others of teamfiles_test.go
	"kubernetes.md": {special: elsewhere("kubernetes.md")}, // TestKubernetesOnAHost
	"install.md": {
		given: func(u *tutorial) { u.web(""); u.want(0, "run", "-d", "web.json") },
		special: func(u *tutorial) map[string]func(string) {
			return map[string]func(string){"podtask doctor": func(line string) { u.typed(line).wait() }}
		},
	},
	"limits.md": {
		given: func(u *tutorial) { u.web(""); u.want(0, "run", "-d", "--wait=running", "--name", "web", "web.json") },
		special: func(*tutorial) map[string]func(string) { // TestUpdate... in the virtual machine, which has limits
			return map[string]func(string){"podtask update --memory 1g --cpus 1.5 --pids-limit 500 web": func(string) {}}
		},
	},
	"maintenance.md": {given: func(u *tutorial) { u.agent(); u.web(""); u.want(0, "run", "-d", "web.json") }},
	"metadata.md":    {given: func(u *tutorial) { u.web(`"command": ["/testbox", "exit", "0"], `) }},
	"monitoring.md":  {},
	"pods.md": {
		given: func(u *tutorial) { u.pod("shop") },
		special: func(*tutorial) map[string]func(string) {
			return map[string]func(string){ // TestIngressOfAManifest
				"podtask service create shop shop.yaml --count 2 --wait": func(string) {},
				"podtask ingress ls": func(string) {},
				// TestServiceOfAStatefulSet
				"podtask service create mysql mysql.yaml --count 2 --map-volume data-mysql-0=/srv/mysql-0 --map-volume data-mysql-1=/srv/mysql-1 --name-as mysql:3306": func(string) {},
			}
		},
	},
	"queue.md": {given: func(u *tutorial) {
		u.web(`"cpu": 1024, `)
		u.env = append(u.env, "PODTASK_BUDGET_CPU=1")
		u.want(0, "run", "-d", "--wait=running", "--name", "one", "web.json")
		u.want(0, "run", "-d", "--name", "two", "web.json")
	}},
	"schedules.md": {special: elsewhere("schedules.md")}, // TestSchedule
	"services.md": {
		given: func(u *tutorial) { u.agent(); u.web("") },
		special: func(u *tutorial) map[string]func(string) {
			return map[string]func(string){
				"podtask service update web web.json --wait": func(line string) {
					u.web(`"stopTimeout": 3, `)
					u.typed(line).want(0)
				},
				"podtask service create orders orders.json --count 2 --name-as orders:8080": func(string) {}, // TestServiceIsReachedByName
				// TestServiceLinearPausesAndContinues, TestServiceBlueGreen
				"podtask service update web --image registry.example.com/web:2 --wait":                                       func(string) {},
				"podtask service update web web.json --hook smoke@post-test:2m=/usr/local/bin/smoke-test --wait":             func(string) {},
				"podtask service update web web.json --hook migrate@pre-scale-up=task:schema --hook ok@pre-production=pause": func(string) {},
				"podtask service continue web":            func(string) {},
				"podtask service continue web --rollback": func(string) { u.want(0, "service", "rm", "--force", "web") },
				"podtask service create web web.json --listen 127.0.0.1:8080=app:80 --test-listen 127.0.0.1:9090=app:80": func(line string) {
					line = strings.ReplaceAll(line, "8080", fmt.Sprint(u.port))
					u.typed(strings.ReplaceAll(line, "9090", fmt.Sprint(freePort(u.t)))).want(0)
				},
				"podtask service create web web.json --count 3 --listen 127.0.0.1:8080=app:80 --wait": func(line string) {
					u.typed(strings.ReplaceAll(line, "8080", fmt.Sprint(u.port))).want(0)
					u.want(0, "service", "rm", "--force", "--wait", "web")
				},
			}
		},
	},
	"ssh.md": {
		given: func(u *tutorial) {
			s := startSSHD(u.t, u.t.TempDir())
			u.t.Cleanup(s.stop)
			u.env = append(u.env, "PATH="+filepath.Dir(bed.podtask)+":"+s.path(), "XDG_CONFIG_HOME="+u.t.TempDir())
			u.box.file("web.json", fmt.Sprintf(`{"family": "web", "containerDefinitions": [{"name": "app", "image": %q, "command": ["/testbox", "sleep", "forever"], "portMappings": [{"containerPort": 80}]}]}`, u.image))
		},
		special: func(u *tutorial) map[string]func(string) {
			return map[string]func(string){
				"podtask host setup ssh://me@box":                                        func(string) {}, // TestSetup... in internal/cli/host
				"podtask context add box ssh://me@box":                                   func(line string) { u.typed(strings.ReplaceAll(line, "me@", "")).want(0) },
				"podtask --host box port-forward web 8080:80":                            func(line string) { u.untilCtrlC(strings.ReplaceAll(line, "8080", fmt.Sprint(freePort(u.t))), " -> ") },
				"podtask --host box port web":                                            func(string) {}, // the page shows it after the end of the task
				"podtask --host box import --output units web":                           func(string) {}, // the same; TestHostBySSHImportsATask
				"podtask host setup --package dist/podtask_1.2.3_amd64.deb ssh://me@box": func(string) {}, // TestSetupInstallsAPackage in internal/cli/host
				"podtask top --host box1 --host box2": func(string) {
					top := u.onTerminal("top", "--host", "box", "--host", "local")
					top.see("of 2 hosts")
					top.keysIn("q")
					top.want(0)
				},
				"podtask ui --all-hosts": func(line string) { u.untilCtrlC(line, "/open/") },
				"podtask --host box push localhost/web:1": func(line string) {
					u.podman("pull", "--quiet", "--authfile", bed.auth, u.image)
					u.podman("tag", u.image, "localhost/web:1")
					u.typed(line).want(0)
					u.podman("untag", u.image, "localhost/web:1")
				},
			}
		},
	},
	"testing.md": {special: elsewhere("testing.md")}, // TestAFailedTestIsReported
	"units.md": {
		given: func(u *tutorial) {
			u.web("")
			u.box.file("web.task", "[Task]\nDefinition=./web.json\n")
		},
	},
}

// sees returns a function that types a line on a terminal and compares what stays on the screen with what a page shows
// below "$ LINE", or in a block with fences that follows on the line. Words and their order count; IDs, ports, times and blanks differ everywhere. A line of which the page
// shows nothing, or no more, only has to succeed.
func (u *tutorial) sees(page string) func(line string) {
	u.t.Helper()
	text, err := os.ReadFile(filepath.Join(os.Getenv("PODTASK_DOCS"), page))
	if err != nil {
		u.t.Fatal(err)
	}
	shows := map[string]string{}
	last := ""
	for block := range strings.SplitSeq(string(text), "\n\n") {
		first, rest, _ := strings.Cut(block, "\n")
		switch {
		case strings.HasPrefix(first, "    $ "):
			shows[strings.TrimPrefix(first, "    $ ")] = alike(rest)
		case strings.HasPrefix(first, "    "):
			last = strings.TrimSpace(block[strings.LastIndex(block, "\n")+1:])
		case strings.HasPrefix(first, "```"):
			shows[last] = alike(strings.TrimSuffix(strings.TrimSpace(rest), "```"))
		}
	}
	return func(line string) {
		u.t.Helper()
		screen := u.screenAfter(strings.Fields(line)[1:]...)
		if got, want := alike(screen), shows[line]; want != "" && got != want {
			u.t.Errorf("%s shows\n%s\nthat is\n%s\nthe page has\n%s", line, screen, got, want)
		}
		delete(shows, line)
	}
}

// screenAfter runs podtask on a terminal of 100 columns until it ends with success, and returns what stays on the screen.
func (u *tutorial) screenAfter(args ...string) string {
	u.t.Helper()
	at := onTerminalWith(u.box, func(cmd *exec.Cmd) {
		if err := pty.Setsize(cmd.Stdout.(*os.File), &pty.Winsize{Rows: 30, Cols: 100}); err != nil {
			u.t.Fatal(err)
		}
	}, args...)
	at.want(0)
	const end = "<end>"
	if _, err := at.line.WriteString(end); err != nil {
		u.t.Fatal(err)
	}
	eventually(u.t, "the end of the screen", func() bool { return strings.HasSuffix(at.screen.String(), end) })
	var lines []string
	for line := range strings.Lines(strings.TrimSuffix(at.screen.String(), end)) {
		if up := upward.FindStringSubmatch(line); up != nil { // the lines before are drawn again
			n, err := strconv.Atoi(up[1])
			if err != nil || n > len(lines) {
				u.t.Fatalf("%q after %d lines", line, len(lines))
			}
			lines = lines[:len(lines)-n]
		}
		lines = append(lines, steering.ReplaceAllString(line, ""))
	}
	return strings.Join(lines, "")
}

var (
	upward   = regexp.MustCompile(`\x1b\[([0-9]+)A`)
	steering = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]|\r`)
	// varying is what differs each time, and stands for.
	varying = []struct {
		pattern *regexp.Regexp
		word    string
	}{
		{regexp.MustCompile(`Warning: this host cannot apply .*refuses such tasks `), ""}, // this bed has no controllers
		{regexp.MustCompile(`\b[0-9a-f]{32}\b`), "ID"},
		{regexp.MustCompile(`\b[0-9a-f]{12}\b`), "SHORT"},
		{regexp.MustCompile(`\b0\.0\.0\.0:[0-9]+`), "ADDRESS"},
		{regexp.MustCompile(`\b[0-9.]+(ms|s|m)\b`), "TIME"},
		{regexp.MustCompile(`\b(just now|[0-9]+ seconds? ago)\b`), "WHEN"},
		{regexp.MustCompile(`\bhas (just started|been running for TIME)`), "RUNS"},
	}
)

// alike returns a screen without what differs each time.
func alike(screen string) string {
	screen = strings.Join(strings.Fields(screen), " ")
	for _, v := range varying {
		screen = v.pattern.ReplaceAllString(screen, v.word)
	}
	return screen
}

// pipeline writes what a pipeline tests: two definitions with their locks, and tests of one.
func (u *tutorial) pipeline() {
	const app = `{"name": "app", "image": "IMAGE", "command": ["/testbox", "print", "hello"]}`
	for name, text := range map[string]string{
		"web.yaml":      `{"family": "web", "containerDefinitions": [` + app + `]}`,
		"batch.yaml":    `{"family": "batch", "containerDefinitions": [` + app + `, {"name": "datadog-agent", "image": "IMAGE", "essential": false, "command": ["/testbox", "sleep", "forever"]}]}`,
		"web.test.yaml": "definition: web.yaml\ntests: [{name: says hello, expect: [{exit: {container: app}}, {log: {equals: hello}}]}]\n",
	} {
		u.box.file(name, strings.ReplaceAll(text, "IMAGE", u.image))
	}
	u.want(0, "lock", "web.yaml")
	u.want(0, "lock", "batch.yaml")
}

// fencedYAML is a block of a page that shows a file, with its name.
var fencedYAML = regexp.MustCompile("(?s)```yaml\n# (\\S+)\n(.*?)```")

// endings makes the files that exit-codes.md shows, and the unit, and starts an agent.
func (u *tutorial) endings() {
	u.t.Helper()
	text, err := os.ReadFile(filepath.Join(os.Getenv("PODTASK_DOCS"), "exit-codes.md"))
	if err != nil {
		u.t.Fatal(err)
	}
	for _, file := range fencedYAML.FindAllStringSubmatch(string(text), -1) {
		u.box.file(file[1], strings.ReplaceAll(file[2], "docker.io/library/busybox:1", u.image))
	}
	u.box.file("failed.task", "[Task]\nDefinition=failed.yaml\n\n[Service]\n"+u.environment())
	u.agent()
}

// elsewhere says that other tests run the lines of a page.
func elsewhere(name string) func(*tutorial) map[string]func(string) {
	return func(u *tutorial) map[string]func(string) {
		special := map[string]func(string){}
		for _, line := range shown(u.t, name) {
			special[line] = func(string) {}
		}
		return special
	}
}

// shown are the commands of podtask, and of clients of its API, that a page shows. Other tests
// type what is for systemd.
func shown(t *testing.T, name string) []string {
	t.Helper()
	return slices.DeleteFunc(withoutRemarks(t, name), func(line string) bool { return !ours.MatchString(line) })
}

// withoutRemarks are the lines of a page that are to be typed, without what it says of them.
func withoutRemarks(t *testing.T, name string) (lines []string) {
	t.Helper()
	for _, line := range commands(t, name) {
		line, _, _ = strings.Cut(strings.TrimPrefix(line, "$ "), "  #")
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

// ours is what begins such a command.
var ours = regexp.MustCompile(`^(PODTASK_[A-Z_]+=.* )?podtask|^curl --unix-socket |^aws logs `)

// web makes web.json, with more members for its container.
func (u *tutorial) web(members string) {
	u.t.Helper()
	u.box.file("web.json", fmt.Sprintf(`{"family": "web", "containerDefinitions": [{"name": "app", %s"image": %q, "portMappings": [{"containerPort": 80}]}]}`, members, u.image))
}

// shop makes the definition of develop.md, with more members for its container.
func (u *tutorial) shop(members string) {
	u.t.Helper()
	u.box.file("shop.yaml", fmt.Sprintf(`{"family": "shop", "containerDefinitions": [{"name": "web", "image": %q, %s "portMappings": [{"containerPort": 80}],
		"mountPoints": [{"sourceVolume": "source", "containerPath": "/src"}],
		"healthCheck": {"command": ["CMD", "/testbox", "get", "http://localhost/"], "interval": 5}}], "volumes": [{"name": "source"}]}`, u.image, members))
}

// pod makes pod.yaml.
func (u *tutorial) pod(name string) {
	u.t.Helper()
	u.box.file("pod.yaml", fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec:\n  restartPolicy: Never\n  containers:\n  - {name: app, image: %q, args: [/testbox, exit, \"0\"]}\n", name, u.image))
}

// fromElsewhere makes the files of other tools.
func (u *tutorial) fromElsewhere() {
	u.t.Helper()
	u.pod("site")
	u.box.file("password", "plum")
	u.box.file("compose.yaml", fmt.Sprintf("services:\n  app:\n    image: %s\n    command: /testbox exit 0\n", u.image))
	u.box.file("task-definition.json", fmt.Sprintf(`{"family": "web", "containerDefinitions": [{"name": "app", "image": %q, "command": ["/testbox", "exit", "0"],
		"secrets": [{"name": "PASSWORD", "valueFrom": "/shop/db-password"}]}]}`, u.image))
}

// importing are the lines of coming-from.md that need more.
func (u *tutorial) importing() map[string]func(line string) {
	return map[string]func(line string){
		"podtask plan --refs task-definition.json": func(line string) {
			p := u.typed(line)
			p.wait() // nothing answers the reference yet
			if out := p.out.String() + p.err.String(); !strings.Contains(out, "/shop/db-password") {
				u.t.Errorf("%s printed %s", line, out)
			}
		},
		"podtask import ~/.config/containers/systemd/shop.pod": func(line string) {
			for _, made := range []string{"shop.json", "shop.task"} {
				_ = os.Remove(filepath.Join(u.box.dir, made))
			}
			u.box.file("shop.pod", "[Pod]\n")
			u.box.file("shop-app.container", "[Container]\nPod=shop.pod\nImage="+u.image+"\n")
			u.typed(strings.ReplaceAll(line, "~/.config/containers/systemd", u.box.dir)).want(0)
		},
	}
}

// pagesOfOtherTests names the test that runs the commands of a page instead.
var pagesOfOtherTests = map[string]string{"autoscaling.md": "TestServiceScales", "sleep.md": "TestSleepAndWakeByIngressAndName", "stacks.md": "TestStack", "notices.md": "TestNotices", "minimum-age.md": "TestMinimumAgeOfAUnit"}

// TestPages types the commands of the other pages.
func TestPages(t *testing.T) {
	all, err := filepath.Glob(filepath.Join(os.Getenv("PODTASK_DOCS"), "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		name := filepath.Base(file)
		if _, known := pages[name]; !known && name != "tutorial.md" && pagesOfOtherTests[name] == "" && len(shown(t, name)) > 0 {
			t.Errorf("no test types %q of %s", shown(t, name), name)
		}
	}
	for name, p := range pages {
		t.Run(filepath.Base(name), func(t *testing.T) {
			if !p.alone {
				t.Parallel()
			}
			u := newTutorial(t)
			if p.given != nil {
				p.given(u)
			}
			special := map[string]func(string){}
			if p.special != nil {
				special = p.special(u)
			}
			lines := shown(t, name)
			if p.shell {
				lines = withoutRemarks(t, name)
			}
			u.typeAll(lines, special)
		})
	}
}
