// Suite runs steps of the test suite, side by side where they do not disturb each other, and prints a summary. hack/test
// runs it, and documents the steps.
//
// The work is divided into jobs that run at the same time: one compiles the programs and tests for the beds and then runs
// all steps that only compute, one builds the beds and runs the demo, one builds the control plane, and one for each bed
// runs its tests as soon as both are ready.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	s, err := newSuite(os.Args[1:], os.Getenv)
	if err != nil {
		fmt.Fprintln(os.Stderr, "test:", err)
		os.Exit(1)
	}
	say("running %s; logs are in %s", strings.Join(s.wanted, " "), s.logs)
	begin := time.Now()
	s.run(ctx)
	if ctx.Err() != nil {
		os.Exit(130)
	}
	if !s.summary(os.Stdout, time.Since(begin)) {
		os.Exit(1)
	}
}

// newSuite returns a suite with an empty directory for logs.
func newSuite(steps []string, getenv func(string) string) (*suite, error) {
	s := &suite{logs: ".bed/test", getenv: getenv, parts: make(map[string]*part)}
	for _, name := range steps {
		if computing[name] == nil && !slices.Contains([]string{"plain", "systemd", "vm", "kubernetes", "conformance", "demo"}, name) {
			return nil, fmt.Errorf("no step %s; see the head of hack/test", name)
		}
		if !s.wants(name) {
			s.wanted = append(s.wanted, name)
		}
	}
	if err := os.RemoveAll(s.logs); err != nil {
		return nil, err
	}
	return s, os.MkdirAll(s.logs, 0o755)
}

// run runs all jobs and waits for them.
func (s *suite) run(ctx context.Context) {
	var first []string // the virtual machine is slow beside two other beds, so it comes after the first of them
	for _, bed := range s.beds() {
		if bed != "systemd" {
			first = append(first, bed)
		}
	}
	jobs := []func(context.Context){s.compute, s.prepare, func(ctx context.Context) {
		for _, bed := range first {
			s.testBed(ctx, bed)
		}
	}}
	if s.wants("kubernetes") {
		jobs = append(jobs, s.buildKubernetes)
	}
	if s.wants("conformance") {
		jobs = append(jobs, s.buildConformance)
	}
	if slices.Contains(s.beds(), "systemd") {
		jobs = append(jobs, func(ctx context.Context) { s.testBed(ctx, "systemd") })
	}
	var all sync.WaitGroup
	for _, job := range jobs {
		all.Go(func() { job(ctx) })
	}
	all.Wait()
}

// beds returns the beds that are needed, in the order of the steps.
func (s *suite) beds() (beds []string) {
	for _, name := range s.wanted {
		if name == "plain" || name == "systemd" || name == "vm" {
			beds = append(beds, name)
		}
	}
	if (s.wants("kubernetes") || s.wants("conformance")) && !s.wants("systemd") {
		beds = append(beds, "systemd")
	}
	return beds
}

// compute compiles what the beds wait for and then, with the lowest priority, runs the steps that nothing waits for.
func (s *suite) compute(ctx context.Context) {
	for _, bed := range s.beds() {
		if s.wants(bed) {
			args := []string{"hack/e2e", "build", bed}
			if bed == "vm" { // it is slow at system calls, so only what needs it runs there
				args = append(args, "./pkg/cgroups", "./test/vm")
			}
			s.build(ctx, bed+".compiled", bed+"-build", command{args: args})
		}
	}
	s.part("programs").finish(0)
	var beside sync.WaitGroup
	for _, name := range s.wanted {
		switch step := computing[name]; {
		case step == nil:
		case name == "norace": // the simulations compute on one processor for minutes, so what follows runs beside them
			beside.Go(func() { step(ctx, s) })
		default:
			step(ctx, s)
		}
	}
	beside.Wait()
}

// prepare installs packages, builds the beds and runs the demo.
func (s *suite) prepare(ctx context.Context) {
	groups := s.beds()
	if s.wants("race") {
		groups = append(groups, "race")
	}
	if s.wants("demo") {
		groups = append(groups, "plain")
	}
	if len(groups) > 0 {
		_ = s.quiet(ctx, append([]string{"hack/install.sh"}, groups...)...) // each step asks again
	}
	for _, bed := range s.beds() {
		s.removeBed(ctx, bed)
		begin := time.Now()
		if s.build(ctx, bed+".started", bed+"-bed", command{args: []string{"hack/bed-" + bed, "start"}}) == 0 {
			say("bed %s: ready after %d s", bed, seconds(begin))
		}
	}
	if s.wants("demo") {
		s.demo(ctx)
	}
}
