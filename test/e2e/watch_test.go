//go:build e2e

//e2e:bed plain

package e2e

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// ps --watch draws the list again on a terminal of 80 columns and prints it again through a
// pipe, until Ctrl-C; --latest is the newest task, although it has stopped.
func TestPsWatchesAndShowsTheLatest(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	first, second := b.family+"-first", b.family+"-second"
	running := b.detach("--wait=running", "--name", first, b.define(ctr{Name: "app", Command: words("sleep forever"), StopTimeout: 1}))

	term := b.onTerminal("ps", "--watch=200ms")
	for range 2 {
		term.see("\x1b[H\x1b[J")
		term.see("NAME")
		term.see(first)
	}
	pipe := b.start("ps", "--watch=200ms", "--noheading", "--format", "{{.Name}} {{.Status}}")
	eventually(t, "the list twice", func() bool { return strings.Count(pipe.out.String(), first+" RUNNING\n") >= 2 })

	ended := b.detach("--wait=running", "--name", second, b.define(ctr{Name: "app", Command: words("sleep forever"), StopTimeout: 1}))
	term.see(second)
	eventually(t, "the new task", func() bool { return strings.Contains(pipe.out.String(), second+" ") })
	b.want(0, "stop", second)
	pipe.out.cut(second) // what was there before
	eventually(t, "a list without the task that has stopped", func() bool {
		return regexp.MustCompile(first + ` RUNNING\n` + first + ` RUNNING\n`).MatchString(pipe.out.String())
	})
	term.keysIn("\x03")
	term.wait()
	pipe.interrupt()
	pipe.wait()
	if out := pipe.out.String(); strings.Contains(out, "\x1b") {
		t.Errorf("through a pipe there are control sequences: %q", out)
	}

	if got := strings.TrimSpace(b.want(0, "ps", "-q", "--no-trunc", "--latest").out); got != ended {
		t.Errorf("the latest task is %q, want %s", got, ended)
	}
	if got := strings.TrimSpace(b.want(0, "ps", "-q", "--no-trunc", "--latest", "--filter", "status=running").out); got != running {
		t.Errorf("the latest that runs is %q, want %s", got, running)
	}
	b.want(0, "rm", "-f", "--all")
}

// The page of ui has the task, and stops it with --write only.
func TestUIShowsAndStopsATask(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	id := b.detach("--wait=running", "--name", b.family, b.define(ctr{Name: "app", Command: words("print hello from the log -- sleep forever"), StopTimeout: 1}))
	for _, flags := range [][]string{nil, {"--write"}} {
		page := b.start(append([]string{"ui"}, flags...)...)
		var link string
		eventually(t, "a link", func() (found bool) { link, _, found = strings.Cut(page.out.String(), "\n"); return found })
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		loopback := func(ctx context.Context, network, address string) (net.Conn, error) { // browsers ask no name server for *.localhost
			_, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
		}
		browser := &http.Client{Jar: jar, Timeout: patience, Transport: &http.Transport{DialContext: loopback, DisableKeepAlives: true}}
		get := func(url string) string {
			t.Helper()
			answer, err := browser.Get(url)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			text, err := io.ReadAll(answer.Body)
			if err != nil || answer.StatusCode != http.StatusOK {
				t.Fatalf("%s answers %s: %s %v", url, answer.Status, text, err)
			}
			return string(text)
		}
		root, _, _ := strings.Cut(link, "open/")
		get(link)
		if list := get(root); !strings.Contains(list, b.family) || !strings.Contains(list, `<span class="chip good">running</span>`) {
			t.Errorf("the list is %s", list)
		}
		one := get(root + "task/" + id)
		if !strings.Contains(one, "hello from the log") {
			t.Errorf("the page of the task is %s", one)
		}
		if svg := get(root + "task/" + id + "/timeline.svg"); !strings.Contains(svg, "<svg") {
			t.Errorf("the timeline is %s", svg)
		}
		if file := get(root + "task/" + id + "/log.txt"); !strings.HasSuffix(file, "Z app | hello from the log\n") {
			t.Errorf("the file of the log is %s", file)
		}
		stream, err := browser.Get(root + "task/" + id + "/log")
		if err != nil {
			t.Fatal(err)
		}
		first, err := bufio.NewReader(stream.Body).ReadString('\n')
		if err != nil || !strings.Contains(first, `"container":"app"`) || !strings.Contains(first, `"text":"hello from the log"`) || !strings.Contains(first, `"time":"20`) {
			t.Errorf("the stream of the log begins with %s %v", first, err)
		}
		stream.Body.Close()
		_, token, write := strings.Cut(one, `name="token" value="`)
		if write != (flags != nil) {
			t.Errorf("with %q there are buttons: %t", flags, write)
		}
		if write {
			token, _, _ = strings.Cut(token, `"`)
			answer, err := browser.PostForm(root+"task/"+id+"/stop", url.Values{"token": {token}})
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if now := b.inspect(id); now.Status != "STOPPED" || answer.StatusCode != http.StatusOK {
				t.Errorf("stop answers %s, and the task is %s", answer.Status, now.Status)
			}
		}
		page.interrupt()
		page.wait()
	}
	b.want(0, "rm", id)
}

// The timeline fits a terminal of 80 columns, has colors there, and none with NO_COLOR or
// through a pipe.
func TestTimelineOnATerminal(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.want(0, "run", "--name", b.family, b.define(ctr{Name: "app", Command: words("exit 0")}))
	noColor := slices.DeleteFunc(slices.Clone(b.env), func(v string) bool { return strings.HasPrefix(v, "NO_COLOR=") || strings.HasPrefix(v, "TERM=") })
	for _, tt := range []struct {
		env     []string
		colored bool
	}{{append(slices.Clone(noColor), "TERM=xterm-256color"), true}, {append(slices.Clone(noColor), "TERM=xterm-256color", "NO_COLOR=1"), false}} {
		b.env = tt.env
		term := b.onTerminal("timeline", b.family)
		term.wait()
		var shown string
		eventually(t, "the whole timeline", func() bool { shown = term.screen.String(); return strings.Contains(shown, "run ") })
		if strings.Contains(shown, "\x1b[3") != tt.colored {
			t.Errorf("with colors %t it is %q", tt.colored, shown)
		}
		for line := range strings.Lines(regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(shown, "")) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\r\n")); n > 80 {
				t.Errorf("a line has %d columns: %q", n, line)
			}
		}
	}
	if out := b.want(0, "timeline", b.family).out; strings.Contains(out, "\x1b") || !strings.Contains(out, "app") {
		t.Errorf("through a pipe it is %q", out)
	}
	b.want(0, "rm", b.family)
}

// The command that import prints for a Compose file with replicas makes the service.
func TestComposeReplicasBecomeAService(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.agent()
	port := freePort(t)
	dir := filepath.Join(b.dir, b.family)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "compose.yaml")
	text := `
services:
  web:
    image: ` + b.testbox() + `
    command: term 0 -- serve 8080
    ports: ["127.0.0.1:` + strconv.Itoa(port) + `:8080"]
    healthcheck: {test: ["CMD", "/testbox", "get", "http://127.0.0.1:8080/"], interval: 5s}
    environment: {GREETING: hello from ` + b.family + `}
    deploy: {replicas: 2}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	told := b.want(0, "import", "--output", dir, file).err
	_, line, found := strings.Cut(told, "Next: podtask ")
	if !found {
		t.Fatalf("import prints no command: %s", told)
	}
	b.want(0, append(strings.Fields(line), "--timeout=4m")...)
	if s := b.service(); s.DesiredCount != 2 || s.HealthyCount != 2 {
		t.Errorf("%d of %d copies are healthy", s.HealthyCount, s.DesiredCount)
	}
	b.wantAnswer(port, "hello from "+b.family)
	b.removeService()
}

// A service of a Deployment has as many copies as the document says.
func TestReplicasOfADeploymentAreCopies(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.agent()
	file := filepath.Join(b.dir, "web.yaml")
	text := "{apiVersion: apps/v1, kind: Deployment, metadata: {name: " + b.family + "}, spec: {replicas: 2, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: " +
		b.testbox() + ", args: [sleep, forever]}]}}}}"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if told := b.want(0, "service", "create", "--wait", "--timeout=4m", b.family, file).err; strings.Contains(told, "/spec/replicas") {
		t.Errorf("the copies are warned of: %s", told)
	}
	if s := b.service(); s.DesiredCount != 2 || s.RunningCount != 2 {
		t.Errorf("%d of %d copies run", s.RunningCount, s.DesiredCount)
	}
	b.removeService()
}
