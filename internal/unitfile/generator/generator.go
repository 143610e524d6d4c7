// Package generator is the program podtask-user-generator, which makes systemd services from .task files.
//
// The user manager executes it at its start and at each daemon-reload, so it is small: it does not link
// Podman and connects to nothing.
package generator

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/podtask/podtask/internal/unitfile/taskunit"
	"github.com/podtask/podtask/internal/unitfile/unitdir"
)

// Main runs the program with the streams and the environment of this process, and returns the exit code.
func Main(args []string, version string) int {
	g := &generator{stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv, uid: os.Getuid(), executable: os.Executable, version: version}
	return g.main(args)
}

// generator has the streams, the environment and the flags of the program.
type generator struct {
	stdout, stderr io.Writer
	getenv         func(string) string
	uid            int
	executable     func() (string, error)
	version        string

	verbose, dryRun bool
	// log is the kernel's log or stderr.
	log io.Writer
}

// main returns the exit code: 1 if a unit has a problem. The other units get their services.
func (g *generator) main(args []string) int {
	flags := flag.NewFlagSet(filepath.Base(args[0]), flag.ContinueOnError)
	flags.SetOutput(g.stderr)
	flags.BoolVar(&g.verbose, "v", false, "say what is done")
	flags.BoolVar(&g.dryRun, "dryrun", false, "print the services instead of writing them")
	noKmsg := flags.Bool("no-kmsg-log", false, "do not log to the kernel's log")
	flags.Bool("user", true, "make services of a user; podtask has no others")
	showVersion := flags.Bool("version", false, "print the version")
	switch err := flags.Parse(args[1:]); {
	case err == flag.ErrHelp:
		return 0
	case err != nil:
		return 1
	case *showVersion:
		fmt.Fprintln(g.stdout, g.version)
		return 0
	}
	g.log = g.stderr
	if !*noKmsg && !g.dryRun {
		if kmsg, err := os.OpenFile("/dev/kmsg", os.O_WRONLY, 0); err == nil {
			defer kmsg.Close()
			g.log = kmsg
		}
	}
	if err := g.run(flags.Args()); err != nil {
		g.logf("%v", err)
		return 1
	}
	return 0
}

// maxLogged bounds the logged problems: the kernel's log is small and shared.
const maxLogged = 100

// logf logs one line, in one write: each write is a record of the kernel's log.
func (g *generator) logf(format string, args ...any) {
	fmt.Fprintf(g.log, "podtask-user-generator[%d]: %s\n", os.Getpid(), fmt.Sprintf(format, args...))
}

func (g *generator) run(args []string) error {
	if !g.dryRun && len(args) == 0 {
		return fmt.Errorf("no directory to write to; -dryrun prints the services")
	}
	dirs, err := unitdir.Search(g.getenv, g.uid)
	if err != nil {
		return err
	}
	sources, problems := unitdir.Load(dirs)
	services, more := taskunit.Generate(sources, taskunit.Options{Program: unitdir.Program(g.getenv, g.executable), Generator: g.name(), Notices: unitdir.Notices(g.getenv)})
	problems = append(problems, more...)
	for i, p := range problems {
		if i == maxLogged && !g.dryRun {
			g.logf("%d more problems are not listed; `podtask-user-generator -dryrun` lists them", len(problems)-i)
			break
		}
		g.logf("%s", p)
	}
	if g.verbose {
		g.logf("%d units in %d directories make %d services", len(sources), len(dirs), len(services))
	}
	if g.dryRun {
		g.print(services)
	} else if len(services) > 0 {
		if err := unitdir.Write(args[0], services); err != nil {
			return err
		}
	}
	if n := taskunit.Errors(problems); n > 0 {
		return fmt.Errorf("units with errors get no service; errors: %d", n)
	}
	return nil
}

func (g *generator) print(services []taskunit.Service) {
	for _, s := range services {
		fmt.Fprintf(g.stdout, "---%s---\n%s\n", s.Name, s.Text)
	}
}

// name returns the path of this program.
func (g *generator) name() string {
	if path, err := g.executable(); err == nil {
		return path
	}
	return "podtask-user-generator"
}
