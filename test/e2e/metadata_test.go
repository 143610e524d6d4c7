//go:build e2e

//e2e:bed plain

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/engine/facts/metadata"
)

const metadataURI = "${ECS_CONTAINER_METADATA_URI_V4}"

// answers returns the lines of a container's log, each a JSON document.
func (b *box) answers(ref, container string) []string {
	b.t.Helper()
	return strings.Split(strings.TrimSpace(b.want(0, "logs", ref, container).out), "\n")
}

func decodeAnswer[T any](t *testing.T, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Errorf("%v in the answer %q", err, text)
	}
	return v
}

func TestMetadataIsServedInEveryNetworkMode(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"awsvpc", "bridge", "none", "host"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			ask := "await " + metadataURI + " -- print -- await " + metadataURI + "/task -- print -- " +
				"await " + metadataURI + "/stats -- print -- await " + metadataURI + "/task/stats -- print -- " +
				"await ${ECS_CONTAINER_METADATA_URI} -- print -- " +
				"sleep 2s -- await " + metadataURI + "/stats -- print -- try ${ECS_AGENT_URI}/task-protection/v1/state"
			b.want(0, "run", "--name", b.family, b.write(def{Network: mode, CPU: "512", Memory: "256", Containers: []ctr{
				{Name: "app", Command: words(ask), Memory: 64},
			}}), "--limits", "off")
			got := b.answers(b.family, "app")
			if len(got) != 7 {
				t.Fatalf("%d answers: %q", len(got), got)
			}
			task := b.inspect(b.family)
			c := decodeAnswer[metadata.Container](t, got[0])
			if c.Name != "app" || c.KnownStatus != "RUNNING" || c.DockerID != task.Containers[0].RuntimeID || c.Limits.Memory != 64 ||
				c.Networks[0].NetworkMode != mode || c.StartedAt == nil || c.Labels["com.amazonaws.ecs.task-arn"] == "" {
				t.Errorf("container %+v", c)
			}
			whole := decodeAnswer[metadata.Task](t, got[1])
			if whole.Family != b.family || !strings.HasSuffix(whole.TaskARN, task.ID) || len(whole.Containers) != 1 || whole.Limits.CPU != 0.5 || whole.Limits.Memory != 256 {
				t.Errorf("task %+v", whole)
			}
			stats := decodeAnswer[map[string]any](t, got[2])
			if stats["cpu_stats"] == nil || stats["memory_stats"] == nil {
				t.Errorf("statistics %v", got[2])
			}
			if all := decodeAnswer[map[string]map[string]any](t, got[3]); all[c.DockerID]["cpu_stats"] == nil {
				t.Errorf("statistics of the task %v", got[3])
			}
			if c := decodeAnswer[metadata.Container](t, got[4]); c.Name != "app" {
				t.Errorf("version 3 says %v", got[4])
			}
			if later := decodeAnswer[map[string]any](t, got[5]); later["networks"] != nil && later["network_rate_stats"] == nil || mode != "none" && mode != "host" && later["networks"] == nil {
				t.Errorf("statistics later %v", got[5])
			}
			if got[6] != "200" {
				t.Errorf("the protection of the task answers %s", got[6])
			}
			if mode == "awsvpc" && len(c.Networks[0].IPv4Addresses) == 0 {
				t.Error("the container has no address")
			}
		})
	}
}

// Each container of a task asks before its owner is killed and after another has taken
// the task on, under the same paths.
func TestMetadataOutlivesItsOwner(t *testing.T) {
	t.Parallel()
	again := words("await " + metadataURI + " -- print -- write /tmp/first -- wait /tmp/go -- await " + metadataURI + "/task -- print")
	for _, mode := range []string{"awsvpc", "bridge", "none", "host"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			names := []string{"app", "other"}
			d := def{Network: mode}
			for _, name := range names {
				d.Containers = append(d.Containers, ctr{Name: name, Command: again, Health: healthyIf("exists /tmp/first")})
			}
			d.Containers[1].DependsOn = []on{{"app", "START"}}
			d.Containers[0].Essential = optional
			b.detach("--name", b.family, "--wait=healthy", b.write(d))
			b.killOwner(b.family)
			p := b.start("wait", b.family) // carries the task on
			for _, name := range names {
				b.tell(b.family, name, "/tmp/go")
				b.await(name + " STOPPED")
			}
			if r := p.wait(); r.code != 0 || strings.TrimSpace(r.out) != "0" {
				t.Errorf("wait: %+v", r)
			}
			for _, name := range names {
				got := b.answers(b.family, name)
				if whole := decodeAnswer[metadata.Task](t, got[len(got)-1]); whole.Family != b.family {
					t.Errorf("%s was told after the restart: %q", name, got)
				}
			}
		})
	}
}

func TestMetadataIsTheTasksOwn(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	one := b.detach("--name", b.family+"-one", b.define(ctr{Name: "app", Command: words("env ECS_CONTAINER_METADATA_URI_V4 -- sleep forever")}))
	b.await("app RUNNING")
	_, uri, _ := strings.Cut(strings.TrimSpace(b.want(0, "logs", one, "app").out), "=")
	if !strings.HasPrefix(uri, "http://169.254.170.2/v4/") {
		t.Errorf("URI %q", uri)
	}
	r := b.podtask("run", b.define(ctr{Name: "spy", Command: words("await " + metadataURI + " -- get " + uri)}))
	if r.code != 1 || !strings.Contains(r.out+r.err, "404") {
		t.Errorf("another task asks: %+v", r)
	}
}

func TestMetadataGivesCredentials(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	secret := "marked-" + b.family
	b.credentialsHelper(secret)
	// What the container prints is no leak: it asked.
	r := b.want(0, "run", "--name", b.family, b.define(ctr{Name: "app", Command: words("await http://169.254.170.2${AWS_CONTAINER_CREDENTIALS_RELATIVE_URI} -- print")}))
	if !strings.Contains(r.out, secret) || !strings.Contains(r.out, `"Token":"tok"`) {
		t.Errorf("credentials: %s", r.out)
	}
	if shown := b.want(0, "inspect", b.family).out; strings.Contains(shown, secret) {
		t.Error("inspect shows the secret key")
	}
	err := filepath.WalkDir(b.stateHome(), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), secret) {
			t.Errorf("%s holds the secret key", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// Credentials that end within ten minutes are fetched again, those that last are kept.
func TestCredentialsAreFetchedAgainBeforeTheyExpire(t *testing.T) {
	t.Parallel()
	for ends, want := range map[string][2]string{"+5 minutes": {"AKIA1", "AKIA2"}, "+1 hour": {"AKIA1", "AKIA1"}} {
		b := newBox(t)
		count := filepath.Join(b.dir, "count")
		helper := b.file("fetch", "#!/bin/sh\necho >>"+count+"\necho '{\"Version\":1,\"AccessKeyId\":\"AKIA'$(wc -l <"+count+")'\",\"SecretAccessKey\":\"s\",\"Expiration\":\"'$(date -u -d '"+ends+"' +%Y-%m-%dT%H:%M:%SZ)'\"}'\n")
		if err := os.Chmod(helper, 0o700); err != nil {
			t.Fatal(err)
		}
		b.env = append(b.env, "PODTASK_CREDENTIALS_HELPER="+helper)
		const url = "http://169.254.170.2${AWS_CONTAINER_CREDENTIALS_RELATIVE_URI}"
		r := b.want(0, "run", "--quiet", b.define(ctr{Name: "app", Command: words("get " + url + " -- print -- get " + url + " -- print")}))
		var got [2]string
		for i, line := range strings.SplitN(strings.TrimSpace(r.out), "\n", 2) {
			_, rest, _ := strings.Cut(line, `"AccessKeyId":"`)
			got[i], _, _ = strings.Cut(rest, `"`)
		}
		if got != want {
			t.Errorf("credentials that end in %s: %v, want %v; it printed %s", ends, got, want, r.out)
		}
	}
}

// Two tasks with different roles have different credentials at the same time, neither can
// read the other's, and both know the region and their tags.
func TestEachTaskHasItsRole(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.credentialsHelper("secret")
	b.env = append(b.env, "AWS_REGION=eu-north-1")
	role := func(name, command string) string {
		return b.write(def{Family: b.family + name, Containers: []ctr{{Name: "app", Command: words(
			"env AWS_CONTAINER_CREDENTIALS_RELATIVE_URI -- await http://169.254.170.2${AWS_CONTAINER_CREDENTIALS_RELATIVE_URI} -- print -- get ${ECS_CONTAINER_METADATA_URI_V4}/taskWithTags -- print -- " +
				"env AWS_DEFAULT_REGION -- env AWS_REGION -- env AWS_EXECUTION_ENV -- " + command)}},
			More: obj{"taskRoleArn": "arn:aws:iam::123456789012:role/" + name, "tags": []obj{{"key": "team", "value": name}}}})
	}
	one := b.detach(role("one", "wait /tmp/go"))
	printed := func(id, part string) string {
		for _, line := range strings.Split(b.want(0, "logs", id, "app").out, "\n") {
			if strings.Contains(line, part) {
				return line
			}
		}
		return ""
	}
	eventually(t, "the first task knows who it is", func() bool { return printed(one, "AWS_EXECUTION_ENV=AWS_ECS_EC2") != "" })
	_, path, _ := strings.Cut(printed(one, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI="), "=")
	two := b.detach(role("two", "try http://169.254.170.2"+strings.TrimSpace(path)+" -- wait /tmp/go"))
	eventually(t, "the second task has asked for the first one's", func() bool {
		return strings.Contains(b.want(0, "logs", two, "app").out, "\n400\n")
	})
	for id, name := range map[string]string{one: "one", two: "two"} {
		arn := "arn:aws:iam::123456789012:role/" + name
		for _, part := range []string{`"AccessKeyId":"AKIA` + arn + `"`, `"RoleArn":"` + arn + `"`, `"TaskTags":{"team":"` + name + `"}`, "AWS_REGION=eu-north-1", "AWS_DEFAULT_REGION=eu-north-1"} {
			if printed(id, part) == "" {
				t.Errorf("task %s has no %s", name, part)
			}
		}
		if got := b.want(0, "ps", "-q", "--filter", "tag=team="+name).out; !strings.HasPrefix(id, strings.TrimSpace(got)) || got == "" {
			t.Errorf("with the tag of task %s: %q, want %s", name, got, id)
		}
	}
	if got := b.podman("ps", "-q", "--filter", "label=podtask.tag.team=two", "--filter", "label=podtask.container=app"); strings.Count(strings.TrimSpace(got), "\n") != 0 || strings.TrimSpace(got) == "" {
		t.Errorf("with the label of the tag: %q", got)
	}
}

func TestMetadataFile(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.env = append(b.env, "PODTASK_METADATA_FILE=on")
	// Another user than root reads it too, and cannot write it.
	b.want(0, "run", "--name", b.family, b.define(ctr{
		Name: "app", Command: words("cat ${ECS_CONTAINER_METADATA_FILE} -- cannot write ${ECS_CONTAINER_METADATA_FILE} x"), Ports: []port{{Container: 8080}},
		More: obj{"user": "1234", "readonlyRootFilesystem": true},
	}))
	task := b.inspect(b.family)
	got := decodeAnswer[metadata.File](t, b.answers(b.family, "app")[0])
	if got.MetadataFileStatus != "READY" || got.ContainerName != "app" || got.ContainerID != task.Containers[0].RuntimeID ||
		got.TaskDefinitionFamily != b.family || !strings.HasSuffix(got.TaskARN, task.ID) || got.Networks[0].NetworkMode != "bridge" ||
		len(got.PortMappings) != 1 || got.PortMappings[0].HostPort == 0 {
		t.Errorf("%+v", got)
	}
	b.want(0, "rm", b.family)
	if left, err := filepath.Glob(filepath.Join(b.stateHome(), "podtask", "metadata", "*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
}
