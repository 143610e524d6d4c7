package logdelivery

import (
	"context"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

// Describer says what Podman made of a container's definition and its image.
type Describer interface {
	DescribeContainer(ctx context.Context, name string) (libpod.Description, error)
}

// origin describes container i for tags and records. Of a container that Podman does not have
// any more, only what the definition says is known.
func (v *Servers) origin(ctx context.Context, s lifecycle.State, i int) logdriver.Origin {
	o := defined(s, i)
	podman, err := v.Podman(ctx)
	if err != nil {
		return o
	}
	seen, err := podman.DescribeContainer(ctx, taskspec.ContainerName(s, i))
	if err != nil || seen.ID == "" {
		return o
	}
	o.ContainerID, o.ContainerCreated, o.ContainerLabels = seen.ID, seen.Created, seen.Labels
	o.ContainerEntrypoint, o.ContainerArgs = command(seen.Command)
	o.ContainerEnv = withoutSecrets(s, i, seen.Env)
	return o
}

// defined is what the state says of a container.
func defined(s lifecycle.State, i int) logdriver.Origin {
	c := s.Task.Containers[i]
	o := logdriver.Origin{
		Config: c.Log.Options, ContainerID: s.Containers[i].ID, ContainerName: "/" + taskspec.ContainerName(s, i),
		ContainerImageID: s.Containers[i].ImageID, ContainerImageName: c.Image, ContainerLabels: taskspec.Labels(s, i), ContainerCreated: s.CreatedAt, DaemonName: "podtask",
	}
	if o.ContainerImageID != "" && !strings.Contains(o.ContainerImageID, ":") {
		o.ContainerImageID = "sha256:" + o.ContainerImageID
	}
	o.ContainerEntrypoint, o.ContainerArgs = command(slices.Concat(c.EntryPoint, c.Command))
	for _, e := range c.Environment {
		o.ContainerEnv = append(o.ContainerEnv, e.Name+"="+e.Value)
	}
	return o
}

func command(words []string) (string, []string) {
	if len(words) == 0 {
		return "", nil
	}
	return words[0], words[1:]
}

// withoutSecrets leaves out the variables whose values are secrets: Podman shows them while the
// container runs.
func withoutSecrets(s lifecycle.State, i int, env []string) []string {
	hidden := make(map[string]bool)
	for _, w := range taskspec.ContainerSecrets(s, i) {
		hidden[w.Env] = true
	}
	return slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return hidden[name]
	})
}

// CloudWatch returns the group and the stream of CloudWatch Logs that the options of container
// i name, whether or not its lines are sent there; false for another log driver. It asks
// nothing of Podman, so a tag may name the stream of a container that is gone.
func CloudWatch(s lifecycle.State, i int) (group, stream string, ok bool) {
	c := s.Task.Containers[i]
	if c.Log == nil || c.Log.Driver != logdriver.AWSLogs {
		return "", "", false
	}
	options, problems := logdriver.ParseAWSLogs(c.Log.Options)
	if len(problems) > 0 {
		return "", "", false
	}
	return options.Group, options.StreamName(c.Name, s.ID, defined(s, i)), true
}
