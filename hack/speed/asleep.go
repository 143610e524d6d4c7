package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	// asleepServices and awakeServices are the numbers of services that are measured.
	asleepServices, awakeServices = 200, 20
	firstPort                     = 21000
)

// asleep measures services that sleep beside some of them awake: the memory and the processor time of the agent, the ingress proxy
// and Podman's service together, and the time of a first request beside podman start.
func (l *lab) asleep(agent int, stopService func()) {
	proxy, stop := l.background(filepath.Join(l.share, "podtask"), "ingress", "serve", "--http=127.0.0.1:20080", "--https=127.0.0.1:20443")
	defer stop()
	l.write("web.json", fmt.Sprintf(`{"family":"web","networkMode":"awsvpc","containerDefinitions":[{"name":"c1","image":%q,"command":["serve","8080"],"portMappings":[{"containerPort":8080}]}]}`, image))
	name := func(i int) string { return fmt.Sprintf("web%d", i) }
	for i := range asleepServices {
		address := []string{fmt.Sprintf("--listen=127.0.0.1:%d=c1:8080", firstPort+i)}
		if i%2 == 1 {
			address = []string{fmt.Sprintf("--ingress=https://web%d.localhost=c1:8080", i)}
		}
		l.podtask(append([]string{"service", "create", "--pull=never", "--limits=off", "--sleep-after=1s", name(i), l.path("web.json")}, address...)...)
	}
	sleeping := func(want int) {
		for l.err == nil && strings.Count(l.podtask("service", "ls", "--format", "json").out, `"asleep"`) < want {
			l.pause(time.Second)
		}
	}
	sleeping(asleepServices)
	l.pause(5 * time.Minute) // Podman's service leaves within minutes, and an agent gives memory back
	stopService()
	processes := func() []string {
		return strings.Fields(l.run("sh", "-c", fmt.Sprintf("echo %d %d; pgrep -U %d -f 'podman.* system service' || true", agent, proxy, os.Getuid())).out)
	}
	rest := func(what string, most, share float64) {
		if l.err == nil && l.pss([]string{strconv.Itoa(proxy)}) == 0 {
			l.try(errors.New("the ingress proxy does not run: is there another one of this user?"))
		}
		before := l.ticks(processes())
		l.pause(time.Minute)
		l.figure(what+": podtask, ingress and Podman's service, % of a core", share, float64(l.ticks(processes())-before)/60)
		l.figure(what+": memory of podtask, ingress and Podman's service, MB", most, float64(l.pss(processes()))/1024)
		l.figure(what+": memory of all processes of the user, MB", 0, float64(l.pss(nil))/1024)
	}
	rest(fmt.Sprintf("%d services asleep", asleepServices), 150, 0.2)
	for range 5 {
		l.wake()
		sleeping(asleepServices)
	}
	for i := range awakeServices {
		l.podtask("service", "update", name(2*i), "--sleep-after=24h")
		l.podtask("service", "wake", name(2*i), "--wait")
	}
	l.pause(3 * time.Minute)
	rest(fmt.Sprintf("%d services asleep, %d awake", asleepServices-awakeServices, awakeServices), 0, 0)
	for i := range asleepServices {
		l.podtask("service", "rm", "--force", name(i))
	}
	l.clean()
}

// wake measures a first request, from its first byte to the end of the answer, beside the start of a container that is there.
func (l *lab) wake() {
	l.run("podman", "create", "--name", "speedwake", "--pull", "never", image, "serve", "8080")
	theirs := l.run("podman", "start", "speedwake")
	l.run("podman", "rm", "--force", "--time", "0", "speedwake")
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	begin := time.Now()
	r, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/", firstPort))
	if l.try(err); err != nil {
		return
	}
	_, err = io.Copy(io.Discard, r.Body)
	ours := time.Since(begin)
	l.try(err)
	l.try(r.Body.Close())
	l.pair("first request to a service that sleeps, to its answer / podman start", 0, ours, theirs.time)
}

// pss returns the memory of processes in KiB, nil for all of the user; a page that several share is divided among them.
func (l *lab) pss(pids []string) (sum int) {
	files, err := filepath.Glob("/proc/[0-9]*/smaps_rollup")
	l.try(err)
	if pids != nil {
		files = nil
		for _, pid := range pids {
			files = append(files, "/proc/"+pid+"/smaps_rollup")
		}
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // another user's, or it has ended
		}
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) >= 2 && f[0] == "Pss:" {
				n, err := strconv.Atoi(f[1])
				l.try(err)
				sum += n
			}
		}
	}
	return sum
}
