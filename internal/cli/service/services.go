package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/define/catalog"
	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/urfave/cli/v2"
)

// serviceVerb is a command of `podtask service`. It takes least to most arguments.
type serviceVerb struct {
	name, args, usage string
	least, most       int
	flags             []cli.Flag
	example           string
	do                func(serviceCall, context.Context, []string) error
}

// Command is `podtask service`.
func Command(p *command.Program) *cli.Command {
	group := &cli.Command{
		Name:  "service",
		Usage: "keep copies of a task running, and roll them to new revisions",
		Description: `The agent keeps the requested number of copies of a task definition. It replaces copies
that stop or become unhealthy, with longer delays while they keep failing. update rolls to
a new revision, one copy after the other, or with --strategy beside the old copies; when
tasks of it keep failing, the service returns to the previous revision. See
docs/services.md.

Examples:
  podtask service create web web.json --count 3 --wait
  podtask service update web --family web:2 --wait --timeout 5m
  podtask service update web --image registry.example.com/web:2 --wait
  podtask service scale web=5 worker=0
  podtask service ps web
  podtask service history web
  podtask service rm --force web`,
	}
	for _, v := range serviceVerbs() {
		group.Subcommands = append(group.Subcommands, &cli.Command{
			Name: v.name, Usage: v.usage, ArgsUsage: v.args, Flags: v.flags,
			Description: "Examples:\n  podtask service " + v.example,
			Action:      command.WithMachine(p, newService(v)),
		})
	}
	return group
}

func serviceVerbs() []serviceVerb {
	output, sorted, whole := command.FormatFlag(command.ListFormats), command.SortFlag(), command.NoTruncFlag("what is too wide")
	force := func(usage string) cli.Flag {
		return &cli.BoolFlag{Name: "force", Aliases: []string{"f"}, Usage: usage}
	}
	return []serviceVerb{
		{"create", "NAME FILE|FAMILY[:REV]", "create a service; a FILE is registered first", 1, 2, SettingsFlags(), "create web web.json --count 3 --wait", serviceCall.create},
		{"ls", " ", "list services", 0, 0, []cli.Flag{command.QuietFlag("names"), whole, output, sorted}, "ls", serviceCall.list},
		{"ps", "NAME", "list the tasks of a service", 1, 1, []cli.Flag{
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "show copies that have stopped too"}, command.QuietFlag("ids"), whole, output, sorted,
		}, "ps web", serviceCall.ps},
		{"inspect", "NAME ...", "show services in full", 1, many, []cli.Flag{command.FormatFlag(command.ItemFormats)}, "inspect web", serviceCall.inspect},
		{
			"update", "NAME [FILE|FAMILY[:REV]]", "roll to another revision or other settings; a FILE is registered first", 1, 2,
			append(SettingsFlags(), force("replace all copies even if nothing differs"), &cli.StringSliceFlag{Name: "image", Usage: "register and deploy the present definition with `[CONTAINER=]IMAGE`"}), "update web --family web:2 --wait --timeout 5m", serviceCall.update,
		},
		{"scale", "NAME=N ... | NAME N", "change the number of copies", 1, many, waitFlags("all copies are healthy"), "scale web=5 worker=0", serviceCall.scale},
		{
			"rollback", "NAME", "return to the previous revision, without steps, hooks and waits", 1, 1,
			append(waitFlags("all copies are healthy"), &cli.BoolFlag{Name: "now", Usage: "go back as soon as copies are healthy: a ROLLING service copy by copy, others at once; the default"},
				&cli.BoolFlag{Name: "gradual", Usage: "use the steps, hooks and waits of the service's strategy"}), "rollback web", serviceCall.rollback,
		},
		{
			"continue", "NAME", "continue a paused deployment, or roll it back", 1, 1,
			append(waitFlags("all copies are healthy"), &cli.StringFlag{Name: "hook", Usage: "decide at the pause `NAME`, if there are several"}, &cli.BoolFlag{Name: "rollback", Usage: "return to the revision before"}),
			"continue web --wait", serviceCall.goOn,
		},
		{"wake", "NAME ...", "wake services that sleep", 1, many, waitFlags("all copies are healthy"), "wake wiki --wait", serviceCall.wake},
		{"history", "NAME", "list the latest ten deployments of a service with their results", 1, 1, []cli.Flag{whole, output, sorted}, "history web", serviceCall.history},
		{"events", "NAME", "list the events of a service", 1, 1, []cli.Flag{output}, "events web", serviceCall.events},
		{
			"rm", "NAME ...", "remove services that are scaled to 0", 1, many,
			append(waitFlags("the tasks are removed"), force("stop the copies first, and return when they are removed")), "rm --force web", serviceCall.rm,
		},
	}
}

// SettingsFlags are the flags of `service create` and `service update`.
func SettingsFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.IntFlag{Name: "count", Usage: "keep `NUMBER` copies", DefaultText: "as a Deployment says, else 1"},
		&cli.StringFlag{Name: "family", Usage: "use the registered `FAMILY[:REV]`"},
		&cli.IntFlag{Name: "min-healthy", Usage: "keep at least `PERCENT` of the copies healthy while rolling", DefaultText: "one after the other"},
		&cli.IntFlag{Name: "max", Usage: "have at most `PERCENT` of the copies while rolling", DefaultText: "one after the other"},
		&cli.BoolFlag{Name: "no-rollback", Usage: "keep a deployment that fails, for inspection"},
		&cli.DurationFlag{Name: "health-grace", Usage: "ignore failed health checks for `TIME` after the start of a copy", DefaultText: "0s"},
		&cli.StringSliceFlag{Name: "listen", Usage: "forward connections to healthy copies: `[IP:]PORT=CONTAINER:PORT[,proxy-protocol]`, or none"},
		&cli.StringSliceFlag{Name: "name-as", Usage: "let tasks of the namespace reach healthy copies as `NAME[:PORT][=CONTAINER:PORT]`, or none"},
		&cli.StringFlag{Name: "namespace", Usage: "let the copies reach the names of services in the namespace `NAME`, or none", DefaultText: "default with --name-as"},
		&cli.StringSliceFlag{Name: "ingress", Usage: "serve a public address: `URL=CONTAINER:PORT[,OPTION=VALUE...]`, or none"},
		&cli.DurationFlag{Name: "drain", Usage: "let a copy finish its connections for `TIME` before it is stopped", DefaultText: "30s"},
		&cli.StringFlag{Name: "sleep-after", Usage: "stop the copies after `TIME` without a connection, until the next one comes; 0 for never", DefaultText: "as the definition says"},
		&cli.DurationFlag{Name: "hold", Usage: "hold a connection for `TIME` while the service wakes", DefaultText: "1m"},
		&cli.StringSliceFlag{Name: "env", Aliases: []string{"e"}, Usage: "set `NAME=VALUE` in every container"},
		&cli.StringSliceFlag{Name: "env-file", Usage: "read variables from `FILE`, one per line"},
		&cli.StringSliceFlag{Name: "var", Usage: "set a placeholder: `NAME=VALUE`"},
		&cli.StringFlag{Name: "override", Usage: "change the definition as `FILE` says, an ECS TaskOverride"},
		&cli.StringFlag{Name: "pull", Usage: "pull images as `POLICY` says: default, always, once, prefer-cached or never", DefaultText: "as configured for the agent"},
		&cli.StringFlag{Name: "limits", Usage: "apply cpu and memory limits in `MODE` enforce, best-effort or off", DefaultText: "as configured for the agent"},
		&cli.StringFlag{Name: "minimum-age", Usage: "follow a tag to another image only when this host has known that for `TIME`, such as 3d; 0 for no time", DefaultText: "as configured for the agent"},
		&cli.StringFlag{Name: "auto-update", Usage: "with `POLICY` registry, podtask auto-update deploys what the tags of the images have; none ends that"},
		&cli.StringFlag{Name: "pids-limit", Usage: "allow each copy `NUMBER` processes and threads, 0 for no limit", DefaultText: "as configured for the agent"},
		&cli.StringFlag{Name: "cpu-period", Usage: "use a period of `TIME`, 8ms to 1s, for the cpu limit", DefaultText: "as configured for the agent"},
		&cli.BoolFlag{Name: "clamp-ulimits", Usage: "lower ulimits of the definition to the hard limits of the agent's user"},
		command.WithoutFlag(),
		command.LockedFlag(),
	}, slices.Concat(methodFlags(), command.ReferenceFlags(), command.AdjustFlags(), waitFlags("all copies are healthy"))...)
}

func waitFlags(until string) []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "wait", Usage: "wait until " + until},
		&cli.DurationFlag{Name: "timeout", Usage: "with --wait: wait at most `TIME`", DefaultText: "no limit"},
	}
}

// serviceOptions is what a command of `podtask service` uses.
type serviceOptions struct {
	verb        serviceVerb
	out, errOut io.Writer
	environ     func() []string
	getenv      func(string) string
	owners      *connect.Connector
	registry    registry
	definition  func(c *cli.Context, name string) (command.Definition, error)
	images      *imagestore.Resolver
}

func newService(v serviceVerb) func(m *command.Machine) serviceOptions {
	return func(m *command.Machine) serviceOptions {
		p := m.Program
		return serviceOptions{verb: v, out: p.Stdout, errOut: p.Stderr, environ: p.CallerEnviron, getenv: p.Getenv, owners: m.Connector, registry: newRegistry(p), definition: p.Definition, images: m.Engine.Images}
	}
}

// serviceFlags has the flags of a command line of `podtask service` that are not settings of a service.
type serviceFlags struct {
	family      string
	count       *int // nil if it is not given
	all, force  bool
	wait        bool
	waitTimeout time.Duration // 0 for no limit
}

func parseServiceFlags(c *cli.Context) (serviceFlags, error) {
	f := serviceFlags{
		family: c.String("family"), count: intFlag(c, "count"), all: c.Bool("all"), force: c.Bool("force"),
		wait: c.Bool("wait"), waitTimeout: c.Duration("timeout"),
	}
	if f.waitTimeout != 0 && !f.wait || f.waitTimeout < 0 {
		return f, command.Usagef(command.Path(c), "--timeout is a positive time and limits --wait")
	}
	return f, nil
}

// limit returns ctx with the time limit of --wait.
func (f serviceFlags) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if f.waitTimeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, f.waitTimeout)
}

// intFlag returns the value of a flag; nil if it is not given.
func intFlag(c *cli.Context, name string) *int {
	if !c.IsSet(name) {
		return nil
	}
	n := c.Int(name)
	return &n
}

// serviceCall is a command line of `podtask service`, with a connection to the agent.
type serviceCall struct {
	serviceOptions
	serviceFlags
	c      *cli.Context // for the settings of a service and the format of the output
	client *api.Client
}

// Run implements command.Runner.
func (o serviceOptions) Run(ctx context.Context, c *cli.Context) error {
	args, path := c.Args().Slice(), command.Path(c)
	switch {
	case len(args) < o.verb.least:
		return command.Usagef(path, "%s needs the name of a service", path)
	case len(args) > o.verb.most:
		return command.Usagef(path, "%s does not take %q", path, args[o.verb.most])
	}
	flags, err := parseServiceFlags(c)
	if err != nil {
		return err
	}
	client, err := o.owners.RequireAgent(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	return o.verb.do(serviceCall{serviceOptions: o, serviceFlags: flags, c: c, client: client}, ctx, args)
}

// many is the maximum for a command that takes any number of arguments.
const many = 1 << 20

// settings returns the settings of the service that the flags name. Present is the configuration of the service; zero
// for a new one.
func (k serviceCall) settings(present api.DeploymentConfiguration) (api.ServiceSettings, error) {
	var s api.ServiceSettings
	s.DeploymentConfiguration.MinimumHealthyPercent, s.DeploymentConfiguration.MaximumPercent = intFlag(k.c, "min-healthy"), intFlag(k.c, "max")
	var err error
	if s.DeploymentConfiguration.DeploymentCircuitBreaker, err = breakerOf(k.c, present.DeploymentCircuitBreaker); err != nil {
		return s, err
	}
	if s.DeploymentConfiguration.DeploymentMethod, err = methodOf(k.c, present); err != nil {
		return s, err
	}
	if k.c.IsSet("health-grace") {
		seconds := int(k.c.Duration("health-grace").Round(time.Second).Seconds())
		s.HealthCheckGracePeriodSeconds = &seconds
	}
	if k.c.IsSet("drain") {
		seconds := int(k.c.Duration("drain").Round(time.Second).Seconds())
		if seconds < 1 {
			return s, command.Usagef(command.Path(k.c), "--drain is 1s to 1h, not %s", k.c.Duration("drain"))
		}
		s.DrainSeconds = &seconds
	}
	if err := sleepFlags(k.c, &s); err != nil {
		return s, err
	}
	if s.Listeners, err = listenersFlag(k.c, "listen"); err != nil {
		return s, err
	}
	if s.TestListeners, err = listenersFlag(k.c, "test-listen"); err != nil {
		return s, err
	}
	if s.Names, err = namesFlag(k.c, "name-as"); err != nil {
		return s, err
	}
	s.Namespace, s.AutoUpdate = k.c.String("namespace"), k.c.String("auto-update")
	if s.Ingress, err = ingressFlag(k.c); err != nil {
		return s, err
	}
	s.TaskOptions = api.TaskOptions{Pull: k.c.String("pull"), Limits: k.c.String("limits"), PIDsLimit: k.c.String("pids-limit"), CPUPeriod: k.c.String("cpu-period"), MinimumAge: k.c.String("minimum-age"), ClampUlimits: k.c.Bool("clamp-ulimits")}
	s.TaskSettings, err = k.taskSettings()
	return s, err
}

// taskSettings returns the changes of the definition that the flags name. The agent checks them.
func (k serviceCall) taskSettings() (s api.TaskSettings, err error) {
	verb := command.Path(k.c)
	env, err := command.ReadEnv(k.environ, verb, k.c.StringSlice("env-file"), k.c.StringSlice("env"))
	if err != nil {
		return s, err
	}
	s.Environment = env
	if s.Vars, err = command.ParseVars(k.environ, verb, k.c.StringSlice("var")); err != nil {
		return s, err
	}
	references, err := command.ParseReferences(k.c)
	if err != nil {
		return s, err
	}
	for _, r := range references {
		s.References = append(s.References, api.Reference{Match: r.Match, Source: r.Text()})
	}
	if file := k.c.String("override"); file != "" {
		doc, err := command.ReadDocument(k.registry.in, file)
		if err != nil {
			return s, fmt.Errorf("read the override: %w", err)
		}
		if s.Overrides, err = taskdef.ToJSON(doc.Name, doc.Source); err != nil {
			return s, err
		}
	}
	if s.Without, err = command.ParseWithout(k.c); err != nil {
		return s, err
	}
	w := command.AdjustValues(k.c)
	s.Publish, s.Secrets, s.Network, s.Memory, s.CPUs, s.StopTimeout = w.Publish, w.Secrets, w.Network, w.Memory, w.CPUs, w.StopTimeout
	s.LeaveOut = w.LeaveOut
	return s, nil
}

// listenersFlag returns the listeners of a flag; nil if it is not given.
func listenersFlag(c *cli.Context, name string) (*[]api.Listener, error) {
	if !c.IsSet(name) {
		return nil, nil
	}
	listeners, err := parseListeners(c.StringSlice(name))
	if err != nil {
		return nil, command.Usagef(command.Path(c), "--%s %v", name, err)
	}
	return &listeners, nil
}

// ingressFlag returns the public addresses of --ingress; nil if it is not given.
func ingressFlag(c *cli.Context) (*[]api.Ingress, error) {
	if !c.IsSet("ingress") {
		return nil, nil
	}
	words, all := c.StringSlice("ingress"), []api.Ingress{}
	if len(words) == 1 && words[0] == "none" {
		return &all, nil
	}
	var problems []string
	for _, w := range words {
		i, err := taskdef.ParseIngress(w)
		if err != nil {
			problems = append(problems, err.Error())
			continue
		}
		for _, p := range i.Check() {
			problems = append(problems, p.Text)
		}
		all = append(all, api.FromIngress(i))
	}
	if len(problems) > 0 {
		return nil, command.Usagef(command.Path(c), "--ingress %s", strings.Join(problems, "; "))
	}
	return &all, nil
}

// parseListeners reads the words of --listen; the only word "none" stands for no listener.
func parseListeners(words []string) ([]api.Listener, error) {
	listeners := []api.Listener{}
	if len(words) == 1 && words[0] == "none" {
		return listeners, nil
	}
	for _, w := range words {
		w, proxied := strings.CutSuffix(w, ",proxy-protocol")
		address, target, _ := strings.Cut(w, "=")
		container, text, _ := strings.Cut(target, ":")
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil || port == 0 || container == "" || address == "" {
			return nil, fmt.Errorf("%q is not [IP:]PORT=CONTAINER:PORT[,proxy-protocol], as in 127.0.0.1:8080=app:80", w)
		}
		if !strings.Contains(address, ":") {
			address = ":" + address
		}
		listeners = append(listeners, api.Listener{Address: address, ContainerName: container, ContainerPort: uint16(port), ProxyProtocol: proxied})
	}
	return listeners, nil
}

// resolveDefinition returns the registered definition that the arguments name. It registers a file.
func (k serviceCall) resolveDefinition(args []string) (string, error) {
	switch {
	case len(args) > 1 && k.family != "":
		return "", command.Usagef(command.Path(k.c), "give %s or --family %s, not both", args[1], k.family)
	case len(args) < 2:
		return k.family, nil
	}
	doc, err := k.registry.read(k.c.Context, args[1])
	if errors.Is(err, fs.ErrNotExist) {
		if _, noRef := catalog.ParseRef(args[1]); noRef != nil {
			return "", fmt.Errorf("read the task definition: %w", err)
		}
		return args[1], nil // the agent looks it up in the catalog
	}
	if err != nil {
		return "", fmt.Errorf("read the task definition: %w", err)
	}
	definitions, err := k.registry.open(k.c)
	if err != nil {
		return "", err
	}
	d, err := definitions.definition()
	if err != nil {
		return "", err
	}
	definitions.counted = k.c.Command.Name == "create"
	name, err := definitions.register(d, doc)
	if err == nil && name == "" {
		err = command.ExitStatus(command.ExitOwnFailure)
	}
	return name, err
}

// copies returns how many copies a service of a definition has where no flag says so: what a Kubernetes controller asks for,
// else one. What is wrong with the definition is reported when the service is made.
func (k serviceCall) copies(registered string) int {
	definitions, err := k.registry.open(k.c)
	if err != nil {
		return 1
	}
	ref, err := catalog.ParseRef(registered)
	if err != nil {
		return 1
	}
	r, source, err := definitions.catalog.Find(ref)
	if err != nil {
		return 1
	}
	d, err := definitions.definition()
	if err != nil {
		return 1
	}
	_, f, err := d.Check(define.Registered(r, source))
	if err != nil || f.Definition.Manifest.Replicas == nil {
		return 1
	}
	return *f.Definition.Manifest.Replicas
}

func (k serviceCall) create(ctx context.Context, args []string) error {
	images, err := k.lockedImages(ctx, args)
	if err != nil {
		return err
	}
	registered, err := k.resolveDefinition(args)
	if err != nil {
		return err
	}
	if registered == "" {
		return command.Usagef(command.Path(k.c), "service create %s: give a FILE or --family FAMILY[:REV]", args[0])
	}
	n := api.NewService{ServiceName: args[0], TaskDefinition: registered}
	if k.count != nil {
		n.DesiredCount = *k.count
	} else {
		n.DesiredCount = k.copies(registered)
	}
	if n.ServiceSettings, err = k.settings(api.DeploymentConfiguration{}); err != nil {
		return err
	}
	n.Images = images
	created, err := k.client.CreateService(ctx, n)
	if err != nil {
		return k.reportError("create", args[0], err)
	}
	fmt.Fprintln(k.out, created.ServiceName)
	return k.waitSteady(ctx, created, api.Service{})
}

func (k serviceCall) update(ctx context.Context, args []string) error {
	var u api.ServiceUpdate
	before, err := k.client.Service(ctx, args[0])
	if err != nil {
		return k.reportError("update", args[0], err)
	}
	images, err := k.lockedImages(ctx, args)
	if err != nil {
		return err
	}
	if u.TaskDefinition, err = k.resolveDefinition(args); err != nil {
		return err
	}
	named := u.TaskDefinition != ""
	if images := k.c.StringSlice("image"); len(images) > 0 {
		if u.TaskDefinition, err = k.registerImages(ctx, args[0], u.TaskDefinition, images); err != nil {
			return err
		}
	}
	if u.ServiceSettings, err = k.settings(before.DeploymentConfiguration); err != nil {
		return err
	}
	u.Images, u.ForceNewDeployment, u.DesiredCount = images, k.force, k.count
	u.KeepChanges = !named
	return k.change(ctx, "update", args[0], func() (api.Service, error) {
		after, err := k.client.UpdateService(ctx, args[0], u)
		if err == nil {
			k.reportUpdate(before, after, u)
		}
		return after, err
	})
}

func (k serviceCall) rollback(ctx context.Context, args []string) error {
	gradual := k.c.Bool("gradual")
	if gradual && k.c.Bool("now") {
		return command.Usagef(command.Path(k.c), "--now and --gradual exclude each other")
	}
	return k.change(ctx, "rollback", args[0], func() (api.Service, error) { return k.client.RollbackService(ctx, args[0], gradual) })
}

func (k serviceCall) wake(ctx context.Context, args []string) error {
	var errs []error
	for _, name := range args {
		errs = append(errs, k.change(ctx, "wake", name, func() (api.Service, error) { return k.client.WakeService(ctx, name, "podtask service wake") }))
	}
	return errors.Join(errs...)
}

func (k serviceCall) goOn(ctx context.Context, args []string) error {
	q := api.ContinueRequest{Hook: k.c.String("hook"), Rollback: k.c.Bool("rollback")}
	return k.change(ctx, "continue", args[0], func() (api.Service, error) { return k.client.ContinueService(ctx, args[0], q) })
}

func (k serviceCall) scale(ctx context.Context, args []string) error {
	if len(args) == 2 && !strings.Contains(args[0]+args[1], "=") { // scale web 3
		args = []string{args[0] + "=" + args[1]}
	}
	var errs []error
	counts := make([]int, len(args))
	for i, a := range args {
		_, number, _ := strings.Cut(a, "=")
		var err error
		if counts[i], err = strconv.Atoi(number); err != nil {
			return command.Usagef(command.Path(k.c), "%q is not NAME=NUMBER, such as web=3", a)
		}
	}
	for i, a := range args {
		name, _, _ := strings.Cut(a, "=")
		errs = append(errs, k.change(ctx, "scale", name, func() (api.Service, error) {
			return k.client.UpdateService(ctx, name, api.ServiceUpdate{DesiredCount: &counts[i]})
		}))
	}
	return errors.Join(errs...)
}

// change changes a service and prints its name.
func (k serviceCall) change(ctx context.Context, verb, name string, ask func() (api.Service, error)) error {
	before, err := k.client.Service(ctx, name)
	var after api.Service
	if err == nil {
		after, err = ask()
	}
	if err != nil {
		return k.reportError(verb, name, err)
	}
	fmt.Fprintln(k.out, name)
	return k.waitSteady(ctx, after, before)
}

// reportError returns the error of a request, after printing the problems of its definition.
func (k serviceCall) reportError(verb, name string, err error) error {
	if f, ok := errors.AsType[*api.Failure](err); ok {
		for _, p := range f.Problems {
			fmt.Fprintf(k.errOut, "Error: %s\n", p)
		}
	}
	return fmt.Errorf("service %s %s: %w", verb, name, err)
}

// waitSteady waits with --wait until all copies are healthy, and shows how far it is.
func (k serviceCall) waitSteady(ctx context.Context, s, before api.Service) error {
	if !k.wait {
		return nil
	}
	ctx, cancel := k.limit(ctx)
	defer cancel()
	name, last := s.ServiceName, s
	rolling := s.Deployments[0].ID
	f := newFollower(k.errOut, console.CanMoveCursor(k.errOut, k.getenv), before, time.Now())
	err := f.follow(ctx, k.client, name, func(now api.Service) bool {
		last = now
		return !now.Steady && now.Deployments[0].RolloutState != "FAILED"
	})
	d := last.Deployments[0]
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("service %s is not steady after %s: %s. The deployment continues; see `podtask why %s`", name, k.waitTimeout, last.Why[0].Text, name)
	case err != nil:
		return err
	case !last.Steady && d.RolloutState == "FAILED":
		return fmt.Errorf("service %s: deployment %s of %s failed: %s", name, d.ID, d.TaskDefinition, d.RolloutStateReason)
	case !last.Steady:
		return fmt.Errorf("service %s: the agent ended or the service was removed before it was steady", name)
	case d.ID != rolling:
		return fmt.Errorf("service %s runs %s again: %s", name, d.TaskDefinition, cmp.Or(d.RolloutStateReason, "another deployment began meanwhile"))
	}
	return nil
}

func (k serviceCall) rm(ctx context.Context, names []string) error {
	var errs []error
	for _, name := range names {
		if err := k.client.RemoveService(ctx, name, k.force); err != nil {
			errs = append(errs, k.reportError("rm", name, err))
			continue
		}
		fmt.Fprintln(k.out, name)
		if k.wait || k.force {
			errs = append(errs, k.waitRemoved(ctx, name))
		}
	}
	return errors.Join(errs...)
}

// waitRemoved waits until a service is removed.
func (k serviceCall) waitRemoved(ctx context.Context, name string) error {
	ctx, cancel := k.limit(ctx)
	defer cancel()
	err := k.client.WatchService(ctx, name, func(api.Service) bool { return true })
	switch {
	case api.Is(err, api.NotFound):
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("service %s is not removed after %s; the removal continues", name, k.waitTimeout)
	}
	return err
}

func (k serviceCall) list(ctx context.Context, _ []string) error {
	all, err := k.client.Services(ctx)
	if err != nil {
		return err
	}
	count := func(head string, of func(api.Service) int) command.Column[api.Service] {
		return command.Column[api.Service]{
			Head: head, Cell: func(s api.Service) string { return strconv.Itoa(of(s)) },
			Order: func(a, b api.Service) int { return cmp.Compare(of(a), of(b)) },
		}
	}
	name := func(s api.Service) string { return s.ServiceName }
	return command.Listing[api.Service]{Items: all, ID: name, Hints: k.errOut, None: "There are no services. Create one with `podtask service create NAME FILE`.", Columns: []command.Column[api.Service]{
		{Head: "NAME", Cell: name},
		{Head: "STATUS", Cell: func(s api.Service) string {
			words, _ := console.ServiceState(s)
			return words
		}},
		{Head: "DEFINITION", Key: "task-definition", Cell: func(s api.Service) string { return s.TaskDefinition }},
		count("DESIRED", func(s api.Service) int { return s.DesiredCount }),
		count("RUNNING", func(s api.Service) int { return s.RunningCount }),
		count("HEALTHY", func(s api.Service) int { return s.HealthyCount }),
		{Head: "ROLLOUT", Cell: rolloutCell},
		{Head: "LISTENERS", Cell: listenersCell},
	}}.Print(k.out, k.c)
}

func (k serviceCall) ps(ctx context.Context, names []string) error {
	s, err := k.client.Service(ctx, names[0])
	if err != nil {
		return err
	}
	tasks := slices.DeleteFunc(s.Tasks, func(t api.ServiceTask) bool {
		return !k.all && (t.Phase == "STOPPED" || t.Phase == "REMOVING")
	})
	type task = api.ServiceTask
	return command.Listing[task]{Items: tasks, ID: func(t task) string { return t.ID }, Hints: k.errOut, None: noCopies(s), Columns: []command.Column[task]{
		{Head: "NAME", Cell: func(t task) string { return t.Name }},
		{Head: "STATUS", Cell: console.CopyState},
		{Head: "HEALTH", Cell: console.CopyHealth},
		{Head: "DEPLOYMENT", Cell: func(t task) string { return t.Deployment }},
		{Head: "ID", Wide: true, Cell: func(t task) string { return lifecycle.ShortID(t.ID) }},
		{Head: "CREATED", Cell: func(t task) string { return console.Ago(time.Now(), t.CreatedAt) }, Order: func(a, b task) int { return b.CreatedAt.Compare(a.CreatedAt) }},
		{Head: "REASON", Cell: func(t task) string { return t.Reason }},
	}}.Print(k.out, k.c)
}

func (k serviceCall) history(ctx context.Context, names []string) error {
	s, err := k.client.Service(ctx, names[0])
	if err != nil {
		return err
	}
	type past = api.PastDeployment
	took := func(d past) time.Duration {
		if d.FinishedAt.IsZero() {
			return time.Since(d.CreatedAt)
		}
		return d.FinishedAt.Sub(d.CreatedAt)
	}
	return command.Listing[past]{Items: s.History, ID: func(d past) string { return strconv.Itoa(d.Number) }, Hints: k.errOut, Columns: []command.Column[past]{
		{Head: "NUMBER", Cell: func(d past) string { return strconv.Itoa(d.Number) }, Order: func(a, b past) int { return a.Number - b.Number }},
		{Head: "DEPLOYMENT", Cell: func(d past) string { return d.Deployment }},
		{Head: "DEFINITION", Key: "task-definition", Cell: func(d past) string { return d.TaskDefinition }},
		{Head: "STRATEGY", Wide: true, Cell: func(d past) string { return d.Strategy }},
		{Head: "STATUS", Cell: func(d past) string { return d.Status }},
		{Head: "STAGE", Wide: true, Cell: func(d past) string {
			if d.Progress == nil {
				return ""
			}
			return cmp.Or(d.FailedStage, d.Progress.Stage)
		}},
		{Head: "STARTED", Cell: func(d past) string { return console.Ago(time.Now(), d.CreatedAt) }, Order: func(a, b past) int { return b.CreatedAt.Compare(a.CreatedAt) }},
		{Head: "TOOK", Cell: func(d past) string { return console.Span(took(d)) }, Order: func(a, b past) int { return cmp.Compare(took(a), took(b)) }},
		{Head: "REASON", Cell: func(d past) string {
			if d.RolledBackTo != "" {
				return "back to " + d.RolledBackTo + ": " + d.Reason
			}
			return d.Reason
		}},
	}}.Print(k.out, k.c)
}

func (k serviceCall) inspect(ctx context.Context, names []string) error {
	found := []api.Service{}
	var errs []error
	for _, name := range names {
		s, err := k.client.Service(ctx, name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		found = append(found, s)
	}
	err := command.PrintItems(k.out, k.c, found, func(bool) error { return console.WriteJSON(k.out, found) })
	return errors.Join(append(errs, err)...)
}

func (k serviceCall) events(ctx context.Context, names []string) error {
	s, err := k.client.Service(ctx, names[0])
	if err != nil {
		return err
	}
	return command.PrintItems(k.out, k.c, s.Events, func(bool) error {
		for _, e := range s.Events {
			fmt.Fprintln(k.out, e.CreatedAt.Format(time.RFC3339), console.ServiceEvent(s.ServiceName, e.Message))
		}
		return nil
	})
}
