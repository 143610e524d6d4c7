package command

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/urfave/cli/v2"
)

// Verb is a command of a group whose commands share K: what the group uses, with a command line.
type Verb[K any] struct {
	Name, Args, Usage, Description string
	// Least and Most are numbers of arguments. Needs says what is missing from fewer than Least: "the name of a schedule".
	Least, Most int
	Needs       string
	Flags       []cli.Flag
	Do          func(k K, ctx context.Context, args []string) error
}

// Many is a number of arguments without a limit.
const Many = math.MaxInt

// Verbs returns the commands of a group. Open opens what they use.
func Verbs[K any](p *Program, open func(*Machine, *cli.Context) (K, error), verbs []Verb[K]) (all []*cli.Command) {
	for _, v := range verbs {
		all = append(all, &cli.Command{
			Name: v.Name, Usage: v.Usage, ArgsUsage: v.Args, Flags: v.Flags, Description: v.Description,
			Action: WithMachine(p, func(m *Machine) verbRunner[K] { return verbRunner[K]{v, m, open} }),
		})
	}
	return all
}

type verbRunner[K any] struct {
	verb    Verb[K]
	machine *Machine
	open    func(*Machine, *cli.Context) (K, error)
}

// Run implements Runner.
func (r verbRunner[K]) Run(ctx context.Context, c *cli.Context) error {
	args, path := c.Args().Slice(), Path(c)
	switch {
	case len(args) < r.verb.Least:
		return Usagef(path, "%s needs %s", path, r.verb.Needs)
	case len(args) > r.verb.Most:
		return Usagef(path, "%s does not take %q", path, args[r.verb.Most])
	}
	k, err := r.open(r.machine, c)
	if err != nil {
		return err
	}
	return r.verb.Do(k, ctx, args)
}

// ParseWords returns the context of a command with flags, such as "--name=shop", that were not read by the program.
func ParseWords(path string, flags []cli.Flag, words []string) (*cli.Context, error) {
	set := flag.NewFlagSet(path, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	for _, f := range flags {
		if err := f.Apply(set); err != nil {
			return nil, err
		}
	}
	if err := set.Parse(words); err != nil {
		return nil, err
	}
	if set.NArg() > 0 {
		return nil, fmt.Errorf("%q is no flag of podtask %s", set.Arg(0), path)
	}
	c := cli.NewContext(&cli.App{DisableSliceFlagSeparator: true}, set, nil)
	c.Command = &cli.Command{Name: path[strings.LastIndex(path, " ")+1:], HelpName: path}
	return c, nil
}
