//go:build e2e

//e2e:bed plain

package e2e

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/podtask/podtask/internal/testing/logstest"
)

// texts collects what servers got.
type texts struct {
	mu  sync.Mutex
	all []string
}

func (x *texts) add(text string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.all = append(x.all, text)
}

func (x *texts) has(parts ...string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, text := range x.all {
		found := true
		for _, part := range parts {
			found = found && strings.Contains(text, part)
		}
		if found {
			return true
		}
	}
	return false
}

// datagrams is the address of a server that takes datagrams.
func (x *texts) datagrams(t *testing.T) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		for b := make([]byte, 1<<16); ; {
			n, _, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			x.add(string(b[:n]))
		}
	}()
	return "udp://" + conn.LocalAddr().String()
}

// Each container of a task writes to the server of its own log driver.
func TestEachLogDriverReachesItsServer(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	var syslog, gelf, splunk texts
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		splunk.add(r.Header.Get("Authorization") + string(body))
	}))
	defer collector.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	fluentd := &logstest.Forward{}
	go fluentd.Serve(l)
	to := func(driver string, options, more obj) obj {
		c := obj{"logDriver": driver, "options": options}
		for k, v := range more {
			c[k] = v
		}
		return obj{"logConfiguration": c, "dockerLabels": obj{"team": "blue"}}
	}
	b.env = append(b.env, "HEC_TOKEN=hunter2")
	path := b.define(allOf(
		ctr{Name: "syslog", Command: words("print hello"), More: to("syslog", obj{"syslog-address": syslog.datagrams(t), "syslog-format": "rfc5424", "tag": "{{.Name}}"}, nil)},
		ctr{Name: "gelf", Command: words("eprint hello"), More: to("gelf", obj{"gelf-address": gelf.datagrams(t), "gelf-compression-type": "none", "labels": "team"}, nil)},
		ctr{Name: "splunk", Command: words("print hello"), More: to("splunk", obj{"splunk-url": collector.URL, "env": "TOKEN"}, obj{
			"secretOptions": []obj{{"name": "splunk-token", "valueFrom": "env:HEC_TOKEN"}},
		})},
		ctr{Name: "fluentd", Command: words("print hello"), More: to("fluentd", obj{"fluentd-address": l.Addr().String(), "tag": "shop", "labels-regex": "^te"}, nil)},
	)...)
	if got := b.want(0, "validate", path).out; !strings.Contains(got, "fluentd: fluentd at tcp://"+l.Addr().String()+", tag shop") {
		t.Errorf("validate says %s", got)
	}
	if said := b.want(0, "run", "--name", b.family, path).err; !strings.Contains(said, "the output of fluentd goes to fluentd at tcp://"+l.Addr().String()+", tag shop") {
		t.Errorf("run says %s", said)
	}
	id := b.inspect(b.family).ID
	if !syslog.has("<30>1 ", "-syslog ", " hello\n") {
		t.Errorf("syslog has %q", syslog.all)
	}
	if !gelf.has(`"short_message":"hello"`, `"level":3`, `"_team":"blue"`, `"_container_name":"podtask-`) {
		t.Errorf("gelf has %q", gelf.all)
	}
	if !splunk.has("Splunk hunter2", `"line":"hello"`, `"source":"stdout"`) {
		t.Errorf("splunk has %q", splunk.all)
	}
	if all := fluentd.Records(); len(all) != 1 || all[0].Tag != "shop" || all[0].Members["log"] != "hello" || all[0].Members["team"] != "blue" || len(all[0].Members["container_id"]) != 64 {
		t.Errorf("fluentd has %+v", all)
	}
	if got := b.want(0, "logs", "--routes", id).out; strings.Count(got, " 0B ") != 4 || strings.Contains(got, "hunter2") {
		t.Errorf("the routes are %s", got)
	}
	b.wantLines(id, "splunk", "hello")
	b.want(0, "rm", id)
}

// The lines of an app reach the log router of the task, with the one that it writes last: over a
// port, or over a socket that belongs to another user.
func TestOutputReachesTheLogRouter(t *testing.T) {
	t.Parallel()
	for network, tells := range map[string]string{"awsvpc": "env FLUENT_PORT -- ", "bridge": "env FLUENT_PORT -- ", "host": "", "none": ""} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			b.env = append(b.env, "OUTPUT_KEY=12345678")
			extra := filepath.Join(b.dir, "extra.conf")
			if err := os.WriteFile(extra, []byte("# of the user\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			const arn = "arn:aws:s3:::shop/extra.conf"
			id := b.detach("--map-log-config", arn+"="+extra, b.write(def{Network: network, Containers: []ctr{
				{Name: "router", Command: words("cat /fluent-bit/etc/external.conf -- route /fluent-bit/etc/fluent-bit.conf"), More: obj{"user": "1000", "firelensConfiguration": obj{
					"type": "fluentbit", "options": obj{"config-file-type": "s3", "config-file-value": arn},
				}}},
				{Name: "app", Command: words("print first -- " + tells + "wait /tmp/go -- print last"), More: obj{"logConfiguration": obj{
					"logDriver": "awsfirelens", "options": obj{"Name": "null"}, "secretOptions": []obj{{"name": "key", "valueFrom": "env:OUTPUT_KEY"}},
				}}},
			}}))
			eventually(t, "the first lines", func() bool {
				return strings.Contains(b.lines(id, "router"), "app stdout first") && (tells == "" || strings.Contains(b.lines(id, "router"), "app stdout FLUENT_PORT=24224"))
			})
			config, err := os.ReadFile(filepath.Join(filepath.Dir(logFile(b, id)), "router", "fluent.conf"))
			if err != nil || !strings.Contains(string(config), "key ${key_1}") || strings.Contains(string(config), "12345678") {
				t.Errorf("the configuration is %s, %v", config, err)
			}
			b.tell(id, "app", "/tmp/go")
			b.want(0, "wait", id)
			got := b.lines(id, "router")
			for _, want := range []string{"# of the user", "option key 8", "app stdout first", "app stdout last"} {
				if strings.Count(got, want) != 1 {
					t.Errorf("the router has not got %q once: %s", want, got)
				}
			}
			b.want(0, "rm", id)
		})
	}
}
