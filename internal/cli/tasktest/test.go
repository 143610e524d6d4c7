package tasktest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/define/strictdoc"
	"github.com/podtask/podtask/internal/define/testfile"
	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/refs"
	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// Command is `podtask test`.
func Command(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "test",
		Usage:     "start a definition and check what it does",
		ArgsUsage: "[FILE|DIRECTORY ...]",
		Description: `A test file, NAME.test.yaml, names a definition and what must hold once it runs: containers
are healthy or end with a code, requests are answered, lines, files and metrics are there.
Each test starts a task of its own, with a name and ports of its own, and removes everything.
Of a failed test, the report shows what was expected, what was found, and the logs. Without
arguments, the test files of this directory and those below it are used. See docs/testing.md.

The exit code is 0 if all tests passed, 1 if one failed, and 125 if a file is not valid.

Examples:
  podtask test
  podtask test web.test.yaml --run answers --keep
  podtask test --junit report.xml --jobs 10 tests/`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "run", Usage: "only tests whose name matches `REGEXP`"},
			&cli.IntFlag{Name: "jobs", Aliases: []string{"j"}, Value: defaultJobs, Usage: "run `NUMBER` tests side by side"},
			&cli.BoolFlag{Name: "keep", Usage: "leave the tasks of failed tests as they are, to look at them"},
			&cli.BoolFlag{Name: "list", Usage: "list the tests and run none"},
			&cli.BoolFlag{Name: "locked", Usage: "use exactly the images of the lockfiles beside the definitions"},
			&cli.StringFlag{Name: "junit", Usage: "write a report in the format of JUnit to `FILE`"},
			&cli.BoolFlag{Name: "github", Usage: "print annotations of GitHub Actions for what fails", DefaultText: "if GITHUB_ACTIONS is true"},
			&cli.StringFlag{Name: "pull", Value: "default", Usage: "pull images as `POLICY` says: default, always, once, prefer-cached or never"},
			&cli.StringFlag{Name: "limits", Value: "best-effort", Usage: "apply cpu and memory limits in `MODE` enforce, best-effort or off"},
			&cli.StringSliceFlag{Name: "var", Usage: "set a placeholder: `NAME=VALUE`; it comes before the values of test files"},
			&cli.StringSliceFlag{Name: "leave-out", Usage: "run all tests without `CONTAINER`"},
			command.FormatFlag(command.ItemFormats),
		}, command.ReferenceFlags()...),
		Action: command.WithMachine(p, newTest),
	}
}

// defaultJobs is how many tests run side by side.
const defaultJobs = 4

type testOptions struct {
	out, errOut io.Writer
	getenv      func(string) string
	environ     func() []string
	definition  func(c *cli.Context, name string) (command.Definition, error)
	engine      *engine.Engine
	owners      *connect.Connector
	launcher    *connect.Launcher
}

func newTest(m *command.Machine) testOptions {
	p := m.Program
	return testOptions{
		out: p.Stdout, errOut: p.Stderr, getenv: p.Getenv, environ: p.Environ, definition: p.Definition,
		engine: m.Engine, owners: m.Connector, launcher: m.Launcher(),
	}
}

// job is a test that can be run.
type job struct {
	testfile.Case
	file    string // of the test
	defined define.Definition
	task    taskdef.Task
}

// Run implements command.Runner.
func (o testOptions) Run(ctx context.Context, c *cli.Context) error {
	only, err := regexp.Compile(c.String("run"))
	if err != nil {
		return command.Usagef("test", "--run: %v", err)
	}
	if n := c.Int("jobs"); n < 1 || n > 100 {
		return command.Usagef("test", "--jobs is 1 to 100, not %d", n)
	}
	files, err := findFiles(c.Args().Slice())
	if err != nil {
		return err
	}
	jobs, err := o.readAll(c, files, only)
	if err != nil {
		return err
	}
	if c.Bool("list") {
		for _, j := range jobs {
			fmt.Fprintf(o.out, "%s: %s\n", j.file, j.Title())
		}
		return nil
	}
	if len(jobs) == 0 {
		return command.Usagef("test", "no test has a name that matches --run %s", c.String("run"))
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	o.removeAbandoned(ctx)
	return o.runAll(ctx, c, jobs)
}

// removeAbandoned removes what tests left that were killed. It returns when that is gone, or with a word about each
// task that stays. It has three minutes at most.
func (o testOptions) removeAbandoned(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, cleanUpLimit)
	defer cancel()
	all, _ := o.engine.Tasks.States() // commands that list tasks report unreadable records
	var mu sync.Mutex                 // for the output
	var g errgroup.Group
	g.SetLimit(defaultJobs)
	for _, s := range all {
		if _, owned := o.engine.Tasks.Holder(s.ID); owned || !s.Options.Temporary {
			continue
		}
		g.Go(func() error {
			err := o.owners.Remove(ctx, s.ID, by, true, func(api.Task) {})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				fmt.Fprintf(o.errOut, "podtask: task %s of a test that was killed is not removed: %v; `podtask rm -f %[1]s` tries again\n", s.DisplayName(), err)
			} else {
				fmt.Fprintf(o.errOut, "podtask: removed task %s of a test that was killed\n", s.DisplayName())
			}
			return nil
		})
	}
	_ = g.Wait() // what fails is in the output
}

// findFiles returns the test files that the arguments name.
func findFiles(args []string) (files []string, err error) {
	if len(args) == 0 {
		args = []string{"."}
	}
	for _, arg := range args {
		info, err := os.Stat(arg)
		switch {
		case err != nil:
			return nil, err
		case !info.IsDir():
			files = append(files, arg)
			continue
		}
		found := len(files)
		err = filepath.WalkDir(arg, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && testfile.IsTestFile(path) {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if len(files) == found {
			return nil, command.Usagef("test", "no file in %s or below it is called NAME.test.yaml", arg)
		}
	}
	return files, nil
}

// readAll reads all tests and their definitions. Nothing is started if one of them is not valid.
func (o testOptions) readAll(c *cli.Context, files []string, only *regexp.Regexp) (jobs []job, err error) {
	var wrong []string
	for _, name := range files {
		doc, err := command.ReadSmall(name)
		if err != nil {
			return nil, err
		}
		f, err := testfile.Parse(name, doc)
		if invalid := new(strictdoc.InvalidError); errors.As(err, &invalid) {
			wrong = append(wrong, err.Error())
			continue
		} else if err != nil {
			return nil, err
		}
		for _, test := range f.Cases() {
			if !only.MatchString(test.Title()) {
				continue
			}
			j, problems, err := o.read(c, name, f, test)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: test %s: %w", name, test.Line, test.Title(), err)
			}
			for _, p := range problems {
				if line := fmt.Sprintf("%s:%d: test %s: %s", name, test.Line, test.Title(), p); !slices.Contains(wrong, line) {
					wrong = append(wrong, line)
				}
			}
			jobs = append(jobs, j)
		}
	}
	if len(wrong) > 0 {
		return nil, errors.New(strings.Join(wrong, "\n") + "\nno test was run")
	}
	return jobs, nil
}

// read reads the definition of a test with its changes.
func (o testOptions) read(c *cli.Context, file string, f testfile.File, test testfile.Case) (j job, wrong []string, err error) {
	j = job{Case: test, file: file}
	path := f.Definition
	if beside := filepath.Join(filepath.Dir(file), path); !filepath.IsAbs(path) && exists(beside) {
		path = beside
	}
	d, err := o.definition(c, path)
	if err != nil {
		return j, nil, err
	}
	vars := d.Changes.Vars
	d.Changes.Vars = test.Vars
	maps.Copy(d.Changes.Vars, vars)
	d.Changes.Environment = variables(test.Environment)
	d.Changes.Options = map[string]string{"limits": c.String("limits"), "pull": c.String("pull")}
	d.Changes.Adjustments.LeaveOut = slices.Concat(test.LeaveOut, c.StringSlice("leave-out"))
	d.Changes.Adjustments.Replace = stubsOf(test)
	rules, direct, problems := references(filepath.Dir(file), test)
	d.Changes.References = slices.Concat(rules, d.Changes.References)
	task, finding, err := d.Read()
	if err != nil {
		return j, nil, err
	}
	for _, p := range slices.Concat(finding.Problems, finding.Needs) {
		problems = append(problems, p.String())
	}
	if len(problems) > 0 {
		return j, problems, nil
	}
	j.defined = finding.Definition
	j.task, wrong = change(replaceSources(task, direct), test)
	for _, step := range slices.Concat(test.Before, test.After, stepsOf(test)) {
		if _, err := stepTask(step, nil); err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	return j, wrong, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// stepsOf returns the steps among the checks.
func stepsOf(c testfile.Case) (steps []testfile.Step) {
	for _, e := range c.Expect {
		if e.Run != nil {
			steps = append(steps, *e.Run)
		}
	}
	return steps
}

// references returns where secrets and volumes of a test come from: rules for what the definition names on AWS, and
// sources by the source that the definition names itself. Paths start in the directory of the file.
func references(dir string, test testfile.Case) (table refs.Table, direct map[string]string, wrong []string) {
	direct = make(map[string]string)
	add := func(match, source, what string) {
		kind, path, named := strings.Cut(source, ":")
		if !named && what == "volumes" {
			kind, path = "file", source
		}
		if kind == "file" && !filepath.IsAbs(path) {
			abs, err := filepath.Abs(filepath.Join(dir, path))
			if err != nil {
				wrong = append(wrong, err.Error())
			}
			path = abs
		}
		if isSource(match) {
			direct[match] = kind + ":" + path
			return
		}
		rule, err := define.NewReference(match, kind+":"+path, what+" of the test")
		if err != nil {
			wrong = append(wrong, err.Error())
			return
		}
		table = append(table, rule)
	}
	for name, source := range test.Secrets {
		add(name, source, "secrets")
	}
	for name, source := range test.Volumes {
		add("volume:"+name, source, "volumes")
	}
	slices.SortStableFunc(table, func(a, b refs.Rule) int { return cmp.Or(len(b.Match)-len(a.Match), strings.Compare(a.Match, b.Match)) })
	return table, direct, wrong
}

// isSource reports whether a definition names a secret by its source on this host, and not on AWS.
func isSource(name string) bool {
	kind, _, named := strings.Cut(name, ":")
	return named && slices.Contains([]string{"podman", "file", "env", "credential", "command", "tree"}, kind)
}

// runAll runs the tests side by side and reports them.
func (o testOptions) runAll(ctx context.Context, c *cli.Context, jobs []job) error {
	github := c.Bool("github") || !c.IsSet("github") && o.getenv("GITHUB_ACTIONS") == "true"
	format := c.String("format")
	results := make([]Result, len(jobs))
	var mu sync.Mutex // for the output
	var g errgroup.Group
	g.SetLimit(c.Int("jobs"))
	began := time.Now()
	for i, j := range jobs {
		g.Go(func() error {
			r := newRunner(o, j, c.Bool("keep")).run(ctx)
			mu.Lock()
			defer mu.Unlock()
			results[i] = r
			if format == "" {
				r.writeText(o.out, console.ColorsFor(o.out, o.getenv))
			}
			if github {
				r.writeGitHub(o.out, o.getenv("GITHUB_WORKSPACE"))
			}
			return nil
		})
	}
	_ = g.Wait() // what fails is in the results
	if file := c.String("junit"); file != "" {
		if err := writeJUnit(file, results, time.Since(began)); err != nil {
			return err
		}
	}
	err := command.PrintItems(o.out, c, results, func(bool) error { return writeSum(o.out, results, time.Since(began)) })
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return command.ExitStatus(command.ExitInterrupted)
	}
	if slices.ContainsFunc(results, func(r Result) bool { return r.Status != Passed }) {
		return command.ExitStatus(command.ExitInvalid)
	}
	return nil
}
