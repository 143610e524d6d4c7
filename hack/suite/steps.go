package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// computing has the steps that only compute.
var computing = map[string]func(context.Context, *suite){
	"analysis": func(ctx context.Context, s *suite) {
		s.command(ctx, "analysis: golangci-lint", noCgo("hack/go", "tool", "-modfile=tools/go.mod", "golangci-lint", "run", "./..."))
	},
	"check": check,
	// It fails too if the database cannot be reached.
	"vulnerabilities": func(ctx context.Context, s *suite) {
		s.command(ctx, "vulnerabilities", noCgo("hack/go", "tool", "-modfile=tools/go.mod", "govulncheck", "-tags", strings.ReplaceAll(tags(), " ", ",")+",aws", "./cmd/..."))
	},
	"race":   race,
	"norace": norace,
	"fast":   fast,
	// The demo runs a build without parts.
	"core": func(ctx context.Context, s *suite) {
		s.command(ctx, "core: build", idle("env", "BUILD_TAGS=podtask_core", "hack/build", ".bed/core", "./cmd/podtask"))
		s.command(ctx, "core: sizes", idle("hack/sizes"))
		s.goTest(ctx, "core", "-tags", tags()+" podtask_core", "./internal/parts", "./cmd/podtask")
	},
	"pure": func(ctx context.Context, s *suite) {
		s.goTest(ctx, "pure", append(packages(pure...), "./internal/testing/sim")...)
	},
	"mutants": func(ctx context.Context, s *suite) {
		s.tests(ctx, "mutants", noCgo("hack/go", "test", "-json", "-vet=off", "-timeout", "60m", "-tags", tags()+" mutants", "./internal/testing/mutants"))
	},
	// Docker's log drivers take minutes to compile. Debian's syslog servers show what they understand of them.
	"logbox": func(ctx context.Context, s *suite) {
		var env []string
		if s.quiet(ctx, "hack/install.sh", "syslogs") {
			env = append(env, "PODTASK_SYSLOGS="+os.Getenv("BED")+"/syslogs")
		}
		s.box(ctx, "logbox", "", env...)
	},
	"ui": func(ctx context.Context, s *suite) {
		s.quiet(ctx, "hack/install.sh", "browser") // the tests say that there is none
		s.box(ctx, "ui", tags())
	},
	"ingress": func(ctx context.Context, s *suite) {
		s.quiet(ctx, "hack/install.sh", "caddy") // the tests say that these are not there
		s.quiet(ctx, "hack/install.sh", "browser")
		s.box(ctx, "ingress", "")
	},
	"packages": func(ctx context.Context, s *suite) {
		s.quiet(ctx, "hack/install.sh", "release") // the tests say that there is no gpg
		s.tests(ctx, "packages", noCgo("hack/go", "-C", "hack/package", "test", "-json", "-timeout", "20m", "./..."))
	},
}

func tags() string { return os.Getenv("TAGS") }

// idle returns a command with the lowest priority.
func idle(args ...string) command { return command{args: args, idle: true} }

func noCgo(args ...string) command {
	return command{args: args, idle: true, env: []string{"CGO_ENABLED=0"}}
}

// packages returns directories as arguments of the go command.
func packages(dirs ...string) (out []string) {
	for _, d := range dirs {
		out = append(out, "./"+d)
	}
	return out
}

// goTest runs Go tests without cgo. Linking nearly a hundred test programs without debugging information takes a third
// less time.
func (s *suite) goTest(ctx context.Context, name string, args ...string) {
	s.tests(ctx, name, noCgo(append([]string{"hack/go", "test", "-json", "-vet=off", "-ldflags=-w", "-timeout", "45m", "-tags", tags()}, args...)...))
}

// box runs the tests of a module below test/e2e.
func (s *suite) box(ctx context.Context, name, tags string, env ...string) {
	dir := "test/e2e/" + strings.TrimSuffix(name, "box") + "box"
	vet := noCgo("hack/go", "-C", dir, "vet", "-tags", tags, "./...")
	test := noCgo("hack/go", "-C", dir, "test", "-json", "-vet=off", "-timeout", "20m", "-tags", tags, "./...")
	test.env = append(test.env, env...)
	s.command(ctx, name+": vet", vet)
	s.tests(ctx, name, test)
}

func check(ctx context.Context, s *suite) {
	// Vet reads all that a module imports, which takes minutes: the everyday run compiles these only.
	for _, module := range []string{"test/e2e/awsbox", "test/e2e/pluginbox", "podman-crash"} {
		s.command(ctx, "check: vet "+module, noCgo("hack/go", "-C", module, "vet", "./..."))
	}
	s.command(ctx, "check: go.mod", idle("hack/go", "mod", "tidy", "-diff"))
	testdata := "internal/testing/controlplane/testdata/"
	for _, module := range []string{"test/e2e/awsbox", "test/e2e/pluginbox", "test/e2e/logbox", "test/e2e/ingressbox", testdata + "kubernetes", testdata + "conformance",
		testdata + "metrics-server", "podman-crash", "hack/package", "tools"} {
		s.command(ctx, "check: go.mod of "+module, idle("hack/go", "-C", module, "mod", "tidy", "-diff"))
	}
	if _, err := exec.LookPath("shellcheck"); err == nil || s.quiet(ctx, "hack/install.sh", "lint") {
		s.command(ctx, "check: shell", idle("bash", "-c", `grep -rlIE "^#!/bin/(ba)?sh" hack .ci docs | xargs shellcheck -x -P hack -P SCRIPTDIR`))
	} else {
		s.skip(ctx, "check: shell", "no shellcheck")
	}
}

// race leaves vet to the analysis, which vets tests too.
func race(ctx context.Context, s *suite) {
	if !s.quiet(ctx, "hack/install.sh", "race") {
		s.skip(ctx, "race", "no C compiler, which the race detector needs")
		fast(ctx, s)
		return
	}
	with, _, err := byGoroutines(ctx)
	if err != nil {
		s.note("race", err.Error())
		s.count(ctx, "race", false, 0)
		return
	}
	c := idle(append([]string{"hack/go", "test", "-json", "-vet=off", "-ldflags=-w", "-timeout", "45m", "-race", "-tags", tags()}, with...)...)
	c.env = []string{"CGO_ENABLED=1"}
	s.tests(ctx, "race", c)
}

// norace runs, of packages with goroutines, only the tests that race leaves out.
func norace(ctx context.Context, s *suite) {
	_, without, err := byGoroutines(ctx)
	var names, rest []string
	if err == nil {
		names, rest, err = notInRace(ctx, without)
	}
	if err != nil {
		s.note("norace", err.Error())
		s.count(ctx, "norace", false, 0)
		return
	}
	s.goTest(ctx, "norace", without...)
	s.goTest(ctx, "norace: the rest", append([]string{"-run", "^(" + strings.Join(names, "|") + ")$"}, rest...)...)
	s.goTest(ctx, "norace: aws", "-tags", tags()+" aws", "./internal/host/secretsource/awsvalues")
	s.testCrash(ctx)
}

func fast(ctx context.Context, s *suite) {
	s.goTest(ctx, "fast", "./...")
	s.testCrash(ctx)
}

// testCrash runs the tests of podman-crash, a module of its own. They need no Podman.
func (s *suite) testCrash(ctx context.Context) {
	s.tests(ctx, "podman-crash", noCgo("hack/go", "-C", "podman-crash", "test", "-json", "-vet=off", "./..."))
}

// Without goroutines there are no data races, and the race detector makes computing ten times as slow. concurrent matches
// what runs at the same time as something else.
var concurrent = regexp.MustCompile(`(?m)(^|[^[:alnum:]])go func|^[[:space:]]*go [[:alpha:]]|\.Go\(|chan |"(sync|sync/atomic|testing/synctest|context|net/http|net/http/httptest|os/exec)"`)

// byGoroutines returns the packages with tests that have goroutines, and those that have none, tests included, with the
// pure packages and the simulations.
func byGoroutines(ctx context.Context) (with, without []string, err error) {
	out, err := exec.CommandContext(ctx, "hack/go", "list", "-tags", tags(), "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}", "./...").Output()
	if err != nil {
		return nil, nil, fmt.Errorf("go list: %w", err)
	}
	root, err := os.Getwd()
	if err != nil {
		return nil, nil, err
	}
	without = append(packages(pure...), packages("internal/testing/archtest", "internal/testing/sim", "internal/testing/enginesim")...)
	for _, dir := range strings.Fields(string(out)) {
		name := "./" + strings.TrimPrefix(dir, root+"/")
		files, _ := filepath.Glob(dir + "/*.go")
		switch found := slices.ContainsFunc(files, func(f string) bool { text, _ := os.ReadFile(f); return concurrent.Match(text) }); {
		case slices.Contains(without, name):
		case found:
			with = append(with, name)
		default:
			without = append(without, name)
		}
	}
	return with, without, nil
}

var (
	notRace  = regexp.MustCompile(`(?m)^//go:build !race\b`)
	testFunc = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]*)\(`)
)

// notInRace returns the tests in files with the constraint !race, and their packages but for those of another list.
func notInRace(ctx context.Context, but []string) (names, packages []string, err error) {
	out, err := exec.CommandContext(ctx, "git", "ls-files", "*_test.go").Output()
	if err != nil {
		return nil, nil, fmt.Errorf("git ls-files: %w", err)
	}
	for _, file := range strings.Fields(string(out)) {
		text, _ := os.ReadFile(file)
		if !notRace.Match(text) {
			continue
		}
		for _, m := range testFunc.FindAllSubmatch(text, -1) {
			names = append(names, string(m[1]))
		}
		if p := "./" + filepath.Dir(file); !slices.Contains(but, p) && !slices.Contains(packages, p) {
			packages = append(packages, p)
		}
	}
	return names, packages, nil
}
