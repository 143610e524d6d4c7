package endpoint_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/engine/facts/metadata"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/testing/enginehost"
	"github.com/podtask/podtask/internal/testing/enginetest"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// namespaces are network namespaces of processes. Each listens on the loopback of this host.
type namespaces struct {
	closed error // why none can be entered
	refuse error // why nothing can be changed in one

	// news receives each address at which an endpoint begins to listen; nil for none.
	news chan string

	mu        sync.Mutex // guards the maps
	listening map[int]string
	added     map[int][]netip.Prefix
}

func (n *namespaces) CanEnter() error { return n.closed }

func (n *namespaces) Listen(ctx context.Context, pid int, addr netip.AddrPort) (net.Listener, []netip.Addr, error) {
	if n.refuse != nil {
		return nil, nil, n.refuse
	}
	if addr.String() != metadata.Address {
		return nil, nil, errors.New("another address: " + addr.String())
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listening == nil {
		n.listening = make(map[int]string)
	}
	n.listening[pid] = l.Addr().String()
	if n.news != nil {
		n.news <- l.Addr().String()
	}
	return l, []netip.Addr{netip.MustParseAddr("10.0.0.7")}, nil
}

func (n *namespaces) AddAddresses(_ context.Context, pid int, addresses []netip.Prefix) error {
	if n.refuse != nil {
		return n.refuse
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.added == nil {
		n.added = make(map[int][]netip.Prefix)
	}
	n.added[pid] = append(n.added[pid], addresses...)
	return nil
}

// addresses returns where the endpoints listen, sorted.
func (n *namespaces) addresses() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(maps.Values(n.listening))
}

// open opens an engine whose tasks are in the namespaces n.
func open(host *enginehost.Host, n *namespaces) *enginehost.Engine {
	e := host.Open()
	e.Metadata.Namespaces = n
	return e
}

// definition is a task of containers that print a variable of their environment and then run
// until they are stopped.
func definition(host *enginehost.Host, network, variable string, names ...string) taskdef.Task {
	var containers []any
	for _, name := range names {
		containers = append(containers, enginehost.Fields{"name": name, "image": enginehost.Image, "command": []string{"env", variable, "--", "sleep", "forever"}})
	}
	return host.Parse(enginehost.Fields{"family": "web", "networkMode": network, "containerDefinitions": containers})
}

// variables returns the value that each container has printed, by name, once all have.
func variables(t *testing.T, e *enginehost.Engine, s lifecycle.State) map[string]string {
	t.Helper()
	found := make(map[string]string)
	for _, line := range enginehost.Output(t, e, s) {
		name, text, _ := strings.Cut(line, ": ")
		_, found[name], _ = strings.Cut(text, "=")
	}
	return found
}

// request returns the status and the body of an answer; 0 where nothing listens.
func request(t *testing.T, method, address, path, body string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+address+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(data)
}

// pathOf returns the path of a URL.
func pathOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil || u.Path == "" {
		t.Fatalf("no path in %q: %v", address, err)
	}
	return u.Path
}

// A container finds in its environment where the endpoint is, and gets an answer about itself.
// Containers with networks of their own have an endpoint each.
func TestContainersReachTheirEndpoint(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		network   string
		names     []string
		endpoints int
	}{
		{"bridge", []string{"app"}, 1},
		{"bridge", []string{"app", "db"}, 2},
		{"awsvpc", []string{"app", "db"}, 1},
		{"host", []string{"app", "db"}, 1},
		{"none", []string{"app"}, 1},
	} {
		t.Run(c.network+"/"+strings.Join(c.names, "+"), func(t *testing.T) {
			t.Parallel()
			host, n := enginehost.New(t), &namespaces{}
			e := open(host, n)
			p := host.Own(e, host.Create(e, definition(host, c.network, "ECS_CONTAINER_METADATA_URI_V4", c.names...), "", enginehost.Unlimited).ID)
			p.UntilRunning()
			s := p.Owner.State()
			at := n.addresses()
			if c.network == "host" {
				at = []string{s.Sandbox.Metadata}
			} else if s.Sandbox.Metadata != metadata.Address {
				t.Errorf("the containers are told of %q", s.Sandbox.Metadata)
			}
			if len(at) != c.endpoints {
				t.Fatalf("endpoints: %q, want %d", at, c.endpoints)
			}
			told := variables(t, e, s)
			for _, address := range at {
				for _, name := range c.names {
					if status, text := request(t, "GET", address, pathOf(t, told[name]), ""); status != http.StatusOK || !strings.Contains(text, `"`+name+`"`) {
						t.Errorf("%s at %s: %d %s", name, told[name], status, text)
					}
				}
				if status, _ := request(t, "GET", address, "/v4/guess", ""); status != http.StatusNotFound {
					t.Errorf("a path that no container was told: %d", status)
				}
			}
			p.Stop()
			for _, address := range at {
				if status, _ := request(t, "GET", address, pathOf(t, told[c.names[0]]), ""); status != 0 {
					t.Errorf("it still answers after the end of the task: %d", status)
				}
			}
		})
	}
}

// Running containers were told of the endpoint by the first owner. The second one serves it.
func TestNextOwnerServesTheEndpointAgain(t *testing.T) {
	t.Parallel()
	wanted := map[string]int{"bridge": 2, "awsvpc": 1, "host": 0} // namespaces with an endpoint
	for network := range wanted {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			host, first, second := enginehost.New(t), &namespaces{}, &namespaces{news: make(chan string, 8)}
			e := open(host, first)
			p := host.Own(e, host.Create(e, definition(host, network, "ECS_CONTAINER_METADATA_URI_V4", "app", "db"), "", enginehost.Unlimited).ID)
			p.UntilRunning()
			path := pathOf(t, variables(t, e, p.Owner.State())["app"])
			starts := host.Starts()
			p.Kill()
			for _, address := range append(first.addresses(), p.Owner.State().Sandbox.Metadata) {
				if status, _ := request(t, "GET", address, path, ""); status != 0 && address != metadata.Address {
					t.Errorf("the dead owner answers at %s: %d", address, status)
				}
			}
			p = host.Own(open(host, second), p.ID)
			var at string
			if network == "host" {
				at = p.Owner.State().Sandbox.Metadata
			} else {
				for range wanted[network] {
					at = <-second.news
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			status := 0
			for status == 0 && ctx.Err() == nil { // refused until the new owner listens
				status, _ = request(t, "GET", at, path, "")
			}
			if status != http.StatusOK {
				t.Errorf("the next owner answers %d", status)
			}
			if n := host.Starts(); n != starts {
				t.Errorf("%d starts, want %d", n, starts)
			}
			p.Stop()
		})
	}
}

// A task runs without an endpoint where none can be made, and its history says why.
func TestTaskRunsWithoutAnEndpoint(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]*namespaces{
		"no namespace can be entered": {closed: errors.New("user namespaces are off")},
		"nothing can listen there":    {refuse: errors.New("the helper was killed")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host := enginehost.New(t)
			e := open(host, n)
			p := host.Own(e, host.Create(e, host.Box(0, 0, "sleep", "forever"), "", enginehost.Unlimited).ID)
			p.UntilRunning()
			told, err := json.Marshal(p.Owner.State())
			if err != nil {
				t.Fatal(err)
			}
			if why := errors.Join(n.closed, n.refuse); !strings.Contains(string(told), "there is no metadata endpoint: "+why.Error()) {
				t.Errorf("the task does not say why: %s", told)
			}
			p.Stop()
		})
	}
}

// No engine without a helper for namespaces promises an endpoint.
func TestNoEndpointIsPromisedWithoutAHelper(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	e := host.Open()
	if s := host.Create(e, host.Box(0, 0, "exit", "0"), "", enginehost.Unlimited); s.Options.MetadataKey != "" {
		t.Errorf("%+v", s.Options)
	}
	host.Setenv("PODTASK_METADATA", "off")
	off := open(host, &namespaces{})
	if s := host.Create(off, host.Box(0, 0, "exit", "0"), "", enginehost.Unlimited); s.Options.MetadataKey != "" {
		t.Errorf("with metadata off: %+v", s.Options)
	}
}

// Podman keeps the address of a container whose start was interrupted. The container gets another
// one, and the endpoint adds the first in its namespace, because the hosts files name it.
func TestAddressesThatPodmanKeepsAreAdded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		refuse error
	}{{"added", nil}, {"refused", errors.New("not permitted")}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tried := false
			for calls := 0; calls < 20 && !tried; calls++ { // whether an address is kept depends on how many there were
				host, n := enginehost.New(t), &namespaces{refuse: c.refuse}
				for range calls {
					if _, err := host.Podman.Host(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				host.Setenv("PODTASK_METADATA", "off")
				host.Podman.Fail(enginetest.Script("start container", enginetest.Fault{Moment: enginetest.During, Class: libpod.Temporary}))
				e := open(host, n)
				p := host.Own(e, host.Create(e, host.Task(nil, enginehost.Fields{"name": "app", "command": "sleep forever"}, enginehost.Fields{"name": "db", "command": "sleep forever"}), "", enginehost.Unlimited).ID)
				p.UntilRunning()
				told, err := json.Marshal(p.Owner.State())
				if err != nil {
					t.Fatal(err)
				}
				kept := false
				for _, call := range host.Podman.Calls() {
					kept = kept || strings.Contains(call.Err, "already allocated")
				}
				n.mu.Lock()
				added := len(n.added)
				n.mu.Unlock()
				tried = tried || kept
				switch noted := strings.Contains(string(told), "NetworkAddressError"); {
				case !kept:
				case c.refuse == nil && (added != 1 || noted):
					t.Errorf("addresses were added in %d namespaces, an error is noted: %t", added, noted)
				case c.refuse != nil && !noted:
					t.Errorf("the task does not say that an address is missing: %s", told)
				}
				p.Stop()
			}
			if !tried {
				t.Error("Podman has kept no address")
			}
		})
	}
}

// The metadata file of a container is complete before the container runs, and goes with its task.
func TestMetadataFileIsComplete(t *testing.T) {
	t.Parallel()
	host, n := enginehost.New(t), &namespaces{}
	host.Setenv("PODTASK_METADATA_FILE", "on")
	e := open(host, n)
	p := host.Own(e, host.Create(e, definition(host, "awsvpc", metadata.FileEnv, "app"), "", enginehost.Unlimited).ID)
	p.UntilRunning()
	s := p.Owner.State()
	if told, want := variables(t, e, s)["app"], "/"+metadata.FileName; !strings.HasSuffix(told, want) {
		t.Errorf("the container is told of %q, want a path to %s", told, want)
	}
	name := filepath.Join(e.Metadata.FileDir(s.ID), "app", metadata.FileName)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var file metadata.File
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if file.ContainerID != s.Containers[0].ID || file.MetadataFileStatus != "READY" || !strings.Contains(string(text), "10.0.0.7") {
		t.Errorf("%s", text)
	}
	p.Stop()
	enginehost.Finish(t, e, s.ID, lifecycle.RemoveRequested{By: "test"})
	if _, err := os.Stat(e.Metadata.FileDir(s.ID)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is left: %v", err)
	}
}

// The program that fetches credentials learns for which task and role it does.
func TestCredentialsAreThoseOfTheTask(t *testing.T) {
	t.Parallel()
	host, n := enginehost.New(t), &namespaces{}
	script := host.WriteFile("credentials", `printf '{"Version":1,"AccessKeyId":"%s","SecretAccessKey":"%s"}' "$PODTASK_TASK_ID" "$PODTASK_TASK_ROLE_ARN"`)
	e := open(host, n)
	e.Metadata.Settings.CredentialsHelper = []string{"/bin/sh", script}
	task := definition(host, "awsvpc", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "app")
	task.Identity.TaskRoleARN = "arn:aws:iam::123456789012:role/reader"
	p := host.Own(e, host.Create(e, task, "", enginehost.Unlimited).ID)
	p.UntilRunning()
	path := variables(t, e, p.Owner.State())["app"]
	status, text := request(t, "GET", n.addresses()[0], path, "")
	var got metadata.Credentials
	if err := json.Unmarshal([]byte(text), &got); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s: %v", status, text, err)
	}
	if got.AccessKeyID != p.ID || got.SecretAccessKey != task.Identity.TaskRoleARN || got.RoleARN != task.Identity.TaskRoleARN {
		t.Error("the credentials are those of another task or role")
	}
	if status, text := request(t, "GET", n.addresses()[0], "/v2/credentials/guess", ""); status == http.StatusOK {
		t.Errorf("a guess gets credentials: %s", text)
	}
	p.Stop()
}

// A container protects its task, and the answer comes after the record.
func TestProtectionIsInTheRecordBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	host, n := enginehost.New(t), &namespaces{}
	e := open(host, n)
	p := host.Own(e, host.Create(e, definition(host, "awsvpc", "ECS_AGENT_URI", "app"), "", enginehost.Unlimited).ID)
	p.UntilRunning()
	path := pathOf(t, variables(t, e, p.Owner.State())["app"]) + "/task-protection/v1/state"
	status, text := request(t, "PUT", n.addresses()[0], path, `{"ProtectionEnabled":true,"ExpiresInMinutes":60}`)
	if status != http.StatusOK || !strings.Contains(text, `"ProtectionEnabled":true`) {
		t.Errorf("%d %s", status, text)
	}
	s, err := host.Open().Tasks.Find(p.ID)
	if err != nil || !s.ProtectedUntil.After(time.Now()) {
		t.Errorf("the record says %v: %v", s.ProtectedUntil, err)
	}
	p.Stop()
}
