package main

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// removeBed ends what an earlier run left in a bed. The built system stays.
func (s *suite) removeBed(ctx context.Context, bed string) {
	if bed == "plain" {
		s.quiet(ctx, "hack/bed-plain", "reset")
		return
	}
	s.quiet(ctx, "hack/bed-"+bed, "stop")
}

// testBed waits until a bed and its tests are ready and runs them.
func (s *suite) testBed(ctx context.Context, bed string) {
	switch s.await(ctx, bed+".started") {
	case 0:
		if s.wants(bed) {
			s.testStarted(ctx, bed)
		}
		if bed == "systemd" && s.wants("kubernetes") {
			s.testNode(ctx)
		}
		if bed == "systemd" && s.wants("conformance") {
			s.testConformance(ctx)
		}
	case 3:
		s.skip(ctx, "e2e "+bed, s.lastLine(bed+"-bed"))
	default:
		s.failBuild(ctx, "e2e "+bed+": bed", bed+"-bed")
	}
	s.removeBed(ctx, bed)
}

// testStarted runs the tests of a bed, when they are compiled, and those of the packages.
func (s *suite) testStarted(ctx context.Context, bed string) {
	if s.await(ctx, bed+".compiled") != 0 {
		s.failBuild(ctx, "e2e "+bed+": build", bed+"-build")
		return
	}
	lists := os.Getenv("SHARE") + "/e2e-" + bed + "/tests"
	if bed == "systemd" && exists(lists+".alone") && exists(lists+".together") {
		// A second bed runs the tests that want a bed for themselves. One after the other they take longest, so the
		// processors serve that bed first.
		var second sync.WaitGroup
		second.Go(func() {
			s.tests(ctx, "e2e systemd: alone", e2e("run", bed, "PART=alone", "SYSTEMD_BED=second", "SYSTEMD_WEIGHT=3"))
		})
		s.tests(ctx, "e2e systemd", e2e("run", bed, "PART=together"))
		second.Wait()
	} else {
		s.tests(ctx, "e2e "+bed, e2e("run", bed))
	}
	switch {
	case bed == "vm" || !s.wants("packages"):
	case os.Geteuid() == 0:
		s.command(ctx, "packages "+bed, command{args: []string{"hack/test-package", bed}})
	default:
		s.skip(ctx, "packages "+bed, "only root can install packages")
	}
	// Only Debian 12 has systemd 252, so its machine tests .task units too.
	if bed == "vm" && s.getenv("VM_SUITE") == "bookworm" {
		s.removeBed(ctx, bed)
		s.build(ctx, "vm.units", "vm-build", command{env: []string{"ONLY=^TestUnit"}, args: []string{"hack/e2e", "build", "vm", "./test/e2e"}})
		s.tests(ctx, "e2e vm: units", e2e("run", bed))
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// e2e returns a call of hack/e2e with variables of the environment.
func e2e(verb, bed string, env ...string) command {
	c := command{env: env, args: []string{"hack/e2e", verb, bed}}
	if verb == "build" {
		c.args, c.idle = append(c.args, "./test/e2e"), bed != "vm"
	}
	return c
}

// buildKubernetes builds the control plane and what runs with it and, if they were built before, a selection of
// Kubernetes' own tests.
func (s *suite) buildKubernetes(ctx context.Context) {
	s.await(ctx, "programs")
	s.build(ctx, "kubernetes", "kubernetes-build", idle("hack/controlplane"), e2e("build", "systemd", "KUBERNETES=1"))
	if !s.wants("conformance") {
		s.build(ctx, "selection", "selection-build", idle("hack/conformance-build", "--cached"), e2e("build", "systemd", "CONFORMANCE=1"))
	}
}

// buildConformance builds Kubernetes' own tests and what runs with them.
func (s *suite) buildConformance(ctx context.Context) {
	s.await(ctx, "programs")
	s.build(ctx, "conformance", "conformance-build", idle("hack/controlplane"), idle("hack/conformance-build"), e2e("build", "systemd", "CONFORMANCE=1"))
}

// testNode runs the tests of a control plane, those of this host as its node and, if they were built before, a selection of
// Kubernetes' own tests: a first run would wait for them.
func (s *suite) testNode(ctx context.Context) {
	if s.await(ctx, "kubernetes") != 0 {
		s.failBuild(ctx, "kubernetes: build", "kubernetes-build")
		return
	}
	plane, _ := exec.CommandContext(ctx, "hack/controlplane").Output()
	c := noCgo("hack/go", "test", "-json", "-vet=off", "-ldflags=-w", "-timeout", "45m", "-tags", tags()+" kubernetes", "./internal/testing/controlplane")
	c.env, c.idle = append(c.env, "PODTASK_CONTROLPLANE="+strings.TrimSpace(string(plane))), false
	s.tests(ctx, "kubernetes", c)
	s.tests(ctx, "e2e kubernetes", e2e("run", "systemd", "KUBERNETES=1"))
	if s.wants("conformance") {
		return
	}
	switch s.await(ctx, "selection") {
	case 0:
		s.tests(ctx, "conformance: selection", e2e("run", "systemd", "CONFORMANCE=1", "CONFORMANCE_SELECTION=1"))
	case 3:
		say("conformance: selection: %s", s.lastLine("selection-build"))
	default:
		s.failBuild(ctx, "conformance: selection: build", "selection-build")
	}
}

// testConformance runs Kubernetes' own tests with this host as two nodes, and those that need cgroup controllers in the
// virtual machine.
func (s *suite) testConformance(ctx context.Context) {
	if s.await(ctx, "conformance") != 0 {
		s.failBuild(ctx, "conformance: build", "conformance-build")
		return
	}
	s.tests(ctx, "conformance", e2e("run", "systemd", "CONFORMANCE=1"))
	s.tests(ctx, "conformance: kills", e2e("run", "systemd", "CONFORMANCE=1", "CONFORMANCE_SELECTION=1", "CONFORMANCE_KILLS=15s"))
	const limits = "conformance: limits"
	if s.wants("vm") {
		s.skip(ctx, limits, "the step vm uses the virtual machine: run the step conformance by itself")
		return
	}
	switch s.build(ctx, "resizes", "resizes-build", command{args: []string{"hack/bed-vm", "start"}}, e2e("build", "vm", "CONFORMANCE=1")) {
	case 0:
		s.tests(ctx, limits, e2e("run", "vm", "CONFORMANCE=1", `CONFORMANCE_FOCUS=Pod InPlace Resize.*\[Conformance\]`, "CONFORMANCE_PROCS=1"))
	case 3:
		s.skip(ctx, limits, s.lastLine("resizes-build"))
	default:
		s.failBuild(ctx, limits+": build", "resizes-build")
	}
	s.removeBed(ctx, "vm")
}

// demo runs the demo, in a bed of its own.
func (s *suite) demo(ctx context.Context) {
	begin := time.Now()
	switch status := s.exec(ctx, command{args: []string{"env", "-u", "BED", "hack/demo.sh"}}, s.logOf("demo")); status {
	case 3:
		s.skip(ctx, "demo", s.lastLine("demo"))
	default:
		s.count(ctx, "demo", status == 0, seconds(begin))
	}
}
