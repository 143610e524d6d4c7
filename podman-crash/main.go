// podman-crash kills rootless Podman at chosen system calls of its commands, and checks what works afterwards. See
// README.md.
//
// It ends with 0 if all invariants held, with 1 if one did not, and with 2 if it could not run.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

type options struct {
	scenarios, programs, syscall, fault, image, podman, junit string
	when, kills                                               int
	seed                                                      uint64
	deadline, limit                                           time.Duration
	trace                                                     string // of the process that traces, as the next four are
	instead, refuse, attach, rest                             string
}

func main() {
	var o options
	flag.StringVar(&o.scenarios, "scenario", "", "`names` of scenarios, with commas; all if empty")
	flag.StringVar(&o.programs, "program", "podman", "the `programs` that are killed, with commas: podman, conmon, crun, netavark, pasta, ...")
	flag.StringVar(&o.fault, "fault", "", "what happens at the call in place of a kill: `full`, or read-only, of the file system of the store")
	flag.StringVar(&o.syscall, "syscall", "any", "the system call of the kill; any of the table if any")
	flag.IntVar(&o.when, "when", 0, "kill at this call only, 1 and up; by -seed if 0")
	flag.IntVar(&o.kills, "kills", 8, "kills in each scenario")
	flag.Uint64Var(&o.seed, "seed", 1, "chooses the calls")
	flag.StringVar(&o.image, "image", "docker.io/library/busybox:1", "an image with a shell, or a tar `file` with a root file system")
	flag.StringVar(&o.podman, "podman", "podman", "the Podman")
	flag.StringVar(&o.junit, "junit", "", "a `file` for the results as JUnit XML")
	flag.DurationVar(&o.deadline, "deadline", 60*time.Second, "each command must end in this time")
	flag.DurationVar(&o.limit, "limit", 0, "begin no more kills after this time; without a limit if 0")
	for _, own := range []struct {
		to   *string
		name string
	}{{&o.trace, "trace"}, {&o.instead, "instead"}, {&o.refuse, "refuse"}, {&o.attach, "attach"}, {&o.rest, "rest"}} {
		flag.StringVar(own.to, own.name, "", "for its own use")
	}
	flag.Parse()
	if o.trace != "" {
		fail(o.traceOne(flag.Args()))
		return
	}
	failed, err := o.runAll()
	fail(err)
	if failed {
		os.Exit(1)
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "podman-crash:", err)
		os.Exit(2)
	}
}

// traceOne is the process that traces one command, and writes what it saw to a file.
func (o *options) traceOne(command []string) error {
	calls, err := callsOf(o.syscall)
	if err != nil {
		return err
	}
	t := tracer{program: o.programs, calls: calls, when: o.when, instead: o.instead, refused: o.refuse, attach: o.attach, rest: o.rest}
	res, err := t.trace(command)
	if err != nil {
		return err
	}
	return os.WriteFile(o.trace, []byte(fmt.Sprintln(res.Count, res.Killed, res.Exit, res.At)), 0o600)
}

// check finds mistakes in the options before anything runs.
func (o *options) check() error {
	for _, name := range names(scenarios, o.scenarios) {
		if _, ok := scenarios[name]; !ok {
			return fmt.Errorf("-scenario %s: want one of %s", name, strings.Join(names(scenarios, ""), ", "))
		}
	}
	if o.when < 0 || o.kills < 1 {
		return fmt.Errorf("-when %d -kills %d: want 0 or more, and 1 or more", o.when, o.kills)
	}
	if _, ok := faults[o.fault]; !ok {
		return fmt.Errorf("-fault %s: want full or read-only", o.fault)
	}
	_, err := callsOf(o.syscall)
	return err
}

// runAll runs the scenarios and reports; it returns whether an invariant did not hold.
func (o *options) runAll() (bool, error) {
	if err := o.check(); err != nil {
		return false, err
	}
	dir, err := os.MkdirTemp("", "pcrash")
	if err != nil {
		return false, err
	}
	runtime := filepath.Join(dir, "run")
	if own := os.Getenv("XDG_RUNTIME_DIR"); own != "" {
		runtime = filepath.Join(own, filepath.Base(dir))
	}
	b := &bed{dir: dir, runtime: runtime, podman: o.podman, image: o.image, token: strconv.Itoa(10_000_000 + os.Getpid()), deadline: o.deadline,
		ownDisk: o.fault == "full"}
	defer b.wipe()
	if err := b.open(); err != nil {
		return false, err
	}
	version, _, _ := b.run(o.deadline, o.podman, "--version")
	var results []result
	begin := time.Now()
	for _, name := range names(scenarios, o.scenarios) {
		for _, program := range strings.Split(o.programs, ",") {
			if o.limit > 0 && time.Since(begin) > o.limit {
				break
			}
			rs, err := o.runScenario(b, kill{name, program, o.syscall, 0, o.fault}, begin)
			results = append(results, rs...)
			if err != nil {
				fmt.Fprintf(os.Stderr, "podman-crash: %s of %s: %v\n", program, name, err)
			}
		}
	}
	return o.report(version, results)
}

// runScenario counts the calls once and then kills at some of them.
func (o *options) runScenario(b *bed, k kill, begin time.Time) ([]result, error) {
	counted, err := o.tryClean(b, k)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "podman-crash: %s: %d calls of %s\n", k.Scenario, counted.Count, k.Program)
	if counted.Count == 0 && o.when == 0 {
		return nil, nil // the program has no part in it
	}
	moments := choose(o.seed, counted.Count, o.kills)
	if o.when > 0 {
		moments = []int{o.when}
	}
	results := []result{counted}
	results[0].Missed = true
	for _, k.When = range moments {
		if o.limit > 0 && time.Since(begin) > o.limit {
			break
		}
		r, err := o.tryClean(b, k)
		if err != nil {
			return results, err
		}
		for _, f := range r.Failures {
			fmt.Fprintf(os.Stderr, "%s: %s: %s\n", k, f.Check, f.Seen)
		}
		results = append(results, r)
	}
	return results, nil
}

// tryClean runs a scenario, and makes a new store after a failure.
func (o *options) tryClean(b *bed, k kill) (result, error) {
	r, err := b.try(k)
	if err != nil || len(r.Failures) > 0 {
		b.wipe()
		if again := b.open(); again != nil {
			return r, fmt.Errorf("no new store: %w", again)
		}
	}
	return r, err
}

func (o *options) report(version string, results []result) (failed bool, err error) {
	table(os.Stdout, version, results)
	for _, r := range results {
		failed = failed || len(r.Failures) > 0
	}
	if o.junit == "" {
		return failed, nil
	}
	f, err := os.Create(o.junit)
	if err != nil {
		return failed, err
	}
	if err := junit(f, version, results); err != nil {
		return failed, err
	}
	return failed, f.Close()
}
