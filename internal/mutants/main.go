// Mutants keeps the tests of the core honest: it breaks the code in one small
// way after another and expects the tests to notice each time.
//
//	go run ./internal/mutants [-run REGEXP] [-jobs N] [-v] [-json]
//
// A mutant replaces a piece of a file by another through the build's overlay, so
// the tree is never touched. One line is printed for each: "caught NAME" with
// the property or test that caught it, or "SURVIVED NAME". With -json these lines go
// to stderr, and each mutant is a test in the words of go test -json on stdout. The
// exit status is 1
// if one survived, or could not be tried: its text is not found exactly once any
// more, or it does not compile.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// tags are those the product is built with (hack/lib.sh).
const tags = "remote containers_image_openpgp"

// mutant is one sabotage.
type mutant struct {
	name string
	file string // below the module's root
	old  string // found exactly once in file
	new  string
	// by is what should notice: a package and arguments for its test program.
	by check
}

// check is a test run.
type check struct {
	pkg  string
	args []string
}

func main() {
	only := flag.String("run", "", "try only the mutants whose names match this regular expression")
	jobs := flag.Int("jobs", 2, "how many to try at a time")
	verbose := flag.Bool("v", false, "print the output of the tests")
	events := flag.Bool("json", false, "print events as go test -json does, and all else to stderr")
	flag.Parse()
	r := report{lines: os.Stdout, verbose: *verbose}
	if *events {
		r.lines, r.events = os.Stderr, json.NewEncoder(os.Stdout)
	}
	if err := run(*only, *jobs, &r); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// report tells of each mutant as it is tried.
type report struct {
	mu      sync.Mutex
	lines   io.Writer
	events  *json.Encoder // nil: none
	verbose bool
}

// event is one of go test -json.
type event struct {
	Action, Package string
	Test            string `json:",omitempty"`
	Output          string `json:",omitempty"`
}

// tell says what became of a mutant.
func (r *report) tell(name, caught, out string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	line, action := fmt.Sprintf("caught %s (%s)", name, caught), "pass"
	if err != nil {
		line, action = fmt.Sprintf("SURVIVED %s: %v", name, err), "fail"
	}
	fmt.Fprintln(r.lines, line)
	if r.verbose {
		fmt.Fprint(r.lines, out)
	}
	if r.events == nil {
		return
	}
	for _, e := range []event{{Action: "run"}, {Action: "output", Output: line + "\n"}, {Action: action}} {
		e.Package, e.Test = "mutants", name
		_ = r.events.Encode(e) // whoever reads has gone, and with them the interest
	}
}

func run(only string, jobs int, r *report) error {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "podtask-mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	var chosen []mutant
	for _, m := range mutants {
		if pattern.MatchString(m.name) {
			chosen = append(chosen, m)
		}
	}
	begin := time.Now()
	results := make([]error, len(chosen))
	var wg sync.WaitGroup
	free := make(chan struct{}, max(1, jobs))
	for i, m := range chosen {
		wg.Add(1)
		free <- struct{}{}
		go func() {
			defer func() { <-free; wg.Done() }()
			caught, out, err := m.try(root, filepath.Join(dir, fmt.Sprint(i)))
			results[i] = err
			r.tell(m.name, caught, out, err)
		}()
	}
	wg.Wait()
	bad := 0
	for _, err := range results {
		if err != nil {
			bad++
		}
	}
	fmt.Fprintf(r.lines, "%d mutants, %d caught, %d not, %.0f s\n", len(chosen), len(chosen)-bad, bad, time.Since(begin).Seconds())
	if bad > 0 || len(chosen) == 0 {
		return fmt.Errorf("%d of %d mutants were not caught", bad, len(chosen))
	}
	return nil
}

// moduleRoot is the directory of go.mod, here or above.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod here or above: run it inside the clone")
		}
		dir = filepath.Dir(dir)
	}
}

// try builds and runs the tests with the mutant in place. It returns what caught
// it; an error means that nothing did.
func (m mutant) try(root, dir string) (caught, output string, err error) {
	overlay, err := m.overlay(root, dir)
	if err != nil {
		return "", "", err
	}
	args := append([]string{"test", "-overlay", overlay, "-tags", tags, "-vet=off", "-failfast", "-timeout=5m", "./" + m.by.pkg}, m.by.args...)
	cmd := exec.Command(filepath.Join(root, "hack", "go"), args...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	switch text := string(out); {
	case err == nil:
		return "", text, errors.New("all tests pass")
	case strings.Contains(text, "[build failed]") || strings.Contains(text, "[setup failed]"):
		return "", text, fmt.Errorf("it does not compile:\n%s", text)
	case strings.Contains(text, "panic: test timed out"):
		return "", text, fmt.Errorf("the tests do not end:\n%s", text)
	case catcher(text) == "":
		return "", text, fmt.Errorf("no test has failed, but the run has: %w\n%s", err, text)
	default:
		return catcher(text), text, nil
	}
}

// overlay writes the mutated file and the overlay that puts it in place.
func (m mutant) overlay(root, dir string) (path string, err error) {
	file := filepath.Join(root, m.file)
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		return "", fmt.Errorf("its text is found %d times in %s, not once: bring the list up to date", n, m.file)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	mutated := filepath.Join(dir, "mutated.go")
	if err := os.WriteFile(mutated, []byte(strings.Replace(string(text), m.old, m.new, 1)), 0o600); err != nil {
		return "", err
	}
	doc, err := json.Marshal(map[string]map[string]string{"Replace": {file: mutated}})
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, doc, 0o600)
}

var (
	brokenLine = regexp.MustCompile(`broken: (.*)`)
	panicLine  = regexp.MustCompile(`(?m)^panic: (.*)`)
	failLine   = regexp.MustCompile(`--- FAIL: (\S+)`)
)

// catcher names what made a test run fail: a property, a panic or else the
// innermost of the first failing tests.
func catcher(output string) string {
	first := func(re *regexp.Regexp) string {
		if m := re.FindStringSubmatch(output); m != nil {
			return strings.TrimSpace(m[1])
		}
		return ""
	}
	test := ""
	for _, m := range failLine.FindAllStringSubmatch(output, -1) {
		if !strings.HasPrefix(m[1], test) {
			break
		}
		test = m[1]
	}
	return cmp.Or(first(brokenLine), first(panicLine), test)
}
