package nodenames

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/podtask/podtask/internal/atomicfile"
	"github.com/podtask/podtask/internal/engine/network/names"
	"github.com/podtask/podtask/internal/forward"
	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Nodes has the names of all nodes of this process. Its methods may be used by any goroutine.
type Nodes struct {
	Log *slog.Logger
	// Dir is where the names are kept.
	Dir   string
	Tasks interface {
		Get(id string) (lifecycle.State, error)
	}
	// Dial connects to a port of a container as another Pod would.
	Dial func(ctx context.Context, s lifecycle.State, i int, port uint16) (net.Conn, error)
	// Names makes names known to the tasks that reach them.
	Names interface {
		Publish(service string, all map[names.Name]*forward.Forwarder)
	}

	mu    sync.Mutex
	nodes map[string]map[names.Name]*forward.Forwarder
}

// most limits the ports of the names that a node gives the Pods of a namespace: each is a listener for each of these Pods.
const most = names.MaxNames

var (
	nodeName = lazy.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
	hostName = lazy.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$`)
)

// Check returns what is wrong with names.
func Check(node string, n api.NodeNames) error {
	if !nodeName.MatchString(node) {
		return fmt.Errorf("%q is not the name of a node", node)
	}
	count := make(map[string]int)
	for _, name := range n.Names {
		switch {
		case !nodeName.MatchString(name.Namespace):
			return fmt.Errorf("%q is not a namespace", name.Namespace)
		case len(name.Hosts) == 0:
			return errors.New("a name without hosts")
		}
		for _, host := range name.Hosts {
			if len(host) > 253 || !hostName.MatchString(host) || host == "localhost" || net.ParseIP(host) != nil {
				return fmt.Errorf("%q is not a host name", host)
			}
		}
		for _, p := range name.Ports {
			if p.Port == 0 || slices.ContainsFunc(p.Targets, func(t api.NodeTarget) bool { return t.Port == 0 || t.Task == "" }) {
				return fmt.Errorf("%s: a port is 1 to 65535, and a target has a task", name.Hosts[0])
			}
		}
		if count[name.Namespace] += len(name.Ports); count[name.Namespace] > most {
			return fmt.Errorf("more than %d ports of names in the namespace %s", most, name.Namespace)
		}
	}
	return nil
}

// Set replaces the names of a node, which pass Check.
func (n *Nodes) Set(node string, to api.NodeNames) error {
	data, err := json.Marshal(to)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := os.MkdirAll(n.Dir, 0o700); err != nil {
		return err
	}
	if err := atomicfile.Write(filepath.Join(n.Dir, node+".json"), data, 0o600); err != nil {
		return err
	}
	n.publish(node, to)
	return nil
}

// Load publishes the names that are kept. What cannot be read is left out: podtask-kubelet replaces it.
func (n *Nodes) Load() {
	n.mu.Lock()
	defer n.mu.Unlock()
	files, err := os.ReadDir(n.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		n.Log.Warn("the names of nodes cannot be read", "error", err)
	}
	for _, f := range files {
		node, isNode := strings.CutSuffix(f.Name(), ".json")
		if !isNode {
			continue
		}
		var to api.NodeNames
		data, err := state.OS{}.ReadFile(filepath.Join(n.Dir, f.Name()))
		if err == nil {
			err = json.Unmarshal(data, &to)
		}
		if err == nil {
			err = Check(node, to)
		}
		if err != nil {
			n.Log.Warn("the names of a node cannot be read", "node", node, "error", err)
			continue
		}
		n.publish(node, to)
	}
}

// publish has the connections of names go to their targets. The caller holds mu.
func (n *Nodes) publish(node string, to api.NodeNames) {
	before, now := n.nodes[node], make(map[names.Name]*forward.Forwarder)
	for _, name := range to.Names {
		for _, p := range name.Ports {
			key := names.Name{Namespace: names.OfCluster(name.Namespace), Name: strings.Join(name.Hosts, " "), Port: p.Port}
			f := now[key]
			if f == nil {
				f = before[key]
			}
			if f == nil {
				f = forward.New(forward.Config{Log: n.Log, Dial: n.dial})
			}
			now[key] = f
			set := forward.Set{ID: node, Weight: 1}
			for _, t := range p.Targets {
				address := net.JoinHostPort(t.Task, strconv.Itoa(int(t.Port)))
				set.Targets = append(set.Targets, forward.Target{ID: address, Address: address})
			}
			f.Route(set)
		}
	}
	if n.nodes == nil {
		n.nodes = make(map[string]map[names.Name]*forward.Forwarder)
	}
	n.nodes[node] = now
	n.Names.Publish("node "+node, now) // no service has a space in its name
	for key, f := range before {
		if now[key] == nil {
			if err := f.Close(); err != nil {
				n.Log.Debug("a name ends", "name", key, "error", err)
			}
		}
	}
}

// Traffic counts the connections to a port of a name.
type Traffic struct {
	Node, Namespace, Name string
	Port                  uint16
	// Counts are those since the name is there; of their sets there is the node's.
	forward.Counts
}

// Traffic returns the names that have had connections, in no order.
func (n *Nodes) Traffic() (all []Traffic) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for node, forwarders := range n.nodes {
		for key, f := range forwarders {
			c := f.Counts()
			if c.Forwarded[node]+c.Refused+c.Quiet == 0 && c.Open == 0 {
				continue
			}
			host, _, _ := strings.Cut(key.Name, " ")
			all = append(all, Traffic{Node: node, Namespace: names.ClusterNamespace(key.Namespace), Name: host, Port: key.Port, Counts: c})
		}
	}
	return all
}

// dial connects to TASK:PORT in the network namespace of the task.
func (n *Nodes) dial(ctx context.Context, address string) (net.Conn, error) {
	id, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil, err
	}
	s, err := n.Tasks.Get(id)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(s.Containers, func(c lifecycle.Container) bool { return c.Presence == lifecycle.Running })
	if i < 0 {
		return nil, fmt.Errorf("no container of task %s runs", lifecycle.ShortID(id))
	}
	return n.Dial(ctx, s, i, uint16(port))
}

// Close ends all connections.
func (n *Nodes) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for node, all := range n.nodes {
		n.Names.Publish("node "+node, nil)
		for _, f := range all {
			_ = f.Close()
		}
	}
	n.nodes = nil
}
