package certs

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"time"

	"github.com/mholt/acmez/v3/acme"
)

// programTime limits a run of the program that makes records.
const programTime = 5 * time.Minute

// dnsProgram proves names by DNS-01: a program makes and removes the records. It is called with present or
// cleanup, the name of the TXT record and its value, and ends when servers have the record.
type dnsProgram []string

// Present implements acmez.Solver.
func (p dnsProgram) Present(ctx context.Context, c acme.Challenge) error {
	return p.run(ctx, "present", c)
}

// CleanUp implements acmez.Solver.
func (p dnsProgram) CleanUp(ctx context.Context, c acme.Challenge) error {
	return p.run(ctx, "cleanup", c)
}

func (p dnsProgram) run(ctx context.Context, verb string, c acme.Challenge) error {
	ctx, cancel := context.WithTimeout(ctx, programTime)
	defer cancel()
	args := append(append([]string{}, p[1:]...), verb, c.DNS01TXTRecordName(), c.DNS01KeyAuthorization())
	cmd := exec.CommandContext(ctx, p[0], args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	cmd.WaitDelay = time.Second // a program that it started may hold its output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", p[0], verb, err, short(fmt.Errorf("%s", said.Bytes())))
	}
	return nil
}
