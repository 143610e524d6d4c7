package service

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/pkg/taskdef"
)

// shop is a task of two containers that publish ports.
func shop(network taskdef.NetworkMode) taskdef.Task {
	return taskdef.Task{Family: "shop", Network: network, Containers: []taskdef.Container{
		{Name: "app", Ports: []taskdef.Port{{ContainerPort: 8080, Protocol: "tcp", Name: "http"}, {ContainerPort: 53, Protocol: "udp", Name: "dns"}}, Net: taskdef.ContainerNetwork{Hostname: "till"}},
		{Name: "admin", Ports: []taskdef.Port{{ContainerPort: 9000, ContainerPortEnd: 9009, Protocol: "tcp"}}, Net: taskdef.ContainerNetwork{ExtraHosts: []taskdef.Host{{Name: "db", Address: "192.0.2.1"}}}},
	}}
}

func TestNamesAreResolved(t *testing.T) {
	t.Parallel()
	given := Names{Namespace: "n", Offered: []Name{
		{Name: "a", Port: 8080}, {Name: "b", PortName: "http"}, {Name: "c", Port: 80, PortName: "http"}, {Name: "d", Port: 9005}, {Name: "e", Port: 1, Container: "x", ContainerPort: 2},
		{Name: "f"}, {Name: "g", PortName: "dns"},
	}}
	want := Names{Namespace: "n", Offered: []Name{
		{Name: "a", Port: 8080, Container: "app", ContainerPort: 8080}, {Name: "b", Port: 8080, PortName: "http"}, {Name: "c", Port: 80, PortName: "http"},
		{Name: "d", Port: 9005, Container: "admin", ContainerPort: 9005}, {Name: "e", Port: 1, Container: "x", ContainerPort: 2},
		{Name: "f"}, {Name: "g", PortName: "dns"},
	}}
	if diff := cmp.Diff(want, given.Resolve(shop(taskdef.NetworkAWSVPC))); diff != "" {
		t.Error(diff)
	}
	for _, c := range []struct{ given, extension, want string }{{"", "", DefaultNamespace}, {"", "x", "x"}, {"n", "x", "n"}} {
		got := Names{Namespace: c.given, Offered: []Name{{Name: "a"}}}.Resolve(taskdef.Task{Extensions: taskdef.TaskExtensions{Namespace: c.extension}})
		if got.Namespace != c.want {
			t.Errorf("%+v: %s", c, got.Namespace)
		}
	}
	if got := (Names{}).Resolve(taskdef.Task{}); got.Namespace != "" {
		t.Errorf("without names: %s", got.Namespace)
	}
	one := taskdef.Task{Containers: shop(taskdef.NetworkAWSVPC).Containers[:1]}
	if got := (Names{Offered: []Name{{Name: "a", Port: 80}}}).Resolve(one).Offered[0]; got.Container != "app" || got.ContainerPort != 8080 || got.Port != 80 {
		t.Errorf("the only port: %+v", got)
	}
}

// All that is wrong with names is said at once, each with what helps.
func TestNamesAreChecked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		network taskdef.NetworkMode
		names   Names
		want    []string
	}{
		"good":               {taskdef.NetworkAWSVPC, Names{"n", []Name{{Name: "orders.shop", Port: 80, PortName: "http"}, {Name: "a_b", Port: 80, PortName: "http"}}}, nil},
		"client only":        {taskdef.NetworkBridge, Names{Namespace: "n"}, nil},
		"no namespace":       {taskdef.NetworkAWSVPC, Names{"", []Name{{Name: "a", Port: 80, PortName: "http"}}}, []string{"needs a namespace"}},
		"bad namespace":      {taskdef.NetworkAWSVPC, Names{Namespace: "a/b"}, []string{`namespace "a/b"`}},
		"host network":       {taskdef.NetworkHost, Names{Namespace: "n"}, []string{"networkMode host"}},
		"no network":         {taskdef.NetworkNone, Names{Namespace: "n"}, []string{"networkMode none"}},
		"localhost":          {taskdef.NetworkAWSVPC, Names{"n", []Name{{Name: "localhost", Port: 80, PortName: "http"}}}, []string{"that of the task itself"}},
		"of Podman":          {taskdef.NetworkAWSVPC, Names{"n", []Name{{Name: "host.containers.internal", Port: 80, PortName: "http"}}}, []string{"belongs to Podman"}},
		"address":            {taskdef.NetworkAWSVPC, Names{"n", []Name{{Name: "10.0.0.1", Port: 80, PortName: "http"}}}, []string{"is an address"}},
		"no host name":       {taskdef.NetworkAWSVPC, Names{"n", []Name{{Name: "Orders!", Port: 80, PortName: "http"}}}, []string{"lower-case"}},
		"line of hosts":      {taskdef.NetworkAWSVPC, Names{"n", []Name{{Name: "a\n127.0.0.1 b", Port: 80, PortName: "http"}}}, []string{"is not a host name"}},
		"twice":              {taskdef.NetworkAWSVPC, Names{"n", []Name{{Name: "a", Port: 80, PortName: "http"}, {Name: "a", Port: 80, PortName: "http"}}}, []string{"a:80 is there twice"}},
		"hostname":           {taskdef.NetworkAWSVPC, Names{"n", []Name{{Name: "till", Port: 80, PortName: "http"}}}, nil},
		"extraHosts":         {taskdef.NetworkAWSVPC, Names{"n", []Name{{Name: "db", Port: 80, PortName: "http"}}}, []string{"extraHosts of the container admin"}},
		"container":          {taskdef.NetworkBridge, Names{"n", []Name{{Name: "app", Port: 80, PortName: "http"}}}, []string{"container app is called like that"}},
		"no such mapping":    {taskdef.NetworkAWSVPC, Names{"n", []Name{{Name: "a", Port: 80, PortName: "web"}}}, []string{`"web"`, "its names are http"}},
		"several ports":      {taskdef.NetworkAWSVPC, Names{"n", []Name{{Name: "a", Port: 80}}}, []string{"app:8080, admin:9000"}},
		"no such container":  {taskdef.NetworkAWSVPC, Names{"n", []Name{{Name: "a", Port: 80, Container: "x", ContainerPort: 80}}}, []string{`container "x"`}},
		"port not published": {taskdef.NetworkAWSVPC, Names{"n", []Name{{Name: "a", Port: 80, Container: "app", ContainerPort: 81}}}, []string{"portMappings"}},
		"all at once":        {taskdef.NetworkHost, Names{"n", []Name{{Name: "localhost", Port: 80, PortName: "web"}}}, []string{"networkMode host", "that of the task itself", `"web"`}},
	} {
		err := Validate("shop", Spec{Task: shop(c.network)}, 1, Config{Names: c.names})
		if (err != nil) != (c.want != nil) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v, want %q", name, err, w)
			}
		}
	}
}

// The events of a service say which names it has and has no more.
func TestEventsSayWhichNamesThereAre(t *testing.T) {
	t.Parallel()
	at := time.Unix(1e9, 0)
	s := New("id", "shop", Spec{Task: shop(taskdef.NetworkAWSVPC)}, 1, Config{Names: Names{"n", []Name{{Name: "a", Port: 80, PortName: "http"}, {Name: "b", Port: 80, PortName: "http"}}}}, at)
	c := Config{Names: Names{"n", []Name{{Name: "b", Port: 80, PortName: "http"}, {Name: "c", Port: 80, PortName: "http"}}}}
	s.applyUpdate(at, Updated{Config: &c})
	var all strings.Builder
	for _, e := range s.Events {
		all.WriteString(e.Message + "\n")
	}
	for _, want := range []string{"is reached as a:80 in namespace n.", "is not reached as a:80 in namespace n any more.", "is reached as c:80 in namespace n."} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("no event says %q:\n%s", want, all.String())
		}
	}
	if strings.Contains(all.String(), "not reached as b") {
		t.Errorf("a name that stayed is gone:\n%s", all.String())
	}
}
