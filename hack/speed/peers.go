package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// healthy measures the time from the start of a container to its first health check that passes. A task definition of ECS has an
// interval of at least five seconds, so both have that.
func (l *lab) healthy(rounds int) {
	l.write("healthy.json", fmt.Sprintf(`{"family":"speedhealthy","containerDefinitions":[{"name":"c1","image":%q,"command":["sleep","forever"],
		"healthCheck":{"command":["CMD","/testbox","exit","0"],"interval":5}}]}`, image))
	l.pairs(rounds, func(counts bool) {
		theirs := l.run("sh", "-c", `podman run -d --name speedhealthy --pull never --health-cmd '["/testbox","exit","0"]' --health-interval 5s "$1" sleep forever &&
			podman wait --condition healthy speedhealthy`, "sh", image)
		l.run("podman", "rm", "--force", "--time", "0", "speedhealthy")
		ours := l.podtask("run", "-d", "--wait=healthy", "--pull", "never", "--limits", "off", l.path("healthy.json"))
		l.podtask("rm", "--force", ours.out)
		if counts {
			l.pair("start until healthy / podman run, podman wait", 1, ours.time, theirs.time)
		}
	})
}

// nerdctl measures the start of one container against nerdctl, where that is installed. Its containerd has to run.
func (l *lab) nerdctl(rounds int) {
	if !l.installed("nerdctl") {
		return
	}
	l.run("sh", "-c", `podman save --quiet "$1" | nerdctl load`, "sh", image)
	l.pairs(rounds, func(counts bool) {
		theirs := l.run("nerdctl", "run", "-d", "--pull", "never", "--name", "speed1", image, "sleep", "forever")
		l.run("nerdctl", "rm", "--force", "speed1")
		ours := l.start("task1.json")
		l.podtask("rm", "--force", ours.out)
		if counts {
			l.pair("start of 1, no agent / nerdctl run -d", 0, ours.time, theirs.time)
		}
	})
	l.run("nerdctl", "rmi", "--force", image)
}

// deployPort is the port of the host at which both answer.
const deployPort = 20999

// deployments measures the time from the command that gives a service another revision until that revision answers, against kube play
// --replace, and how many of the requests until then had no answer, one every 5 ms. A copy with a health check gets connections when the
// first check has passed, one without after five seconds.
func (l *lab) deployments(rounds int) {
	l.deployment(rounds, "with a health check", `"healthCheck":{"command":["CMD","/testbox","get","http://127.0.0.1:8080/"],"interval":5},`)
	l.deployment(min(rounds, 3), "without a health check", "")
}

func (l *lab) deployment(rounds int, how, check string) {
	definition := func(version int) {
		l.write("deploy.json", fmt.Sprintf(`{"family":"speeddeploy","networkMode":"awsvpc","containerDefinitions":[{"name":"c1","image":%q,"command":["serve","8080"],%s
			"environment":[{"name":"VERSION","value":"%d"}],"portMappings":[{"containerPort":8080}]}]}`, image, check, version))
		l.write("deploy.yaml", fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: speeddeploy}\nspec:\n  containers:\n  - {name: c1, image: %q, imagePullPolicy: Never, args: [serve, \"8080\"], "+
			"env: [{name: VERSION, value: \"%d\"}], ports: [{containerPort: 8080, hostPort: %d}]}\n", image, version, deployPort))
	}
	play := func() { l.run("podman", "kube", "play", "--quiet", "--replace", l.path("deploy.yaml")) }
	update := func() { l.podtask("service", "update", "speeddeploy", l.path("deploy.json")) }
	version := 0
	// next deploys the next version by a command and returns the time until it answers, and the requests that failed.
	next := func(deploy func()) (took time.Duration, failed int) {
		version++
		definition(version)
		ctx, cancel := context.WithTimeout(l.ctx, time.Minute)
		defer cancel()
		begin, answered := time.Now(), make(chan struct{})
		var err error
		go func() {
			defer close(answered)
			failed, err = awaitVersion(ctx, version)
			took = time.Since(begin)
		}()
		deploy()
		if l.err != nil {
			cancel()
		}
		<-answered
		l.try(err)
		return took, failed
	}
	l.pairs(rounds, func(counts bool) {
		next(play)
		theirs, theirFailures := next(play)
		l.run("podman", "pod", "rm", "--force", "--time", "0", "speeddeploy")
		next(func() {
			l.podtask("service", "create", "--wait", "--pull=never", "--limits=off", fmt.Sprintf("--listen=127.0.0.1:%d=c1:8080", deployPort), "speeddeploy", l.path("deploy.json"))
		})
		ours, ourFailures := next(update)
		l.podtask("service", "rm", "--force", "speeddeploy")
		if counts {
			l.pair("another revision of a service "+how+", until it answers / podman kube play --replace", 0, ours, theirs)
			l.figure("another revision of a service "+how+": requests without an answer", 0, float64(ourFailures))
			l.figure("podman kube play --replace: requests without an answer", 0, float64(theirFailures))
		}
	})
}

// awaitVersion asks every 5 ms until a version answers, and returns how many requests failed.
func awaitVersion(ctx context.Context, version int) (failed int, err error) {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		r, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/env/VERSION", deployPort))
		var text []byte
		if err == nil {
			text, err = io.ReadAll(r.Body)
			_ = r.Body.Close()
		}
		switch {
		case err != nil:
			failed++
		case strings.TrimSpace(string(text)) == strconv.Itoa(version):
			return failed, nil
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return failed, fmt.Errorf("version %d does not answer: %w", version, ctx.Err())
		}
	}
}

// checkUnused fails if the user has tasks or an agent: a measurement ends with the removal of all tasks.
func (l *lab) checkUnused() {
	socket := filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "podtask/podtask.sock")
	if c, err := net.Dial("unix", socket); err == nil {
		_ = c.Close()
		l.try(errors.New("an agent runs: stop podtask.service and podtask.socket, or measure as another user"))
	}
	records := os.Getenv("XDG_STATE_HOME")
	if home, err := os.UserHomeDir(); records == "" && err == nil {
		records = filepath.Join(home, ".local/state")
	}
	services, _ := filepath.Glob(filepath.Join(records, "podtask/services/*.json"))
	if left := l.podtask("ps", "-aq").out; left != "" || len(services) > 0 {
		l.try(errors.New("there are tasks or services: measurements remove all tasks of the user; remove them, or measure as another user"))
	}
}
