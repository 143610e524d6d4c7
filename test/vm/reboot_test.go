//go:build e2e && bed_vm

package vm

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A task that a .task unit of a lingering user runs, and a task whose owner
// was killed, live through two ends of the machine. From boot to boot the
// tests know each other through a file.

// life is what a test leaves for the one after the next boot.
type life struct {
	Boot   string // the kernel's boot id
	Web    string // id of the service's task
	Orphan string // id of the task without owner
}

const service = "web-task.service"

func lifeFile() string { return filepath.Join(os.Getenv("HOME"), "life.json") }

func bootID(t *testing.T) string {
	t.Helper()
	return setting(t, "/proc/sys/kernel/random", "boot_id")
}

// leave starts a task without an owner and notes what runs.
func leave(t *testing.T) {
	t.Helper()
	path := defineLasting(t, "orphan", "256", "64", box("app", "sleep forever", 0))
	orphan := podtask(t, "run", "-d", "--wait=running", "--name", "orphan", path)
	killOwner(t, orphan)
	data, err := json.Marshal(life{bootID(t), serviceTask(t, ""), orphan})
	if err == nil {
		err = os.WriteFile(lifeFile(), data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	// For this file, and for Podman's storage: of a container made in the last
	// seconds a power cut leaves what Podman itself cannot inspect.
	must(t, "sync")
}

func before(t *testing.T) (l life) {
	t.Helper()
	data, err := os.ReadFile(lifeFile())
	if err == nil {
		err = json.Unmarshal(data, &l)
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// serviceTask waits until the service's task runs, which is not the one with
// the id old, and returns its id.
func serviceTask(t *testing.T, old string) (id string) {
	t.Helper()
	eventually(t, "the task of "+service, func() bool {
		out, _ := exec.Command(bin(), "ps", "--quiet", "--no-trunc", "--filter", "name=web", "--filter", "status=RUNNING").Output()
		id = strings.TrimSpace(string(out))
		return id != "" && id != old
	})
	return id
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func unitDir() string { return filepath.Join(os.Getenv("HOME"), ".config/containers/systemd") }

func TestBeforeReboot(t *testing.T) {
	// As a package would install them.
	generators := "/usr/local/lib/systemd/user-generators"
	must(t, "sudo", "mkdir", "-p", generators)
	must(t, "sudo", "cp", filepath.Join(filepath.Dir(bin()), "podtask-user-generator"), generators)
	must(t, "sudo", "cp", bin(), "/usr/local/bin/podtask")
	units := unitDir()
	web, err := os.ReadFile(defineLasting(t, "web", "256", "64", box("app", "sleep forever", 32)))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(units, "web.json"), string(web))
	write(t, filepath.Join(units, "web.task"), "[Task]\nDefinition=./web.json\n[Service]\nRestart=on-failure\nRestartSec=2s\n[Install]\nWantedBy=default.target\n")
	must(t, "systemctl", "--user", "daemon-reload")
	must(t, "systemctl", "--user", "start", service)
	leave(t)
	configureShop(t)
	t.Run("an agent with a task", runOrdered)
	t.Run("a service with references", runShop)
	t.Run("an instance of ECS with a task", runOfECS)
}

// backAgain checks both tasks after a boot, removes the one that ended and
// returns its exit code and why it stopped.
func backAgain(t *testing.T) (code, reason string) {
	t.Helper()
	old := before(t)
	if bootID(t) == old.Boot {
		t.Fatal("the machine was not booted")
	}
	web := serviceTask(t, old.Web)
	if got := inspect(t, "web").ID; got != web {
		t.Errorf("web is task %s, want %s", got, web)
	}
	if _, _, code := command(t, bin(), "inspect", old.Web); code != 125 {
		t.Errorf("the service's task of the last boot is still known: code %d", code)
	}

	code = podtask(t, "wait", old.Orphan)
	orphan := inspect(t, old.Orphan)
	if orphan.Status != "STOPPED" || orphan.StoppedReason == "" {
		t.Errorf("the task without owner is %s for reason %q, want STOPPED with one", orphan.Status, orphan.StoppedReason)
	}
	t.Logf("the task without owner: code %s, %s: %s", code, orphan.StopCode, orphan.StoppedReason)

	// Nothing is doubled, and what ended does not run.
	running := must(t, "podman", "ps", "--filter", "label=podtask.container", "--format", `{{index .Labels "podtask.task-id"}}`)
	if running != web {
		t.Errorf("containers run of the tasks %q, want one of %s", running, web)
	}
	podtask(t, "rm", old.Orphan)
	if out := must(t, "podman", "ps", "-a", "--filter", "label=podtask.task-id="+old.Orphan, "--format", "{{.Names}}"); out != "" {
		t.Errorf("left of the task without owner: %s", out)
	}
	slices, err := filepath.Glob(filepath.Join(manager(), "podtask*.slice"))
	if err != nil || len(slices) != 1 || filepath.Base(slices[0]) != "podtask"+web+".slice" {
		t.Errorf("slices: %v, want that of %s", slices, web)
	}
	if out := must(t, "podman", "pod", "ps", "--filter", "label=podtask.task-id", "--quiet"); len(strings.Fields(out)) != 1 {
		t.Errorf("pods: %q, want one", out)
	}
	return code, orphan.StoppedReason
}

func TestAfterReboot(t *testing.T) {
	t.Run("the agent's task was stopped in order", checkOrdered)
	t.Run("ECS learns that its task has ended", checkOfECS)
	t.Run("the service has a copy again", checkShopAfterBoot)
	// The other task is not stopped before the machine goes down: its exit code is kept if
	// Podman's clean-up of a container is faster than that.
	if code, reason := backAgain(t); code != "143" && (code != "125" || !strings.Contains(reason, "its exit code is lost")) {
		t.Errorf("wait printed %q (%s) for a task that got SIGTERM at the end of the machine, want 143, or that it is lost", code, reason)
	}
	leave(t)
}

func TestAfterCrash(t *testing.T) {
	if code, _ := backAgain(t); code == "0" {
		t.Error("wait says that the task succeeded, though its end was not observed")
	}
	must(t, "systemctl", "--user", "stop", service)
	must(t, "rm", filepath.Join(unitDir(), "web.task"), filepath.Join(unitDir(), "web.json"), lifeFile())
	must(t, "systemctl", "--user", "daemon-reload")
	for _, l := range leftovers(t) {
		t.Errorf("left behind: %s", l)
	}
}
