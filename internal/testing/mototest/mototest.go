package mototest

import (
	"bufio"
	"os/exec"
	"strings"
	"testing"
)

// Start starts moto's server and returns its URL. It ends with the test.
func Start(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "moto_server", "-H", "127.0.0.1", "-p", "0")
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // it was killed
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, url, ok := strings.Cut(lines.Text(), "Running on "); ok {
			go func() {
				for lines.Scan() { // what it says of each request
				}
			}()
			return strings.TrimSpace(url)
		}
	}
	t.Fatal("moto_server does not start")
	return ""
}
