//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// metadataPaths are all paths of the endpoint, as a container is told them.
var metadataPaths = func() (paths []string) {
	for _, uri := range []string{"${ECS_CONTAINER_METADATA_URI_V4}", "${ECS_CONTAINER_METADATA_URI}"} {
		for _, path := range []string{"", "/task", "/taskWithTags", "/stats", "/task/stats"} {
			paths = append(paths, uri+path)
		}
	}
	return paths
}()

// reach is who gets an answer from a task: yes, no, or a status that refuses.
type reach struct {
	own, sibling, otherTask, host, outside string
}

func (r reach) String() string {
	return fmt.Sprintf("own container %s, other container %s, other task %s, host %s, outside %s", r.own, r.sibling, r.otherTask, r.host, r.outside)
}

// TestReachability asks a service and the metadata endpoint of a task from all
// sides, in each network mode. Outside is the host's own address, as other machines
// see it. With the host's network the endpoint listens on the host's loopback: other
// tasks do not reach it, and what keeps processes of the host out is that nobody can
// guess its paths.
func TestReachability(t *testing.T) {
	t.Parallel()
	everybody := reach{"yes", "yes", "yes", "yes", "yes"}
	taskOnly := reach{"yes", "yes", "404", "no", "no"} // the other task's own endpoint answers
	for _, tt := range []struct {
		mode, by          string
		service, endpoint reach
	}{
		{"awsvpc", "", everybody, taskOnly},
		{"bridge", "", everybody, taskOnly},
		{"none", "", reach{"yes", "yes", "no", "no", "no"}, taskOnly},
		{"host", "", everybody, reach{"yes", "yes", "no", "404", "no"}},
		{"bridge", "pasta", everybody, taskOnly},
		{"awsvpc", "slirp4netns", everybody, taskOnly},
	} {
		if tt.by != "" && !connects(tt.by) {
			continue // TestNetworkThatIsNotThereIsRefused
		}
		t.Run(strings.TrimSuffix(tt.mode+" by "+tt.by, " by "), func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			service, endpoint := b.reachability(tt.mode, tt.by)
			t.Logf("%s %s\nservice:  %v\nmetadata: %v", tt.mode, tt.by, service, endpoint)
			if service != tt.service {
				t.Errorf("service:\n%v, want\n%v", service, tt.service)
			}
			if endpoint != tt.endpoint {
				t.Errorf("metadata endpoint:\n%v, want\n%v", endpoint, tt.endpoint)
			}
		})
	}
}

// connects tells whether this Podman can connect a pod by the program.
func connects(program string) bool {
	if program == "pasta" && bed.name == "plain" {
		return false // Podman 4.3.1
	}
	_, err := exec.LookPath(program)
	return err == nil
}

// reachability runs a task and asks it from all sides.
func (b *box) reachability(mode, by string) (service, endpoint reach) {
	b.t.Helper()
	b.credentialsHelper("marked-" + b.family)
	at := freePort(b.t)
	local := fmt.Sprintf("http://127.0.0.1:%d/", at)
	other := local
	if mode == "bridge" && by == "" {
		other = fmt.Sprintf("http://web:%d/", at) // they share no localhost
	}
	credentials := "http://169.254.170.2${AWS_CONTAINER_CREDENTIALS_RELATIVE_URI}"
	if mode == "host" {
		credentials = "${AWS_CONTAINER_CREDENTIALS_FULL_URI}"
	}
	all := strings.Join(append(metadataPaths, credentials), " ")
	d := def{Network: mode, Containers: []ctr{
		{Name: "web", Command: words(fmt.Sprintf("serve %d -- try %s %s -- env ECS_CONTAINER_METADATA_URI_V4 -- write /tmp/ready", at, local, all)), Health: healthyIf("exists /tmp/ready")},
		{Name: "sibling", Command: words(fmt.Sprintf("try %s %s -- write /tmp/ready -- sleep forever", other, all)), DependsOn: []on{{"web", "HEALTHY"}}, Health: healthyIf("exists /tmp/ready")},
	}}
	if mode != "none" {
		d.Containers[0].Ports = []port{{Container: at, Host: at}}
	}
	if by != "" {
		d.More = obj{"x-podtask": obj{"network": by}}
	}
	id := b.detach("--name", b.family, b.write(d))
	b.await("sibling HEALTHY")

	own := strings.Fields(b.lines(id, "web"))
	_, uri, _ := strings.Cut(own[len(own)-1], "=")
	service.own, endpoint.own = yes(own[0]), everyPath(own[1:len(own)-1])
	sibling := strings.Fields(b.lines(id, "sibling"))
	service.sibling, endpoint.sibling = yes(sibling[0]), everyPath(sibling[1:])

	service.host, service.outside = ask(local), ask(fmt.Sprintf("http://%s:%d/", ownAddress(b.t), at))
	endpoint.host = askEndpoint(uri)
	endpoint.outside = askEndpoint(strings.Replace(uri, "127.0.0.1", ownAddress(b.t), 1))

	// A task that runs at the same time, and knows the URI of the other.
	spy := def{Containers: []ctr{{Name: "spy", Command: words(fmt.Sprintf("try http://host.containers.internal:%d/ %s %s/task", at, uri, uri))}}}
	b.want(0, "run", "--quiet", "--name", b.family+"-spy", b.write(spy))
	seen := strings.Fields(b.lines(b.family+"-spy", "spy"))
	service.otherTask, endpoint.otherTask = yes(seen[0]), seen[1]
	if seen[1] != seen[2] {
		b.t.Errorf("the other task gets %v", seen)
	}
	return service, endpoint
}

// yes is for an answer.
func yes(status string) string {
	if status == "200" {
		return "yes"
	}
	return status
}

// everyPath is yes if all paths of the endpoint were answered.
func everyPath(statuses []string) string {
	for i, s := range statuses {
		if s != "200" {
			return fmt.Sprintf("%s for path %d", s, i)
		}
	}
	if len(statuses) != len(metadataPaths)+1 {
		return fmt.Sprintf("%d answers", len(statuses))
	}
	return "yes"
}

// ask asks from the host.
func ask(url string) string {
	client := &http.Client{Timeout: 15 * time.Second}
	res, err := client.Get(url)
	if err != nil {
		return "no"
	}
	defer res.Body.Close()
	return yes(fmt.Sprint(res.StatusCode))
}

// askEndpoint asks from the host who knows the URI, and if that helps who does not.
// Another program may answer at 169.254.170.2 there.
func askEndpoint(uri string) string {
	if ask(uri) != "yes" {
		return "no"
	}
	return ask(uri[:strings.LastIndex(uri, "/")+1] + strings.Repeat("0", 32) + "-0000000000")
}

// ownAddress is the host's address that others know.
func ownAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	t.Fatal("the host has no address but those of its loopback")
	return ""
}

func TestNetworkThatIsNotThereIsRefused(t *testing.T) {
	t.Parallel()
	want := map[string]string{"pasta": "network pasta needs Podman 4.4.0, this is 4.", "slirp4netns": "apt-get install slirp4netns"}
	for program, words := range want {
		if connects(program) {
			continue // TestReachability
		}
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			if program == "slirp4netns" && strings.HasPrefix(b.podman("version", "--format", "{{.Client.Version}}"), "6.") {
				words = "does not support the network slirp4netns"
			}
			r := b.want(125, "run", "--network", program, b.define(ctr{Name: "app", Command: []string{"exit", "0"}}))
			if !strings.Contains(r.err, words) {
				t.Errorf("the error does not say %q: %s", words, r.err)
			}
			if got := b.want(0, "ps", "-a", "-q").out + b.objects(); got != "" {
				t.Errorf("something was made: %s", got)
			}
		})
	}
}
