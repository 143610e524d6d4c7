package routefile_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/ingress/routefile"
	"github.com/podtask/podtask/pkg/taskdef"
)

func route(service, address string) routefile.Route {
	return routefile.Route{Service: service, Ingress: taskdef.Ingress{URL: address, Container: "web", Port: 80}}
}

func TestWriteAndRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "routes.json")
	if empty, err := routefile.Read(path); err != nil || len(empty.Routes) != 0 {
		t.Errorf("without a file: %+v, %v", empty, err)
	}
	r := route("web", "https://App.Example.org./x/")
	r.Groups = []routefile.Group{{Deployment: "web/1", Weight: 1000, Targets: []routefile.Target{{ID: "1", Address: "127.0.0.1:40000"}}}}
	if err := routefile.Write(path, routefile.Table{Routes: []routefile.Route{r}}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	got, err := routefile.Read(path)
	if err != nil || len(got.Routes) != 1 || got.Routes[0].Key() != "https://app.example.org/x" {
		t.Fatalf("%+v, %v", got, err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	earlier := strings.Replace(string(data), got.Boot, "11111111-2222-3333-4444-555555555555", 1)
	if err := os.WriteFile(path, []byte(earlier), 0o600); err != nil {
		t.Fatal(err)
	}
	if after, err := routefile.Read(path); err != nil || len(after.Routes) != 1 || len(after.Routes[0].Groups) != 0 {
		t.Errorf("after a boot the ports of copies are others': %+v, %v", after, err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestRefusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{}`:                         "format is 0",
		`{"format": 2}`:              "format is 2",
		`[`:                          "unexpected end",
		`{"format": 1, "routes": 3}`: "cannot unmarshal",
		`{"format": 1, "routes": [{"url": "ftp://x"}]}`: "https://",
		`{"format": 1, "routes": [{"service": "a", "url": "http://x.test", "containerName": "c", "containerPort": 1}, {"service": "b", "url": "http://X.test/", "containerName": "c", "containerPort": 1}]}`:                   "services a and b",
		`{"format": 1, "routes": [{"service": "a", "url": "http://x.test", "containerName": "c", "containerPort": 1, "groups": [{"deployment": "a/1", "weight": 1, "targets": [{"id": "t", "address": "example.org:80"}]}]}]}`: "IP:PORT",
		`{"format": 1, "routes": [{"service": "a", "url": "http://x.test", "containerName": "c", "containerPort": 1, "groups": [{"deployment": "a/1", "weight": -1, "targets": [{"id": "t", "address": "127.0.0.1:80"}]}]}]}`:  "weight",
	} {
		if _, err := routefile.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// What the proxy follows may be anything after an accident with the disk.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"format": 1, "routes": [{"service": "a", "url": "https://*.x.test/a", "containerName": "c", "containerPort": 1}]}`), "b.x.test", "/a/b")
	f.Fuzz(func(t *testing.T, data []byte, host, path string) {
		table, err := routefile.Parse(data)
		if err != nil {
			return
		}
		if r, found := table.Find(true, host, path); found {
			if other, is := table.HasHost(host); !is || other.Address().Host != r.Address().Host && !strings.HasPrefix(r.Address().Host, "*.") && !strings.HasPrefix(other.Address().Host, "*.") {
				t.Errorf("the host %q has the route %s and the certificate of %s", host, r.Key(), other.Key())
			}
		}
	})
}

func TestListeners(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "routes.json")
	want := routefile.Listener{Service: "db", Address: "0.0.0.0:5432", ProxyProtocol: true, Groups: []routefile.Group{{Deployment: "db/1", Weight: 1000, Targets: []routefile.Target{{ID: "1", Address: "127.0.0.1:4000"}}}}}
	if err := routefile.Write(path, routefile.Table{Listeners: []routefile.Listener{want}}); err != nil {
		t.Fatal(err)
	}
	got, err := routefile.Read(path)
	if err != nil || len(got.Listeners) != 1 || !reflect.DeepEqual(got.Listeners[0], want) {
		t.Errorf("%+v, %v", got.Listeners, err)
	}
	_, err = routefile.Parse([]byte(`{"format": 1, "listeners": [{"service": "a", "address": "x"}, {"service": "a", "address": ":1"}, {"service": "b", "address": ":1",
		"groups": [{"targets": [{"id": "1", "address": "y"}]}]}]}`))
	for _, part := range []string{`"x" of service a is no HOST:PORT`, ":1 belongs to the services a and b", `target "y"`} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v, want %s", err, part)
		}
	}
}
