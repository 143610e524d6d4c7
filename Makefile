# Every target works from a fresh clone. What it needs is installed by hack/install.sh,
# or named in one line where only root may install it.

FUZZTIME ?= 20s
PREFIX ?= /usr/local

.PHONY: help build test test-fast test-pure test-plain test-systemd test-kubernetes test-vm check vulnerabilities race fuzz mutants nightly bench demo install uninstall package release clean clean-beds

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

build: ## build the programs into bin/
	hack/build

test: ## analysis, all tests with and without the race detector, the packages, two test beds, the demo
	hack/test

test-fast: ## the everyday loop: golangci-lint and all Go tests that need no bed
	hack/test analysis fast

test-pure: ## the tests of the pure packages only
	hack/test pure

test-plain: ## end to end on this host's Podman, as an ordinary user
	hack/test plain

test-systemd: ## end to end on Debian 13's Podman with a real user manager
	hack/test systemd

test-kubernetes: ## with a control plane of Kubernetes, which it builds once (about ten minutes)
	hack/test kubernetes

test-vm: ## end to end in a virtual machine: real limits, the out-of-memory killer, reboots
	hack/test vm

check: ## everything: "make test", mutants, Kubernetes, the virtual machine, and the checks of go.mod and of the shell scripts
	hack/test analysis check race norace core mutants packages ui kubernetes plain systemd vm demo

vulnerabilities: ## known vulnerabilities that the programs reach (govulncheck; needs vuln.go.dev)
	hack/test vulnerabilities

race: ## the Go tests with goroutines that need no bed, with the race detector
	hack/test race

fuzz: ## every fuzz target for FUZZTIME (20s)
	hack/fuzz $(FUZZTIME)

mutants: ## faults put into the code, each of which the tests must detect
	hack/test mutants

nightly: ## what takes too long for every run; the results are in .bed/nightly
	hack/nightly

bench: ## benchmarks
	hack/bench

demo: ## run a task of three containers and show each step
	hack/demo.sh

install: ## install below PREFIX (/usr/local); without root: make install PREFIX=$$HOME/.local
	hack/dist install "$(PREFIX)"

uninstall: ## remove what "make install" with the same PREFIX installed
	hack/dist uninstall "$(PREFIX)"

package: ## build a deb, an rpm, a tarball, an SBOM and checksums into dist/
	hack/dist package dist

release: ## the same for all architectures, from a clean clone at a tag such as v1.2.3, signed with SIGNING_KEY
	hack/dist release dist

clean: ## remove what was built in this clone, test beds not included
	rm -rf bin dist .bed

clean-beds: ## remove the test beds of this clone and their users
	hack/clean-beds
