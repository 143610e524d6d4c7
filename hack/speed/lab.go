package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// image is an image in local storage that has testbox and nothing else.
const image = "localhost/speed:1"

// lab runs commands on the bed. After the first failure it runs nothing more; err has it.
type lab struct {
	ctx        context.Context
	share, dir string
	rows       []row
	imported   bool // the image is this lab's
	err        error
}

// newLab returns a lab with an image, and with a task, a Pod and a Compose file of each number of containers.
func newLab(ctx context.Context, share string, containers ...int) (*lab, error) {
	dir, err := os.MkdirTemp("", "speed")
	if err != nil {
		return nil, err
	}
	l := &lab{ctx: ctx, share: share, dir: dir}
	l.checkUnused()
	for _, n := range containers {
		l.write(fmt.Sprintf("task%d.json", n), task(n, "sleep", "forever"))
		l.write(fmt.Sprintf("pod%d.yaml", n), pod(n))
		l.write(fmt.Sprintf("compose%d.yaml", n), composeFile(n))
	}
	if exec.CommandContext(ctx, "podman", "image", "exists", image).Run() != nil {
		root := l.path("root")
		l.try(os.MkdirAll(filepath.Join(root, "tmp"), 0o755))
		l.run("cp", filepath.Join(share, "testbox"), root)
		l.run("tar", "-C", root, "-cf", l.path("root.tar"), ".")
		l.imported = l.err == nil
		l.run("podman", "import", "-q", "--change", `ENTRYPOINT ["/testbox"]`, l.path("root.tar"), image)
	}
	if l.err != nil {
		l.close()
	}
	return l, l.err
}

// close removes what the lab has made.
func (l *lab) close() {
	if l.imported {
		l.try(exec.Command("podman", "rmi", "--force", "--ignore", image).Run())
	}
	l.try(os.RemoveAll(l.dir))
}

// installed reports whether a peer is there; if not, its rows are left out.
func (l *lab) installed(program string) bool {
	_, err := exec.LookPath(program)
	if err != nil {
		fmt.Fprintf(os.Stderr, "speed: %s is not installed: its rows are left out\n", program)
	}
	return err == nil
}

func (l *lab) path(name string) string { return filepath.Join(l.dir, name) }

func (l *lab) write(name, text string) { l.try(os.WriteFile(l.path(name), []byte(text), 0o600)) }

// try keeps the first error.
func (l *lab) try(err error) {
	if l.err == nil {
		l.err = err
	}
}

// sample holds the measurements of one run of a command: the time from its start to its end, and the processor
// time of all processes of the bed in that time.
type sample struct {
	time, cpu time.Duration
	out       string
}

// run runs a command and returns what it took and printed.
func (l *lab) run(name string, args ...string) sample {
	if l.err != nil {
		return sample{}
	}
	cmd := exec.CommandContext(l.ctx, name, args...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	used, begin := l.usage(), time.Now()
	err := cmd.Run()
	s := sample{time: time.Since(begin), out: strings.TrimSpace(out.String())}
	s.cpu = l.usage() - used
	if err != nil {
		l.try(fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, &problems))
	}
	return s
}

// podtask runs podtask.
func (l *lab) podtask(args ...string) sample {
	return l.run(filepath.Join(l.share, "podtask"), args...)
}

// start starts a task, which needs no pull and no limits.
func (l *lab) start(file string) sample {
	return l.podtask("run", "-d", "--wait=running", "--pull", "never", "--limits", "off", l.path(file))
}

// usage returns the processor time of all processes of the bed.
func (l *lab) usage() time.Duration {
	stat, err := os.ReadFile("/sys/fs/cgroup/cpu.stat")
	l.try(err)
	for line := range strings.Lines(string(stat)) {
		if used, ok := strings.CutPrefix(line, "usage_usec "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(used), 10, 64)
			l.try(err)
			return time.Duration(n) * time.Microsecond
		}
	}
	return 0
}

// background starts a command that runs until the returned function is called.
func (l *lab) background(name string, args ...string) (pid int, stop func()) {
	cmd := exec.Command(name, args...)
	if l.err == nil {
		l.try(cmd.Start())
	}
	if cmd.Process == nil {
		return 0, func() {}
	}
	return cmd.Process.Pid, func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}
}

// await waits until a file exists.
func (l *lab) await(file string) {
	for l.err == nil {
		if _, err := os.Stat(file); err == nil {
			return
		}
		l.pause(100 * time.Millisecond)
	}
}

// awaitAgent waits until an agent that has been started answers.
func (l *lab) awaitAgent() {
	l.await(filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "podtask/podtask.sock"))
}

func (l *lab) pause(d time.Duration) {
	if l.err != nil {
		return
	}
	select {
	case <-time.After(d):
	case <-l.ctx.Done():
		l.try(l.ctx.Err())
	}
}

func task(n int, command ...string) string {
	containers := make([]string, n)
	for i := range containers {
		containers[i] = fmt.Sprintf(`{"name":"c%d","image":%q,"command":["%s"]}`, i+1, image, strings.Join(command, `","`))
	}
	return fmt.Sprintf(`{"family":"speed%d","networkMode":"awsvpc","containerDefinitions":[%s]}`, n, strings.Join(containers, ","))
}

func pod(n int) string {
	text := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: speed%d}\nspec:\n  containers:\n", n)
	for i := range n {
		text += fmt.Sprintf("  - {name: c%d, image: %q, imagePullPolicy: Never, args: [sleep, forever]}\n", i+1, image)
	}
	return text
}

func composeFile(n int) string {
	text := "name: speedcompose\nservices:\n"
	for i := range n {
		text += fmt.Sprintf("  c%d: {image: %q, pull_policy: never, command: [sleep, forever]}\n", i+1, image)
	}
	return text
}
