package instance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/aws/instance/awscall"
	"github.com/podtask/podtask/internal/aws/instance/wire"
	"github.com/podtask/podtask/internal/ecsstatus"
	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/podtask/podtask/internal/sleep"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/internal/uuid"
)

// FatalError explains why an instance cannot run before the user has changed something: another start meets
// the same.
type FatalError struct{ Err error }

func (e *FatalError) Error() string { return e.Err.Error() }
func (e *FatalError) Unwrap() error { return e.Err }

// node is an instance that runs.
type node struct {
	Config
	records *Records
	status  *statusFile
	// definitions are those that ECS has described.
	definitions definitions

	ctx     context.Context // of the workers
	workers sync.WaitGroup
	slots   chan struct{} // of calls that tell states

	mu       sync.Mutex
	identity Identity
	tasks    map[string]*taskWorker // by ARN
	// manifest is the ID of the last manifest that was compared; a stop verification is of it.
	manifest string
	// heard is the time at which ACS last asked whether the instance is there; instance statuses are sent then.
	heartbeats chan struct{}
}

// concurrent is the number of states that are sent at once.
const concurrent = 10

// Run is an instance until ctx ends or it cannot continue. Errors that only the user can mend are
// *FatalError. Records has its lock.
func Run(ctx context.Context, c Config, records *Records) error {
	n := &node{Config: c, records: records, tasks: make(map[string]*taskWorker), slots: make(chan struct{}, concurrent), heartbeats: make(chan struct{}, 1)}
	n.status = &statusFile{path: ecsstatus.Path(c.Runtime), status: ecsstatus.Status{PID: os.Getpid(), Since: time.Now()}}
	defer n.status.flush()
	var err error
	if n.identity, err = records.Identity(); err != nil {
		return err
	}
	if id := n.identity; id.ARN != "" && id.Cluster != n.cluster() {
		return &FatalError{fmt.Errorf("this host is the instance %s of the cluster %q, not of %q: run `podtask ecs leave` first, or configure the cluster %q", id.ARN, id.Cluster, n.cluster(), id.Cluster)}
	}
	if id := n.identity; id.ARN != "" && id.Region != c.Calls.Region {
		return &FatalError{fmt.Errorf("this host is the instance %s in %s, not in %s: run `podtask ecs leave` first, or configure the region %s", id.ARN, id.Region, c.Calls.Region, id.Region)}
	}
	ctx, cancel := context.WithCancel(ctx)
	n.ctx = ctx
	defer n.workers.Wait()
	defer cancel()
	if err := n.load(); err != nil {
		return err
	}
	n.status.set(func(s *ecsstatus.Status) { s.Cluster, s.Region, s.Instance = n.cluster(), c.Calls.Region, n.arn() })
	n.awaitAgent(ctx)
	if err := n.register(ctx); err != nil {
		return err
	}
	n.status.set(func(s *ecsstatus.Status) { s.Instance = n.arn() })
	n.warnOfOthers(ctx)
	endpoints := &endpoints{node: n}
	var links sync.WaitGroup
	links.Go(func() { n.acs(endpoints).run(ctx) })
	links.Go(func() { n.tcs(endpoints).run(ctx) })
	links.Wait()
	return nil
}

// cluster is the name of the cluster.
func (n *node) cluster() string {
	if n.Cluster == "" {
		return "default"
	}
	return n.Cluster
}

// arn is that of the instance; empty while it is not registered.
func (n *node) arn() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.identity.ARN
}

// change changes the identity and makes that durable.
func (n *node) change(fn func(*Identity)) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	next := n.identity
	fn(&next)
	if err := n.records.SetIdentity(next); err != nil {
		return err
	}
	n.identity = next
	return nil
}

// valueDir is the directory for the secrets of a task.
func (n *node) valueDir(arn string) string { return filepath.Join(n.Runtime, "tasks", keyOf(arn)) }

// load starts the workers of recorded tasks.
func (n *node) load() error {
	all, damaged, err := n.records.all()
	if err != nil {
		return err
	}
	for _, err := range damaged {
		n.Log.Error("a task of ECS is left alone, as its record cannot be read", "error", err)
	}
	for _, rec := range all {
		w := newTaskWorker(n, rec)
		w.roles.read()
		n.start(w)
	}
	return nil
}

// start runs a worker. The lock of n is not held.
func (n *node) start(w *taskWorker) {
	n.mu.Lock()
	n.tasks[w.arn()] = w
	n.mu.Unlock()
	n.workers.Go(func() { w.run(n.ctx) })
}

func (n *node) forget(arn string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.tasks, arn)
}

func (n *node) worker(arn string) *taskWorker {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.tasks[arn]
}

// all returns the workers, in the order of their ARNs.
func (n *node) all() (out []*taskWorker) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range n.tasks {
		out = append(out, w)
	}
	slices.SortFunc(out, func(a, b *taskWorker) int {
		switch {
		case a.arn() < b.arn():
			return -1
		case a.arn() > b.arn():
			return 1
		}
		return 0
	})
	return out
}

// awaitAgent waits for the agent, as what the host can run depends on it.
func (n *node) awaitAgent(ctx context.Context) {
	for failures := 1; ; failures++ {
		v, err := n.Agent.Version(ctx)
		if err == nil {
			if n.Engine == "" {
				n.Engine = v.Version
			}
			n.status.done("", ecsstatus.WaitAgent)
			return
		}
		n.status.wait(ecsstatus.WaitAgent, "", "the podtask agent, which does not answer: "+err.Error())
		n.Log.Warn("the agent does not answer", "error", err)
		if !sleep.For(ctx, n.Pace.Agent.pause(failures)) {
			return
		}
	}
}

// warnOfOthers tells of tasks that came from ECS and that no record knows: they are of an instance
// that was lost. They are the user's to stop.
func (n *node) warnOfOthers(ctx context.Context) {
	tasks, err := n.Agent.Tasks(ctx)
	if err != nil {
		n.Log.Warn("the tasks of the agent cannot be listed", "error", err)
		return
	}
	for _, t := range tasks {
		if name := t.Tags[arn.TagTask]; name != "" && n.worker(name) == nil {
			n.Log.Warn("a task came from ECS, but this instance does not know it: stop it with `podtask rm -f`", "task", t.ID, "arn", name, "instance", t.Tags[arn.TagInstance])
		}
	}
}

// register makes the host an instance, or tells what it has now.
func (n *node) register(ctx context.Context) error {
	if n.identity.Token == "" || n.identity.Cluster != n.cluster() {
		token := uuid.New()
		if err := n.change(func(id *Identity) { id.Cluster, id.Region, id.Token = n.cluster(), n.Calls.Region, token }); err != nil {
			return err
		}
	}
	for failures := 1; ; failures++ {
		err := n.tryRegister(ctx)
		switch {
		case err == nil:
			n.status.done("", ecsstatus.WaitRegistration)
			n.status.set(func(s *ecsstatus.Status) { s.Registered = time.Now() })
			return nil
		case ctx.Err() != nil:
			return nil
		case errors.As(err, new(*FatalError)):
			return err
		case awscall.CodeOf(err) == "AccessDeniedException":
			return fmt.Errorf("%w: the credentials need ecs:RegisterContainerInstance (docs/ecs-anywhere.md)", err)
		}
		n.status.wait(ecsstatus.WaitRegistration, "", "ECS to register the host: "+err.Error())
		n.Log.Warn("the host cannot be registered yet", "attempts", failures, "error", err)
		if !sleep.For(ctx, n.Pace.Register.pause(failures)) {
			return nil
		}
	}
}

func (n *node) tryRegister(ctx context.Context) error {
	in := n.registration()
	var out wire.Registered
	err := n.Calls.Call(ctx, awscall.ECS, "RegisterContainerInstance", in, &out)
	if refused, ok := errors.AsType[*awscall.Error](err); ok && refused.Message == "Cluster not found." && n.Cluster == "" {
		created := n.Calls.Call(ctx, awscall.ECS, "CreateCluster", map[string]string{"clusterName": in.Cluster}, nil)
		if created != nil {
			return &FatalError{fmt.Errorf("the cluster %q does not exist and cannot be created: %w", in.Cluster, created)}
		}
		err = n.Calls.Call(ctx, awscall.ECS, "RegisterContainerInstance", in, &out)
	}
	switch code := awscall.CodeOf(err); {
	case code == "InvalidParameterException" || code == "ClientException":
		return &FatalError{err}
	case err != nil:
		return err
	case out.Instance.ARN == "":
		return &FatalError{errors.New("RegisterContainerInstance: the answer has no containerInstanceArn")}
	}
	if missing := notEchoed(in.Attributes, out.Instance.Attributes); len(missing) > 0 {
		return &FatalError{fmt.Errorf("RegisterContainerInstance: ECS did not take the attributes %v", missing)}
	}
	return n.change(func(id *Identity) { id.ARN, id.Token = out.Instance.ARN, "" })
}

// notEchoed are the attributes that an answer lacks.
func notEchoed(sent, got []wire.Attribute) (missing []string) {
	for _, a := range sent {
		if !slices.Contains(got, a) {
			missing = append(missing, a.Name)
		}
	}
	return missing
}

// registration is the body of RegisterContainerInstance. The user's attributes are in the first only:
// ECS has them then, and may have changed them.
func (n *node) registration() wire.Register {
	r := wire.Register{
		Cluster: n.cluster(), ClientToken: n.identity.Token, InstanceARN: n.identity.ARN, Tags: n.Tags,
		TotalResources: []wire.Resource{
			wire.Integer("CPU", n.Host.CPU), wire.Integer("MEMORY", n.Host.Memory),
			wire.StringSet("PORTS", n.Host.Ports), wire.StringSet("PORTS_UDP", n.Host.UDPPorts),
		},
	}
	if n.identity.ARN == "" {
		r.Attributes = append(r.Attributes, n.Attributes...)
	}
	r.Attributes = append(r.Attributes, capabilities(n.Host)...)
	return r
}

// endpoints are the addresses of the web sockets, which are asked for once in a while.
type endpoints struct {
	node *node

	mu    sync.Mutex
	found wire.Endpoints
	at    time.Time
}

// get returns the addresses. If they cannot be had anew, older ones are used.
func (e *endpoints) get(ctx context.Context) (wire.Endpoints, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.at.IsZero() && time.Since(e.at) < e.node.Pace.Endpoints {
		return e.found, nil
	}
	var out wire.Endpoints
	err := e.node.Calls.Call(ctx, awscall.ECS, "DiscoverPollEndpoint", wire.Discover{Cluster: e.node.cluster(), InstanceARN: e.node.arn()}, &out)
	if err == nil && (out.ACS == "" || out.TCS == "") {
		err = errors.New("DiscoverPollEndpoint: the answer has no endpoint")
	}
	if err != nil {
		if !e.at.IsZero() {
			return e.found, nil
		}
		return out, err
	}
	e.found, e.at = out, time.Now()
	return out, nil
}

// submit tells ECS a state of a task.
func (n *node) submit(ctx context.Context, c wire.StateChange) error {
	select {
	case n.slots <- struct{}{}:
		defer func() { <-n.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return n.Calls.Call(ctx, awscall.ECS, "SubmitTaskStateChange", c, nil)
}

// ErrRunning is the error of an instance that another process is.
var ErrRunning = state.ErrLocked
