package ecs

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/state"
	"github.com/urfave/cli/v2"
)

// trialImage is the image of the tasks of a trial; it needs a shell and sleep.
const trialImage = "public.ecr.aws/docker/library/busybox:1.37"

// trialCommand is `podtask ecs trial`.
func trialCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:  "trial",
		Usage: "try this host as an instance of a new cluster, with ten small tasks, and remove all of it",
		Description: `Makes a cluster, two roles, a log group, a parameter and an activation in your account with
your aws command, joins the cluster as an instance of its own, runs ten small tasks, compares each
answer of ECS with what is expected, removes everything, and writes a report without account
numbers and secrets. It asks before it creates anything, takes about a quarter of an hour and needs an
agent. An instance that this host is already is left alone. What an earlier trial left that was
killed is removed first. --print prints the commands instead. See docs/ecs-anywhere.md.

Examples:
  podtask ecs trial --region eu-central-1
  podtask ecs trial --region eu-central-1 --print`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "region", Usage: "the `REGION` of the cluster (default: AWS_REGION, else AWS_DEFAULT_REGION)"},
			&cli.StringFlag{Name: "profile", Usage: "the `PROFILE` of the aws command"},
			&cli.StringFlag{Name: "image", Value: trialImage, Usage: "the `IMAGE` of the tasks; it has a shell and sleep"},
			&cli.StringFlag{Name: "report", Value: "podtask-ecs-trial.md", Usage: "the `FILE` for the report"},
			&cli.BoolFlag{Name: "print", Usage: "print the commands that make and remove what a trial needs, and do nothing"},
			&cli.BoolFlag{Name: "yes", Usage: "do not ask"},
			&cli.DurationFlag{Name: "patience", Value: 5 * time.Minute, Usage: "how `LONG` to wait for each answer"},
		},
		Action: func(c *cli.Context) error {
			t, err := newTrial(p, c)
			if err != nil {
				return err
			}
			if c.Bool("print") {
				t.printCommands(p.Stdout)
				return nil
			}
			killed, err := t.killed()
			if err != nil {
				return err
			}
			if err := t.ask(p.Stdin, c.Bool("yes"), killed); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM)
			defer stop()
			if err := t.removeKilled(context.WithoutCancel(ctx), killed); err != nil {
				return err
			}
			if ctx.Err() != nil {
				return &command.ExitError{Code: command.ExitInterrupted, What: "interrupted: nothing was made"}
			}
			return t.run(ctx, c.String("report"))
		},
	}
}

// trial is a run of `podtask ecs trial`. One goroutine uses it.
type trial struct {
	aws      awsCLI
	instance *joined
	out      io.Writer
	version  string
	image    string
	region   string
	patience time.Duration
	pause    time.Duration // between two questions

	name   string
	secret string
	// known are the values of what the commands call $NAME: what AWS has answered.
	known map[string]string
	made  []resource // in order
	// definitions are the revisions that were registered.
	definitions []string
	results     []result
}

func newTrial(p *command.Program, c *cli.Context) (*trial, error) {
	region := c.String("region")
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION"} {
		if region == "" {
			region = p.Getenv(name)
		}
	}
	var errs []error
	if region == "" {
		errs = append(errs, errors.New("--region is missing: give the region of the cluster"))
	}
	if c.Args().Present() {
		errs = append(errs, fmt.Errorf("%q: podtask ecs trial takes flags only", c.Args().First()))
	}
	if strings.ContainsRune(c.String("image"), '@') {
		errs = append(errs, errors.New("--image: give it with a tag: one of the tasks has another tag, which does not exist"))
	}
	if c.Duration("patience") < time.Second {
		errs = append(errs, fmt.Errorf("--patience %s: one second is the least", c.Duration("patience")))
	}
	name := trialPrefix + random(4)
	instance, err := newJoined(p, name, region)
	if err = errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	flags := []string{"--region", region}
	if profile := c.String("profile"); profile != "" {
		flags = append(flags, "--profile", profile)
	}
	return &trial{
		aws: awsCLI{environ: p.Environ, flags: flags}, instance: instance, out: p.Stdout, version: p.Version,
		image: c.String("image"), region: region, patience: c.Duration("patience"), pause: time.Second,
		name: name, secret: random(16), known: make(map[string]string),
	}, nil
}

func random(bytes int) string {
	b := make([]byte, bytes)
	rand.Read(b) // never fails: crypto/rand aborts the program instead
	return hex.EncodeToString(b)
}

// ask lists the resources and asks for permission to make them.
func (t *trial) ask(stdin io.Reader, yes bool, killed []*trial) error {
	for _, old := range killed {
		fmt.Fprintf(t.out, "The trial %s was killed: what it left in %s is removed first.\n", old.name, old.region)
	}
	fmt.Fprintf(t.out, "This was not tried on AWS yet. It makes in your account, in %s:\n", t.region)
	for _, r := range t.resources() {
		fmt.Fprintf(t.out, "  %s\n", r.what)
	}
	fmt.Fprintf(t.out, "It runs ten small tasks of %s on this host and removes everything. Amazon bills the instance\n"+
		"(ECS Anywhere) for the time, a quarter of an hour. If it is killed, the next `podtask ecs trial` removes what is\n"+
		"left, which has the name %s.\n", t.image, t.name)
	if yes {
		return nil
	}
	fmt.Fprint(t.out, "Make it? Type yes: ")
	line, _ := bufio.NewReader(stdin).ReadString('\n')
	if strings.TrimSpace(line) != "yes" {
		return errors.New("nothing was made: the answer was not yes")
	}
	return nil
}

// run makes all, runs the tasks, removes all and writes the report. What was made is removed also after a failure and
// an interrupt.
func (t *trial) run(ctx context.Context, report string) error {
	began := time.Now()
	err := t.makeAll(ctx)
	if err == nil {
		err = t.runSteps(ctx)
	}
	fmt.Fprintln(t.out, "Removing everything")
	left := t.removeAll(context.WithoutCancel(ctx))
	if writeErr := os.WriteFile(report, t.report(began, err, left), 0o600); writeErr != nil {
		err = errors.Join(err, writeErr)
	} else {
		fmt.Fprintf(t.out, "The report is in %s. It has no account numbers and no secrets: please read it, and send it in.\n", report)
	}
	for _, l := range left {
		err = errors.Join(err, l)
	}
	for _, r := range t.results {
		if !r.ok {
			err = errors.Join(err, fmt.Errorf("%s: expected %s, got %s", r.name, r.expected, r.answer))
		}
	}
	return err
}

// until asks until there is an answer, for as long as the trial has patience. What it last found is the error.
func (t *trial) until(ctx context.Context, ask func(context.Context) (done bool, found string, err error)) (found string, err error) {
	deadline := time.NewTimer(t.patience)
	defer deadline.Stop()
	for {
		done, found, err := ask(ctx)
		if done || err != nil {
			return found, err
		}
		select {
		case <-time.After(t.pause):
		case <-deadline.C:
			return found, fmt.Errorf("it does not come in %s; the last answer is: %s", t.patience, found)
		case <-ctx.Done():
			return found, ctx.Err()
		}
	}
}

// joined is podtask-ecs as the instance of a trial. It has directories of its own, so that an instance that the host is
// already is not touched.
type joined struct {
	program     string
	environ     []string
	dir, socket string
	region      string
	cluster     string
	process     *running
	lock        *os.File
	left        int // the process of an instance whose trial was killed
}

func newJoined(p *command.Program, name, region string) (*joined, error) {
	program, err := p.FindProgram(Program)
	if err != nil {
		return nil, err
	}
	stateDir, runtimeDir, err := state.Dirs(p.Getenv)
	if err != nil {
		return nil, err
	}
	socket := p.Getenv("PODTASK_SOCKET")
	if socket == "" {
		if socket, err = state.AgentSocket(p.Getenv); err != nil {
			return nil, err
		}
	}
	j := &joined{program: program, dir: filepath.Join(stateDir, name), socket: socket, region: region, cluster: name}
	for _, v := range p.Environ() {
		switch key, _, _ := strings.Cut(v, "="); key {
		case "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "XDG_STATE_HOME", "XDG_RUNTIME_DIR":
		default: // the credentials are those of the activation
			j.environ = append(j.environ, v)
		}
	}
	j.environ = append(j.environ, "XDG_STATE_HOME="+j.dir, "XDG_RUNTIME_DIR="+filepath.Join(runtimeDir, name))
	return j, nil
}
