package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/podtask/podtask/internal/testing/registrytest"
)

// stubborn is the command of a container whose program ignores SIGTERM, as most do that run as PID 1 and install no handler.
var stubborn = []string{"term", "ignore", "--", "sleep", "forever"}

// removals measures `rm -f` of running tasks whose containers ignore SIGTERM, against the removal of the same pod. Both are
// made alike, at the same time, and run for a moment, so that neither finds Podman at work for a start.
func (l *lab) removals(rounds int, how string, counts ...int) {
	for _, n := range counts {
		l.write(fmt.Sprintf("stubborn%d.json", n), task(n, stubborn...))
		l.write(fmt.Sprintf("stubborn%d.yaml", n), strings.ReplaceAll(pod(n), "[sleep, forever]", "["+strings.Join(stubborn, ", ")+"]"))
		l.pairs(rounds, func(counts bool) {
			l.run("podman", "kube", "play", "--quiet", l.path(fmt.Sprintf("stubborn%d.yaml", n)))
			id := l.start(fmt.Sprintf("stubborn%d.json", n)).out
			l.pause(time.Second)
			theirs := l.run("podman", "pod", "rm", "--force", "--time", "0", fmt.Sprintf("speed%d", n))
			ours := l.podtask("rm", "--force", id)
			if counts {
				l.pair(fmt.Sprintf("rm -f of a task of %d that ignores SIGTERM, %s / podman pod rm -f", n, how), 0.8, ours.time, theirs.time)
				l.pair(fmt.Sprintf("processor time of rm -f of a task of %d that ignores SIGTERM, %s / podman pod rm -f", n, how), 0, ours.cpu, theirs.cpu)
			}
		})
	}
}

// commands measures short commands against those of Podman, while a task runs; how says what else runs.
func (l *lab) commands(rounds int, how string) {
	id := l.start("task1.json").out
	defer l.podtask("rm", "--force", id)
	container := l.run("podman", "ps", "-q", "--filter", "name="+id[:min(len(id), 12)]+"-c1").out
	l.pairs(rounds, func(counts bool) {
		theirs := l.run("podman", "exec", container, "/testbox", "exit", "0")
		ours := l.podtask("exec", id, "--", "/testbox", "exit", "0")
		list := l.run("podman", "ps")
		logs := l.run("podman", "logs", container)
		version := l.run("podman", "--version")
		if counts {
			l.pair("exec of a program that exits, "+how+" / podman exec", 1, ours.time, theirs.time)
			l.pair("processor time of an exec, "+how+" / podman exec", 0, ours.cpu, theirs.cpu)
			l.pair("ps, "+how+" / podman ps", 0.5, l.podtask("ps").time, list.time)
			l.pair("why, "+how+" / podman ps", 0.5, l.podtask("why", id).time, list.time)
			l.pair("completion, "+how+" / podman ps", 0.5, l.podtask("__complete", "--", "logs", "").time, list.time)
			l.pair("logs, "+how+" / podman logs", 0.5, l.podtask("logs", id).time, logs.time)
			l.pair("version, "+how+" / podman --version", 0, l.podtask("version").time, version.time)
			l.pair("--help, "+how+" / podman --version", 0, l.podtask("--help").time, version.time)
		}
	})
}

// imageSize is the size of the image that a first run pulls, which cannot be compressed.
const imageSize = 50 << 20

// registry starts a registry that Podman speaks to without TLS, until the returned function is called. A service of Podman reads once
// which registry that is, so one that still runs is waited for.
func (l *lab) registry() (*registrytest.Registry, func()) {
	for range 100 {
		if l.err != nil || exec.CommandContext(l.ctx, "pgrep", "-U", strconv.Itoa(os.Getuid()), "-f", "podman.* system service").Run() != nil {
			break
		}
		l.pause(time.Second)
	}
	registry, err := registrytest.New(registrytest.Options{})
	if err != nil {
		l.try(err)
		return nil, func() {}
	}
	home, err := os.UserHomeDir()
	l.try(err)
	conf := filepath.Join(home, ".config/containers/registries.conf.d/speed.conf")
	l.try(os.MkdirAll(filepath.Dir(conf), 0o700))
	l.try(os.WriteFile(conf, registry.RegistriesConf(), 0o600))
	return registry, func() {
		registry.Close()
		l.try(os.Remove(conf))
	}
}

// firstRuns measures starts whose images are in a registry on this machine and not in storage.
func (l *lab) firstRuns(registry *registrytest.Registry, rounds int, counts ...int) {
	program, err := os.ReadFile(filepath.Join(l.share, "testbox"))
	l.try(err)
	var images []string
	for i := range 10 {
		if l.err != nil {
			return
		}
		built, err := registrytest.Image(v1.Config{Entrypoint: []string{"/testbox"}},
			registrytest.File{Path: "/testbox", Data: program}, registrytest.File{Path: "/data", Data: registrytest.Random(imageSize, uint64(i+1))})
		l.try(err)
		name := fmt.Sprintf("speed/image%d:1", i+1)
		_, err = registry.Push(name, built)
		l.try(err)
		images = append(images, registry.Ref(name))
	}
	compose := l.installed("podman-compose")
	forget := func() { l.run("podman", append([]string{"rmi", "--ignore", "--force"}, images...)...) }
	for _, n := range counts {
		of := func(text string) string { // gives each container an image of its own
			for i := range n {
				text = strings.Replace(text, fmt.Sprintf("%q", image), fmt.Sprintf("%q", images[i]), 1)
			}
			return strings.NewReplacer("imagePullPolicy: Never", "imagePullPolicy: Always", "pull_policy: never", "pull_policy: always").Replace(text)
		}
		l.write("first.json", of(task(n, "sleep", "forever")))
		l.write("first.yaml", of(pod(n)))
		l.write("firstcompose.yaml", of(composeFile(n)))
		l.pairs(rounds, func(counts bool) {
			forget()
			play := l.run("podman", "kube", "play", "--quiet", l.path("first.yaml"))
			l.run("podman", "pod", "rm", "--force", "--time", "0", fmt.Sprintf("speed%d", n))
			forget()
			ours := l.podtask("run", "-d", "--wait=running", "--limits", "off", l.path("first.json"))
			l.podtask("rm", "--force", ours.out)
			forget()
			var up sample
			if compose {
				up = l.run("podman-compose", "--file", l.path("firstcompose.yaml"), "up", "--detach")
				l.run("podman-compose", "--file", l.path("firstcompose.yaml"), "down", "--timeout", "0")
			}
			if counts {
				l.pair(fmt.Sprintf("first run, %d images of 50 MB to pull / podman kube play", n), 0.6, ours.time, play.time)
				l.pair(fmt.Sprintf("processor time of a first run, %d images of 50 MB to pull / podman kube play", n), 0, ours.cpu, play.cpu)
				if compose {
					l.pair(fmt.Sprintf("first run, %d images of 50 MB to pull / podman-compose up", n), 0.6, ours.time, up.time)
				}
			}
		})
	}
	forget()
}
