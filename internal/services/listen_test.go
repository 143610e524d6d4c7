package services

import (
	"bufio"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/record"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef"
)

func TestPublished(t *testing.T) {
	t.Parallel()
	two := []taskdef.Container{{Name: "app"}, {Name: "side"}}
	bound := func(ip string, host uint16) []taskdef.Port {
		return []taskdef.Port{{ContainerPort: 80, HostPort: host, Protocol: "udp"}, {ContainerPort: 80, HostPort: host + 1, Protocol: "tcp", HostIP: ip}}
	}
	for name, tt := range map[string]struct {
		network         taskdef.NetworkMode
		pod, app        []taskdef.Port
		container, want string
	}{
		"by the pod":                {taskdef.NetworkAWSVPC, bound("", 40000), nil, "app", "127.0.0.1:40001"},
		"by the container":          {taskdef.NetworkBridge, nil, bound("0.0.0.0", 40000), "app", "127.0.0.1:40001"},
		"by another container":      {taskdef.NetworkBridge, nil, bound("", 40000), "side", ""},
		"at an address":             {taskdef.NetworkAWSVPC, bound("192.0.2.1", 40000), nil, "app", "192.0.2.1:40001"},
		"at all IPv6 addresses":     {taskdef.NetworkAWSVPC, bound("::", 40000), nil, "app", "[::1]:40001"},
		"on the host itself":        {taskdef.NetworkHost, nil, nil, "app", "127.0.0.1:80"},
		"not yet":                   {taskdef.NetworkAWSVPC, nil, nil, "app", ""},
		"by no container like that": {taskdef.NetworkHost, nil, nil, "db", ""},
	} {
		s := lifecycle.State{Task: taskdef.Task{Network: tt.network, Containers: two}, Containers: []lifecycle.Container{{Ports: tt.app}, {}}}
		s.Sandbox.Ports = tt.pod
		if got := published(s, tt.container, 80); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// A listener whose port is in use is reported with its holder, and opened when it is free.
func TestListenersFollowTheService(t *testing.T) {
	t.Parallel()
	backend, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	go func() {
		for {
			c, err := backend.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("hello\n"))
			c.Close()
		}
	}()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	address := taken.Addr().String()
	l := &listeners{log: slog.New(slog.DiscardHandler), tasks: &record.Tasks{}}
	defer l.Close()
	l.targets = map[place]string{{"one", "app", 80}: backend.Addr().String()}
	s := service.State{
		Config: service.Config{Listeners: []service.Listener{{Address: address, Container: "app", Port: 80}}},
		Tasks:  []service.Task{{ID: "one", Phase: service.Live, HealthyNow: true}},
	}
	not := l.Follow(s)
	if len(not) != 1 || not[0].Address != address || !strings.Contains(not[0].Problem, "address already in use: process") {
		t.Errorf("with a port in use: %+v", not)
	}
	taken.Close()
	if not := l.Follow(s); len(not) > 0 {
		t.Fatalf("with a free port: %+v", not)
	}
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if line, err := bufio.NewReader(c).ReadString('\n'); line != "hello\n" {
		t.Errorf("%q, %v", line, err)
	}
	s.Config.Listeners = nil
	if not := l.Follow(s); len(not) > 0 {
		t.Errorf("without listeners: %+v", not)
	}
	if c, err := net.Dial("tcp", address); err == nil {
		c.Close()
		t.Error("a listener that was taken away is open")
	}
	s.Tasks = nil
	if l.Follow(s); len(l.targets) > 0 {
		t.Errorf("the addresses of copies that are gone stay: %v", l.targets)
	}
}
