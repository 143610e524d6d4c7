package services

import (
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/network/names"
	"github.com/podtask/podtask/internal/forward"
	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef"
)

// publishedNames are the names of services, as tasks learn them.
type publishedNames struct {
	mu  sync.Mutex
	all map[names.Name]*forward.Forwarder
}

func (p *publishedNames) Publish(_ string, all map[names.Name]*forward.Forwarder) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = all
}

func (p *publishedNames) of(name string) *forward.Forwarder {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all[names.Name{Namespace: "shop", Name: name, Port: 80}]
}

// Connections to a name go to healthy copies, wherever a task listens for it; they are counted by the name. A name that stays keeps its
// forwarder, one that goes loses it.
func TestNamesForwardToHealthyCopies(t *testing.T) {
	t.Parallel()
	var p publishedNames
	l := &listeners{log: slog.New(slog.DiscardHandler), tasks: &record.Tasks{}, service: "web", names: &p}
	defer l.Close()
	at := target{container: "app", port: 80}
	l.targets = map[place]string{{"good", at}: echo(t, "good"), {"sick", at}: echo(t, "sick")}
	offer := func(all ...string) (n service.Names) {
		n.Namespace = "shop"
		for _, name := range all {
			n.Offered = append(n.Offered, service.Name{Name: name, Port: 80, Container: "app", ContainerPort: 80})
		}
		return n
	}
	s := service.State{
		Config:      service.Config{Names: offer("web", "www")},
		Deployments: []service.Deployment{{ID: "web/1", Primary: true}},
		Tasks:       []service.Task{{ID: "good", Phase: service.Live, HealthyNow: true}, {ID: "sick", Phase: service.Live}},
	}
	l.Publish(s)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	first, gone := p.of("web"), p.of("www")
	first.Attach(lis, forward.NewBudget(10))
	l.Follow(s)
	for range 3 {
		if c, who := connect(t, lis.Addr().String()); who != "good" {
			t.Errorf("a connection goes to %s", who)
		} else {
			c.Close()
		}
	}
	counted := make(map[string]uint64)
	for _, tr := range l.traffic("web") {
		counted[tr.Address] = tr.Forwarded["web/1"]
	}
	if len(counted) != 2 || counted["web:80"] != 3 || counted["www:80"] != 0 {
		t.Errorf("%v", counted)
	}
	s.Config.Names = offer("web", "shop")
	l.Follow(s)
	if p.of("web") != first || p.of("www") != nil || p.of("shop") == nil {
		t.Errorf("%+v", p.all)
	}
	late, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Attach(late, forward.NewBudget(10))
	if c, err := net.Dial("tcp", late.Addr().String()); err == nil {
		c.Close()
		t.Error("a name that is gone takes connections")
	}
}

// A name has one service in a namespace, and a task that resolves it by itself does not get there.
func TestNamesAreUnique(t *testing.T) {
	t.Parallel()
	task := taskdef.Task{Family: "shop", Network: taskdef.NetworkBridge, Containers: []taskdef.Container{{Name: "app", Ports: []taskdef.Port{{ContainerPort: 80, Protocol: "tcp"}}}, {Name: "db"}}}
	spec := service.Spec{TaskDefinition: "shop:1", Task: task}
	offer := func(namespace, name string) service.Config {
		return service.Config{Names: service.Names{Namespace: namespace, Offered: []service.Name{{Name: name, Port: 80, Container: "app", ContainerPort: 80}}}}
	}
	a := &Services{loops: map[string]*runner{}, Config: Config{Log: slog.New(slog.DiscardHandler), Tasks: &record.Tasks{}}}
	a.loops["web"] = newRunner(a, service.New("id", "web", spec, 1, offer("shop", "www"), time.Now()))
	for name, c := range map[string]struct {
		service string
		config  service.Config
		want    string
	}{
		"another name":        {"other", offer("shop", "other"), ""},
		"another namespace":   {"other", offer("mall", "www"), ""},
		"its own":             {"web", offer("shop", "www"), ""},
		"taken":               {"other", offer("shop", "www"), "service web has the name www:80 in namespace shop already"},
		"name of a container": {"other", offer("shop", "db"), "copies of service web would not reach the name db:80: the container db is called like that"},
	} {
		err := a.checkNames(c.service, taskdef.Task{}, c.config.Names)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	client := taskdef.Task{Containers: []taskdef.Container{{Name: "app", Net: taskdef.ContainerNetwork{Hostname: "www"}}}}
	if err := a.checkNames("other", client, service.Names{Namespace: "shop"}); err == nil || !strings.Contains(err.Error(), "copies of service other would not reach the name www:80 of service web") {
		t.Errorf("%v", err)
	}
}
