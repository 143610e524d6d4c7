package cli

import (
	"slices"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef/suggest"
	"github.com/urfave/cli/v2"
)

// commandHints maps commands of Docker, Podman and kubectl to what does the same in podtask.
var commandHints = map[string]string{
	"apply":    "`podtask service create NAME FILE` creates a service, `podtask service update NAME FILE` updates it",
	"attach":   "`podtask logs --follow TASK` follows the output of a task",
	"build":    "`podman build` builds images; podtask runs them",
	"compose":  "`podtask run compose.yaml` runs a Compose file as one task, `podtask stack up` as several services; `podtask import` makes a definition of it",
	"create":   "`podtask run --detach FILE` creates and starts a task",
	"describe": "`podtask inspect TASK` shows a task, `podtask why TASK` explains its status",
	"down":     "`podtask stop TASK` stops a task",
	"diff":     "`podtask plan FILE` shows what a run would do, `podtask service inspect NAME` what a service runs",
	"get":      "`podtask ps` lists tasks, `podtask inspect TASK` shows one",
	"images":   "`podtask image ls` lists the images that podtask pulled",
	"kube":     "`podtask run FILE` runs a Kubernetes manifest, `podtask import FILE` makes a service of a controller",
	"login":    "`podman login REGISTRY` logs in; podtask uses the same credentials",
	"network":  "`podman network ls` lists networks; a definition names the one that its task joins",
	"rename":   "`podtask run --name NAME FILE` names a new task; tasks and services keep their names",
	"scale":    "`podtask service scale NAME COUNT` changes how many copies of a service run",
	"secret":   "`podman secret ls` lists secrets, `podman secret create NAME FILE` makes one; definitions refer to it by its name",
	"start":    "`podtask run --detach FILE` starts a new task, `podtask restart TASK` the same again",
	"up":       "`podtask run --detach FILE` starts a task; `podtask run --detach compose.yaml` runs a Compose file",
	"volume":   "`podman volume ls` lists volumes; `podtask run --map-volume NAME=PATH` maps one of a definition",
}

// takeNamesOf has the commands about tasks that take the names of a group too.
var takeNamesOf = map[string][]string{"service": {"exec", "logs", "why"}, "schedule": {"logs", "why"}}

// neverSuggested has the commands and flags that remove or stop things. A suggestion may be run without
// reading it, and must not lose anything.
var neverSuggested = []string{"all", "deregister", "drain", "force", "gc", "kill", "prune", "restart", "rm"}

func closestCommand(commands []*cli.Command, word string) string {
	var names []string
	for _, c := range visible(commands) {
		names = append(names, c.Names()...)
	}
	return closest(names, word)
}

func closestFlag(flags []cli.Flag, name string) string {
	var names []string
	for _, f := range flags {
		names = append(names, slices.DeleteFunc(slices.Clone(f.Names()), func(n string) bool { return len(n) == 1 })...)
	}
	return closest(names, name)
}

func closest(names []string, word string) string {
	return suggest.Closest(word, slices.DeleteFunc(names, func(n string) bool { return slices.Contains(neverSuggested, n) }))
}

func visible(commands []*cli.Command) []*cli.Command {
	return slices.DeleteFunc(slices.Clone(commands), func(c *cli.Command) bool { return c.Hidden })
}

// alternatives returns the names of commands: "ls, prune or resolve".
func alternatives(commands []*cli.Command) string {
	var names []string
	for _, c := range visible(commands) {
		names = append(names, c.Name)
	}
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " or " + names[n-1]
	}
	return strings.Join(names, "")
}
