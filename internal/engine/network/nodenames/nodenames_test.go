package nodenames

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/podtask/podtask/internal/engine/network/names"
	"github.com/podtask/podtask/internal/forward"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// directory has what was published.
type directory struct {
	mu  sync.Mutex
	all map[names.Name]*forward.Forwarder
}

func (d *directory) Publish(_ string, all map[names.Name]*forward.Forwarder) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = all
}

// say returns what a connection to a name reads; the error of the connection if it is closed at once.
func (d *directory) say(t *testing.T, n names.Name) string {
	t.Helper()
	d.mu.Lock()
	f := d.all[n]
	d.mu.Unlock()
	if f == nil {
		return "no name"
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Attach(l, forward.NewBudget(4))()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	text, err := io.ReadAll(c)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

type tasks map[string]lifecycle.State

func (t tasks) Get(id string) (lifecycle.State, error) {
	s, known := t[id]
	if !known {
		return s, errors.New("no such task")
	}
	return s, nil
}

// dial is a connection to a program that says where it is.
func dial(_ context.Context, s lifecycle.State, i int, port uint16) (net.Conn, error) {
	a, b := net.Pipe()
	go func() {
		fmt.Fprintf(b, "%s container %d port %d", s.ID, i, port)
		_ = b.Close()
	}()
	return a, nil
}

func TestConnectionsGoToThePodsBehindAName(t *testing.T) {
	t.Parallel()
	seen := new(directory)
	running := lifecycle.State{ID: "t1", Containers: []lifecycle.Container{{}, {Presence: lifecycle.Running}}}
	n := &Nodes{Log: slog.New(slog.DiscardHandler), Dir: filepath.Join(t.TempDir(), "nodes"), Tasks: tasks{"t1": running}, Dial: dial, Names: seen}
	n.Load() // nothing is kept yet
	db := api.NodeName{Namespace: "shop", Hosts: []string{"db", "db.shop"}, Ports: []api.NodePort{{Port: 5432, Targets: []api.NodeTarget{{Task: "gone", Port: 1}, {Task: "t1", Port: 8080}}}}}
	if err := n.Set("host", api.NodeNames{Names: []api.NodeName{db}}); err != nil {
		t.Fatal(err)
	}
	name := names.Name{Namespace: names.OfCluster("shop"), Name: "db db.shop", Port: 5432}
	if got := seen.say(t, name); got != "t1 container 1 port 8080" {
		t.Errorf("the name leads to %q", got)
	}
	if all := n.Traffic(); len(all) != 1 || all[0].Node != "host" || all[0].Namespace != "shop" || all[0].Name != "db" || all[0].Port != 5432 || all[0].Forwarded["host"] != 1 {
		t.Errorf("counted is %+v", all)
	}
	before := seen.all[name]
	if err := n.Set("host", api.NodeNames{Names: []api.NodeName{db, {Namespace: "shop", Hosts: []string{"web"}, Ports: []api.NodePort{{Port: 80}}}}}); err != nil {
		t.Fatal(err)
	}
	if seen.all[name] != before || len(seen.all) != 2 {
		t.Errorf("a name that stays is made again: %v", seen.all)
	}
	n.Close()
	if len(seen.all) != 0 {
		t.Errorf("after the end there is %v", seen.all)
	}

	again := &Nodes{Log: n.Log, Dir: n.Dir, Tasks: n.Tasks, Dial: dial, Names: seen}
	defer again.Close()
	if err := os.WriteFile(filepath.Join(n.Dir, "broken.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	again.Load()
	if got := seen.say(t, name); got != "t1 container 1 port 8080" {
		t.Errorf("the next process has %q", got)
	}
}

func TestWhatIsNoNameIsRefused(t *testing.T) {
	t.Parallel()
	port := []api.NodePort{{Port: 80}}
	many := make([]api.NodeName, most+1)
	for i := range many {
		many[i] = api.NodeName{Namespace: "shop", Hosts: []string{fmt.Sprintf("n%d", i)}, Ports: port}
	}
	for want, n := range map[string][]api.NodeName{
		"not a namespace":      {{Namespace: "../x", Hosts: []string{"db"}, Ports: port}},
		"without hosts":        {{Namespace: "shop", Ports: port}},
		"not a host name":      {{Namespace: "shop", Hosts: []string{"db\n10.0.0.1 other"}, Ports: port}},
		`"127.0.0.1" is not`:   {{Namespace: "shop", Hosts: []string{"127.0.0.1"}, Ports: port}},
		`"localhost" is not`:   {{Namespace: "shop", Hosts: []string{"localhost"}, Ports: port}},
		"1 to 65535":           {{Namespace: "shop", Hosts: []string{"db"}, Ports: []api.NodePort{{}}}},
		"a target has a task":  {{Namespace: "shop", Hosts: []string{"db"}, Ports: []api.NodePort{{Port: 1, Targets: []api.NodeTarget{{Port: 1}}}}}},
		"more than 1000 ports": many,
	} {
		if err := Check("host", api.NodeNames{Names: n}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if err := Check("../host", api.NodeNames{}); err == nil {
		t.Error("a path is a node")
	}
	if err := Check("host", api.NodeNames{Names: many[:most]}); err != nil {
		t.Error(err)
	}
}
