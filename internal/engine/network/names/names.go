package names

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/forward"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef"
	"golang.org/x/sys/unix"
)

// Name is a name of a service with a port: what clients connect to. Name may be several host names of one address, with
// spaces between them.
type Name struct {
	Namespace, Name string
	Port            uint16
}

func (n Name) String() string {
	return fmt.Sprintf("%s:%d in namespace %s", n.Name, n.Port, n.Namespace)
}

// Network is a network beside that of a task.
type Network interface {
	Listen(ctx context.Context, addr netip.AddrPort) (net.Listener, error)
	Close()
}

// Directory has the names of the services of this process, and the tasks that reach them. Its methods may be used by
// any goroutine.
type Directory struct {
	Log *slog.Logger
	// Dir is where the names that tasks were given are kept.
	Dir string
	// Open makes the network beside that of a process; nil: this process cannot, and tasks reach no names.
	Open func(ctx context.Context, pid int) (Network, error)

	mu       sync.Mutex
	serving  bool
	services map[string]map[Name]*forward.Forwarder
	tasks    map[string]*task
}

// maxConnections is how many connections of one task to names are forwarded at a time.
const maxConnections = 256

// task is a task of which this process is the owner.
type task struct {
	directory     *Directory
	id, namespace string
	definition    taskdef.Task
	wake          chan struct{} // something has changed; has room for one
	budget        *forward.Budget
	stop          context.CancelFunc

	mu      sync.Mutex // one change at a time
	ended   bool
	problem error        // of the latest attempt to follow the names
	ends    map[int]*end // by container; one for all at -1
}

// end is the network of one container, or of those of a whole task.
type end struct {
	pid     int    // of a process in the network namespace
	hosts   string // the /etc/hosts of its containers, on the host; empty if it is not known
	later   bool   // the file may be made later, with all names
	network Network
	open    map[Name]listening
}

// listening is a listener for a name.
type listening struct {
	forwarder *forward.Forwarder
	detach    func()
}

// Serve says that this process runs the services of the user: tasks that it owns reach them.
func (d *Directory) Serve() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.serving = true
}

// serves reports whether this process runs services.
func (d *Directory) serves() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.serving
}

// ErrNoAgent explains why a task reaches no services by name.
var ErrNoAgent = errors.New("no agent runs the task: start one with `systemctl --user enable --now podtask.socket podtask.service` or `podtask agent`, and run the task again")

// Publish replaces the names of a service. Connections to them go to the forwarders.
func (d *Directory) Publish(service string, names map[Name]*forward.Forwarder) {
	d.mu.Lock()
	before := d.services[service]
	if maps.Equal(before, names) {
		d.mu.Unlock()
		return
	}
	if d.services == nil {
		d.services = make(map[string]map[Name]*forward.Forwarder)
	}
	d.services[service] = maps.Clone(names)
	if len(names) == 0 {
		delete(d.services, service)
	}
	tasks := slices.Collect(maps.Values(d.tasks))
	d.mu.Unlock()
	for _, t := range tasks {
		t.change()
	}
}

// of returns the names of a namespace and where their connections go.
func (d *Directory) of(namespace string) map[Name]*forward.Forwarder {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make(map[Name]*forward.Forwarder)
	for _, names := range d.services {
		for n, f := range names {
			if n.Namespace == namespace {
				all[n] = f
			}
		}
	}
	return all
}

// namesOf are the names without ports, each once, sorted.
func namesOf(all map[Name]*forward.Forwarder) (names []string) {
	for n := range all {
		if !slices.Contains(names, n.Name) {
			names = append(names, n.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Wanted reports whether a task reaches names: it is in a namespace, and has a network of its own.
func (d *Directory) Wanted(s lifecycle.State) bool {
	return d != nil && d.Open != nil && s.Options.Namespace != "" && s.Task.Network != taskdef.NetworkHost && s.Task.Network != taskdef.NetworkNone
}

// cluster begins the namespaces of the Pods of nodes of Kubernetes. No other namespace has a slash.
const cluster = "kubernetes/"

// OfCluster returns the namespace of the Pods of a node of Kubernetes that are in a namespace of the cluster.
func OfCluster(namespace string) string { return cluster + namespace }

// ClusterNamespace is the namespace of the cluster of one of OfCluster.
func ClusterNamespace(namespace string) string { return strings.TrimPrefix(namespace, cluster) }

// InCluster reports whether a namespace is one of OfCluster.
func InCluster(namespace string) bool { return strings.HasPrefix(namespace, cluster) }

// Hosts returns the lines of /etc/hosts that the containers of a task are created with, in the form NAME:ADDRESS. They are the same each time.
// Pods of a node of Kubernetes have none: Lines are in their file.
func (d *Directory) Hosts(s lifecycle.State) (lines []string, err error) {
	if !d.Wanted(s) || !d.serves() {
		return nil, nil
	}
	t := d.task(s)
	t.mu.Lock()
	defer t.mu.Unlock()
	known, err := t.extend()
	if err == nil && known.Created == nil {
		n := len(known.Names)
		known.Created = &n
		err = d.save(t.id, known)
	}
	if err != nil || InCluster(t.namespace) {
		return nil, err
	}
	for i, n := range known.Names[:min(*known.Created, len(known.Names))] {
		lines = append(lines, n+":"+address(i).String())
	}
	return lines, nil
}

// task returns the task of a state.
func (d *Directory) task(s lifecycle.State) *task {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.tasks[s.ID]; t != nil {
		return t
	}
	ctx, cancel := context.WithCancel(context.Background())
	t := &task{directory: d, id: s.ID, namespace: s.Options.Namespace, definition: s.Task, wake: make(chan struct{}, 1), budget: forward.NewBudget(maxConnections), stop: cancel, ends: make(map[int]*end)}
	if d.tasks == nil {
		d.tasks = make(map[string]*task)
	}
	d.tasks[s.ID] = t
	go t.run(ctx) // ends with Close
	return t
}

// extend gives the task the names that there are now, but for those that it resolves by itself. The caller holds mu.
func (t *task) extend() (table, error) {
	known, err := t.directory.load(t.id)
	if err != nil {
		return known, err
	}
	all := slices.DeleteFunc(namesOf(t.directory.of(t.namespace)), func(name string) bool {
		return slices.ContainsFunc(strings.Fields(name), func(host string) bool { return service.OwnHost(t.definition, host) != "" })
	})
	if known.add(all) {
		err = t.directory.save(t.id, known)
	}
	return known, err
}

// Enter makes the names reachable in the network namespace of a process, before the programs there start. key tells
// the namespaces of a task apart. hosts is the /etc/hosts of the namespace's containers, as a path of this host.
func (d *Directory) Enter(ctx context.Context, s lifecycle.State, key, pid int, hosts string) error {
	if !d.Wanted(s) {
		return nil
	}
	if !d.serves() {
		return ErrNoAgent
	}
	t := d.task(s)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return nil
	}
	if old := t.ends[key]; old == nil || old.pid != pid {
		if old != nil {
			old.close()
		}
		t.ends[key] = &end{pid: pid, open: make(map[Name]listening)}
	}
	t.ends[key].hosts, t.ends[key].later = hosts, InCluster(t.namespace)
	err := t.follow(ctx)
	if err != nil {
		t.change() // to try again
	}
	return err
}

// change has the task follow the names soon.
func (t *task) change() {
	select {
	case t.wake <- struct{}{}:
	default: // it is about to
	}
}

// retryPause is between two attempts to follow a change.
const retryPause = 5 * time.Second

// followLimit bounds one.
const followLimit = 30 * time.Second

// run follows the changes of services until the task is closed.
func (t *task) run(ctx context.Context) {
	var retry <-chan time.Time
	for {
		select {
		case <-t.wake:
		case <-retry:
		case <-ctx.Done():
			return
		}
		retry = nil
		once, cancel := context.WithTimeout(ctx, followLimit)
		t.mu.Lock()
		err := t.follow(once)
		t.mu.Unlock()
		cancel()
		if err != nil && ctx.Err() == nil {
			t.directory.Log.Warn("a task does not reach all names of its namespace; trying again", "task", t.id, "error", err)
			retry = time.After(retryPause)
		}
	}
}

// follow opens and closes listeners as the namespace has names, and notes what keeps it from that. The caller holds mu.
func (t *task) follow(ctx context.Context) error {
	t.problem = t.tryFollow(ctx)
	return t.problem
}

// Problem returns why a task of this process does not reach all names of its namespace; nil if it does.
func (d *Directory) Problem(id string) error {
	d.mu.Lock()
	t := d.tasks[id]
	d.mu.Unlock()
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.problem
}

func (t *task) tryFollow(ctx context.Context) error {
	if t.ended || len(t.ends) == 0 {
		return nil
	}
	all := t.directory.of(t.namespace)
	known, err := t.extend()
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range t.ends {
		for n, l := range e.open {
			if all[n] != l.forwarder {
				l.detach()
				delete(e.open, n)
			}
		}
		errs = append(errs, e.listen(ctx, t, all, known), e.writeHosts(known))
	}
	return errors.Join(errs...)
}

// listen opens the listeners that are missing.
func (e *end) listen(ctx context.Context, t *task, all map[Name]*forward.Forwarder, known table) error {
	for _, n := range slices.SortedFunc(maps.Keys(all), compare) {
		addr, ok := known.of(n.Name)
		if _, open := e.open[n]; open || !ok {
			continue
		}
		if e.network == nil {
			network, err := t.directory.Open(ctx, e.pid)
			if err != nil {
				return err
			}
			e.network = network
		}
		l, err := e.network.Listen(ctx, netip.AddrPortFrom(addr, n.Port))
		if err != nil {
			return err
		}
		e.open[n] = listening{all[n], all[n].Attach(l, t.budget)}
	}
	return nil
}

func compare(a, b Name) int {
	if c := strings.Compare(a.Name, b.Name); c != 0 {
		return c
	}
	return int(a.Port) - int(b.Port)
}

// close ends all of the network.
func (e *end) close() {
	for n, l := range e.open {
		l.detach()
		delete(e.open, n)
	}
	if e.network != nil {
		e.network.Close()
		e.network = nil
	}
}

// writeHosts adds the lines that the containers' /etc/hosts lacks: those of names that came after the containers were created.
// Podman writes the file anew at each start.
func (e *end) writeHosts(known table) error {
	if e.hosts == "" || len(known.Names) == 0 {
		return nil
	}
	// Containers mount the file itself: another one in its place would not be seen.
	f, err := os.OpenFile(e.hosts, os.O_RDWR|os.O_APPEND, 0)
	if errors.Is(err, fs.ErrNotExist) && e.later {
		return nil
	}
	if err == nil {
		defer f.Close()
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX) // package hostsfile writes that of a Pod
	}
	var text []byte
	if err == nil {
		text, err = io.ReadAll(f)
	}
	if err != nil {
		return fmt.Errorf("hosts file: %w", err)
	}
	has := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && !strings.HasPrefix(fields[0], "#") {
			for _, name := range fields[1:] {
				has[name] = true
			}
		}
	}
	var more bytes.Buffer
	if len(text) > 0 && text[len(text)-1] != '\n' {
		more.WriteByte('\n')
	}
	missing := false
	for i, n := range known.Names {
		if slices.ContainsFunc(strings.Fields(n), func(host string) bool { return !has[host] }) {
			missing = true
			fmt.Fprintf(&more, "%s\t%s\n", address(i), n)
		}
	}
	if !missing {
		return nil
	}
	if _, err := f.Write(more.Bytes()); err != nil {
		return fmt.Errorf("hosts file %s: %w", filepath.Base(e.hosts), err)
	}
	return nil
}

// Close ends the networks of a task. What the task was given stays until Remove.
func (d *Directory) Close(id string) {
	if d == nil {
		return
	}
	d.mu.Lock()
	t := d.tasks[id]
	delete(d.tasks, id)
	d.mu.Unlock()
	if t == nil {
		return
	}
	t.stop()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	for _, e := range t.ends {
		e.close()
	}
}
