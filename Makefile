# Every target works from a fresh clone; what it needs is installed on the way
# (hack/install.sh) or named in one line.

FUZZTIME ?= 20s

.PHONY: help build test test-fast test-pure test-plain test-systemd test-vm check race fuzz mutants nightly bench demo clean clean-beds

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

build: ## build the programs into bin/
	hack/build

test: ## everything: analysis, unit tests with the race detector, mutants, all test beds
	hack/test

test-fast: ## the everyday loop: gofmt, vet, staticcheck and the unit tests
	hack/test analysis fast

test-pure: ## the pure packages only
	hack/test pure

test-plain: ## end to end on this host's Podman as an ordinary user
	hack/test plain

test-systemd: ## end to end on Debian 13's Podman with a real user manager
	hack/test systemd

test-vm: ## end to end in a virtual machine: real limits, the out-of-memory killer, reboots
	hack/test vm

check: ## test, and go.mod and the shell scripts besides
	hack/test analysis check unit mutants plain systemd vm

race: ## the unit tests with the race detector
	hack/test unit

fuzz: ## every fuzz target for FUZZTIME (20s)
	hack/fuzz $(FUZZTIME)

mutants: ## sabotages of the core, each of which the tests must catch
	hack/test mutants

nightly: ## what takes too long for every day; its results go to docs/dev/nightly.md
	hack/nightly

bench: ## benchmarks
	hack/bench

demo: ## a task of three containers, run before your eyes
	hack/demo.sh

clean: ## remove what was built in this clone
	rm -rf bin .bed

clean-beds: ## remove the test beds of this clone, and their users
	hack/clean-beds
