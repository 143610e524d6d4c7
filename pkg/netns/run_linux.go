package netns

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Network describes the network namespace of a process as it is seen from outside.
type Network struct {
	// ID is the name of the namespace in /proc. Another namespace may get it when this one is gone.
	ID string
	// Interfaces are those that lead out: neither the loopback nor the link to the metadata endpoint.
	Interfaces []string
	// IPv6: an interface has an IPv6 address that others can reach.
	IPv6 bool
}

// Networks looks at network namespaces of processes and runs programs of the host in them.
type Networks struct{}

// Look returns what the network namespace of a process has.
func (Networks) Look(pid int) (Network, error) {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	id, err := os.Readlink(filepath.Join(proc, "ns/net"))
	if err != nil {
		return Network{}, fmt.Errorf("find the network of process %d: %w", pid, err)
	}
	text, err := os.ReadFile(filepath.Join(proc, "net/dev"))
	if err != nil {
		return Network{}, fmt.Errorf("read the interfaces of process %d: %w", pid, err)
	}
	n := Network{ID: id, Interfaces: parseInterfaces(text)}
	if text, err = os.ReadFile(filepath.Join(proc, "net/if_inet6")); err == nil { // without IPv6 there is none
		n.IPv6 = len(parseInet6(string(text))) > 0
	}
	return n, nil
}

// Run runs a program of the host in the user and network namespaces of a process, with input, and
// returns what it prints. The error of a program that fails has that too. The caller need not be able to
// enter the namespaces itself; see ListenIn.
func (Networks) Run(ctx context.Context, pid int, input, program string, args ...string) (string, error) {
	path, err := find(program)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "nsenter", append([]string{"--target", strconv.Itoa(pid), "--user", "--preserve-credentials", "--net", "--", path}, args...)...)
	var said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &said, &said
	err = cmd.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		err = errNoNsenter
	case ctx.Err() != nil:
		err = fmt.Errorf("run %s: %w", program, context.Cause(ctx))
	case err != nil:
		err = &ProgramError{Program: program, Said: strings.TrimSpace(said.String()), Err: err}
	}
	return said.String(), err
}

// ProgramError is the error of a program that failed in a namespace.
type ProgramError struct {
	Program string
	// Said is its output.
	Said string
	Err  error
}

func (e *ProgramError) Error() string {
	if e.Said == "" {
		return fmt.Sprintf("%s: %v", e.Program, e.Err)
	}
	return fmt.Sprintf("%s: %s", e.Program, e.Said)
}

func (e *ProgramError) Unwrap() error { return e.Err }

// MissingError is the error of a program that the host does not have.
type MissingError struct{ Program string }

func (e *MissingError) Error() string { return e.Program + " is missing on this host" }

// find returns the path of a program, also of one for administrators, which users may not have in their
// PATH.
func find(program string) (string, error) {
	for _, name := range []string{program, "/usr/sbin/" + program, "/sbin/" + program} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", &MissingError{program}
}

// parseInterfaces reads the names in /proc/PID/net/dev.
func parseInterfaces(text []byte) []string {
	var names []string
	for line := range strings.Lines(string(text)) {
		name, numbers, ok := strings.Cut(line, ":")
		name = strings.TrimSpace(name)
		if ok && len(strings.Fields(numbers)) >= 16 && name != "lo" && name != nearName {
			names = append(names, name)
		}
	}
	return names
}
