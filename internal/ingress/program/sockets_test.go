package program

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// In a unit of systemd, ports that may not be opened are a line for the status, with the command that says more, and in the
// foreground they are an error with all ways, once.
func TestPortsThatMayNotBeOpened(t *testing.T) {
	t.Parallel()
	plain, secure := fmt.Errorf("listen on :80: %w", syscall.EACCES), fmt.Errorf("listen on :443: %w", syscall.EACCES)
	problems, _ := failures(true, plain, secure, 1024)
	want := "listen on :80: permission denied; listen on :443: permission denied (users may open ports from 1024 on): `podtask doctor` says how to change that"
	if got := strings.Join(problems, "; "); got != want {
		t.Errorf("%q\nwant %q", got, want)
	}
	_, err := failures(false, plain, secure, 1024)
	if n := strings.Count(err.Error(), "Any one of these"); n != 1 || strings.Contains(err.Error(), "start=443") {
		t.Errorf("the ways are there %d times: %s", n, err)
	}
	if problems, err := failures(true, nil, fmt.Errorf("listen on :443: %w", syscall.EADDRINUSE), 1024); err == nil || len(problems) != 1 || strings.Contains(problems[0], "doctor") {
		t.Errorf("%q, %v", problems, err)
	}
	if problems, err := failures(true, nil, nil, 1024); err != nil || problems != nil {
		t.Errorf("%q, %v", problems, err)
	}
}
