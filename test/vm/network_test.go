//go:build e2e && bed_vm

package vm

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// defineIn writes a definition with a network mode and returns its path.
func defineIn(t *testing.T, mode, family string, containers ...container) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), family+".json")
	data, err := json.Marshal(map[string]any{"family": family, "networkMode": mode, "containerDefinitions": containers})
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// get asks from the machine itself; empty for no answer.
func get(url string) string {
	client := &http.Client{Timeout: 20 * time.Second}
	res, err := client.Get(url)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		return ""
	}
	return string(text)
}

// Each container of a task reads all paths of its metadata endpoint, and credentials;
// another task is refused, and so is the machine, unless it has the same network and
// knows the URI.
func TestMetadataEndpointInEachNetworkMode(t *testing.T) {
	helper := filepath.Join(t.TempDir(), "credentials")
	script := "#!/bin/sh\necho '{\"Version\":1,\"AccessKeyId\":\"AKIA\",\"SecretAccessKey\":\"key\",\"SessionToken\":\"tok\",\"Expiration\":\"2100-01-01T00:00:00Z\"}'\n"
	if err := os.WriteFile(helper, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PODTASK_CREDENTIALS_HELPER", helper)
	for _, mode := range []string{"awsvpc", "bridge", "none", "host"} {
		t.Run(mode, func(t *testing.T) {
			leavesNothing(t)
			credentials := "http://169.254.170.2${AWS_CONTAINER_CREDENTIALS_RELATIVE_URI}"
			if mode == "host" {
				credentials = "${AWS_CONTAINER_CREDENTIALS_FULL_URI}"
			}
			const v4 = "await ${ECS_CONTAINER_METADATA_URI_V4}"
			steps := v4 + " -- " + v4 + "/task -- " + v4 + "/taskWithTags -- " + v4 + "/stats -- " + v4 + "/task/stats -- " +
				"await ${ECS_CONTAINER_METADATA_URI}/task -- await " + credentials + " -- print -- env ECS_CONTAINER_METADATA_URI_V4 -- sleep forever"
			family := "network-" + mode
			id := detach(t, defineIn(t, mode, family, box("one", steps, 0), box("two", steps, 0)))
			uri := ""
			for _, name := range []string{"one", "two"} {
				said := ""
				eventually(t, name+" has read everything", func() bool {
					said = podtask(t, "logs", id, name)
					_, uri, _ = strings.Cut(said, "ECS_CONTAINER_METADATA_URI_V4=")
					return uri != ""
				})
				for _, want := range []string{`"Name":"` + name + `"`, `"Family":"` + family + `"`, `"NetworkMode":"` + mode + `"`, `"cpu_stats"`, `"AccessKeyId":"AKIA"`} {
					if !strings.Contains(said, want) {
						t.Errorf("%s read %s, without %s", name, said, want)
					}
				}
			}
			uri = strings.TrimSpace(uri)
			if fromHere := get(uri) != ""; fromHere != (mode == "host") {
				t.Errorf("the machine is answered at %s: %v", uri, fromHere)
			}
			want := "404" // its own endpoint knows no such path
			if mode == "host" {
				want = "no"
			}
			if got := podtask(t, "run", "--quiet", "--rm", defineIn(t, "awsvpc", "spy", box("spy", "try "+uri+"/task", 0))); !strings.HasSuffix(got, want) {
				t.Errorf("another task gets %s, want %s", got, want)
			}
		})
	}
}

func TestTwoContainersOfABridgedTaskListenOnPort80(t *testing.T) {
	leavesNothing(t)
	web := func(name string) container {
		c := box(name, "serve 80", 0)
		c.User, c.Ports = "0", []map[string]int{{"containerPort": 80}}
		return c
	}
	id := detach(t, defineIn(t, "bridge", "twice", web("one"), web("two"), box("client", "await http://one/ -- await http://two/ -- print done -- sleep forever", 0)))
	names := map[string]bool{}
	for _, c := range inspect(t, id).Containers {
		for _, p := range c.Ports {
			eventually(t, "an answer from "+c.Name, func() bool {
				name := get(fmt.Sprintf("http://127.0.0.1:%d/", p.HostPort))
				names[name] = name != ""
				return name != ""
			})
		}
	}
	delete(names, "")
	if len(names) != 2 {
		t.Errorf("the ports lead to %v", names)
	}
	eventually(t, "the client has reached both by their names", func() bool { return strings.Contains(podtask(t, "logs", id, "client"), "done") })
}
