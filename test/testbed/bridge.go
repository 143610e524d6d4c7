package testbed

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// HasBridge reports whether Podman of the bed can make bridge networks. Each can, but for
// one that says with PODTASK_NO_BRIDGE that it cannot; Main checks that.
func HasBridge() bool { return os.Getenv("PODTASK_NO_BRIDGE") == "" }

// NeedBridge skips a test of bridge networks in a bed without them.
func NeedBridge(t testing.TB) {
	t.Helper()
	if !HasBridge() {
		t.Skip("this bed's Podman makes no bridge networks")
	}
}

// checkNoBridge fails in a bed that says that it has no bridge networks and has them: then
// tests are skipped for no reason.
func checkNoBridge() error {
	if HasBridge() {
		return nil
	}
	name := fmt.Sprintf("podtask-test-%d", os.Getpid())
	if exec.Command("podman", "network", "create", name).Run() != nil {
		return nil
	}
	return errors.Join(errors.New("PODTASK_NO_BRIDGE is set, and Podman makes bridge networks: unset it"), exec.Command("podman", "network", "rm", name).Run())
}
