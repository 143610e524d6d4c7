//go:build e2e && bed_systemd

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// The example of a job is started by its timer, and the service has the exit status of the task.
func TestExampleOfATimerRuns(t *testing.T) {
	u := newUnits(t)
	shell, err := mutate.Config(shellImage(t), v1.Config{Env: []string{"PATH=/bin", "LD_LIBRARY_PATH=/lib"}})
	if err != nil {
		t.Fatal(err)
	}
	image, _ := u.push("shell:1", shell)
	u.file("report.task", example(t, "batch/report.task", "docker.io/library/alpine:3", image, "date >", "echo now >", "Type=oneshot", "Type=oneshot\n"+u.environment()))
	service, timer := u.family+"-report-task.service", u.family+"-report.timer"
	u.made = append(u.made, service)
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(home, ".config", "systemd", "user", timer)
	text := example(t, "batch/report.timer", "OnCalendar=03:00\nRandomizedDelaySec=10min", "OnActiveSec=1s\nAccuracySec=1s", "report-task.service", service)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		u.systemctl("stop", timer)
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	})
	u.systemctl("daemon-reload")
	u.systemctl("start", timer)
	eventually(t, "an end of the job\n"+u.journal(), func() bool {
		return u.show(service, "ExecMainExitTimestampMonotonic") != "0" && u.show(service, "ActiveState") != "active" && u.show(service, "ActiveState") != "activating"
	})
	if result, status := u.show(service, "Result"), u.show(service, "ExecMainStatus"); result != "success" || status != "0" {
		t.Errorf("the job ended with %s, %s:\n%s", result, status, u.journal())
	}
}

// The example of a unit with a definition beside it becomes a service whose task is healthy.
func TestExampleOfAUnitRuns(t *testing.T) {
	u := newUnits(t)
	const secret, volume = "blog-db-password", "blog-data"
	create := exec.Command("podman", "secret", "create", secret, "-")
	create.Stdin = strings.NewReader("plum")
	if out, err := create.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() {
		_ = exec.Command("podman", "secret", "rm", secret).Run()
		_ = exec.Command("podman", "volume", "rm", "--force", volume).Run()
	})
	src := yamlAsJSON(t, example(t, "units/blog.yaml"))
	u.file("blog.yaml", u.withTestbox(src, u.testbox(), "none", ""))
	u.file("blog.task", example(t, "units/blog.task", "Definition=./blog.yaml", "Definition=./"+u.family+"-blog.yaml\nPodtaskArgs=--limits=off",
		"127.0.0.1:8080:", "127.0.0.1:"+strconv.Itoa(freePort(t))+":", "Restart=on-failure", "Restart=on-failure\n"+u.environment()))
	service := u.family + "-blog-task.service"
	u.made = append(u.made, service)
	u.systemctl("daemon-reload")
	u.systemctl("start", service)
	if now := u.inspect(u.name("blog")); now.Status != "RUNNING" || now.Health != "HEALTHY" {
		t.Errorf("the task of the unit is %s, %s\n%s", now.Status, now.Health, u.journal())
	}
	inOrder(t, u.events(), "db HEALTHY", "migrate STOPPED", "web RUNNING")
}
