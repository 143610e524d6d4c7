package export

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/distribution/reference"

	"github.com/podtask/podtask/pkg/taskdef"
)

// Target is a tool for which files are written.
type Target string

// The targets.
const (
	Quadlet    Target = "quadlet"
	Compose    Target = "compose"
	Kubernetes Target = "kubernetes"
)

// Targets lists them in the order of the table.
var Targets = []Target{Quadlet, Compose, Kubernetes}

// Title is the name of the target in text.
func (t Target) Title() string {
	return map[Target]string{Quadlet: "Quadlet", Compose: "Compose", Kubernetes: "Kubernetes"}[t]
}

// Source is a task to write.
type Source struct {
	// Name has the value of the files and of the pod, the project or the Pod.
	Name string
	Task taskdef.Task
	// Copies is the number of copies of a service; 0 for a task that is none.
	Copies int
}

// Result has the files and what they do not say.
type Result struct {
	Files []File
	Lost  []Loss
}

// File is a file of the target: a text, or documents of YAML, each ready for encoding/json in the order of its members.
type File struct {
	Name      string
	Text      string
	Documents []any
}

// Loss is a member of which a target does not say all.
type Loss struct {
	// Container is the name of the container; empty for the whole task.
	Container string `json:"container,omitempty"`
	// Member is its name in a task definition.
	Member string `json:"member"`
	Reason string `json:"reason"`
	// Remedy is the thing to do instead; it may be empty.
	Remedy string `json:"remedy,omitempty"`
}

// String returns the loss on one line.
func (l Loss) String() string {
	text := l.Member + ": " + l.Reason
	if l.Container != "" {
		text = l.Container + ": " + text
	}
	if l.Remedy != "" {
		text += "; " + l.Remedy
	}
	return text
}

// Write writes a task for a target.
func Write(target Target, s Source) (Result, error) {
	w := &writer{Source: s}
	if target == Kubernetes && len(s.Task.Extensions.Pod) > 0 {
		return w.manifest()
	}
	w.alone()
	w.lost = untold(target, w.Task)
	var files []File
	switch target {
	case Quadlet:
		files = w.quadlet()
	case Compose:
		files = w.compose()
	case Kubernetes:
		files = w.kubernetes()
	default:
		return Result{}, fmt.Errorf("no target %q: it is quadlet, compose or kubernetes", target)
	}
	return Result{files, w.lost}, nil
}

// alone gives a container that is alone the limits of the task.
func (w *writer) alone() {
	if len(w.Task.Containers) != 1 {
		return
	}
	c := w.Task.Containers[0]
	c.Memory, c.Extensions.CPULimit = cmp.Or(c.Memory, w.Task.Memory), cmp.Or(c.Extensions.CPULimit, w.Task.CPU)
	w.Task.Containers, w.Task.Memory, w.Task.CPU = []taskdef.Container{c}, 0, 0
}

// writer writes one task, and gathers what is lost.
type writer struct {
	Source
	lost []Loss
	// names has the names that were given, by their kinds, and what they were given to.
	names map[[2]string]string
}

// unique returns a name that nothing else of its kind has: the wanted one, or one with a number behind a dash or the like.
func (w *writer) unique(kind, wanted, dash, of string) string {
	if w.names == nil {
		w.names = map[[2]string]string{}
	}
	name := wanted
	for n := 2; ; n++ {
		if has, taken := w.names[[2]string{kind, name}]; !taken || has == of {
			w.names[[2]string{kind, name}] = of
			return name
		}
		name = fmt.Sprint(wanted, dash, n)
	}
}

// lose notes what a target does not say of a container, or of the task if c is nil.
func (w *writer) lose(c *taskdef.Container, member, reason, remedy string) {
	l := Loss{Member: member, Reason: reason, Remedy: remedy}
	if c != nil {
		l.Container = c.Name
	}
	if !slices.Contains(w.lost, l) {
		w.lost = append(w.lost, l)
	}
}

// image returns an image with its registry: podtask takes a short name for one of Docker Hub, others look elsewhere too.
func image(text string) string {
	named, err := reference.ParseNormalizedNamed(text)
	if err != nil {
		return text
	}
	return named.String()
}

// waits lists the conditions that other containers wait for of container i.
func (w *writer) waits(i int) (all []taskdef.Condition) {
	for _, c := range w.Task.Containers {
		for _, d := range c.DependsOn {
			if d.Container == i {
				all = append(all, d.Condition)
			}
		}
	}
	return all
}

// ends reports whether container i runs to its end before others start.
func (w *writer) ends(i int) bool {
	waits := w.waits(i)
	return !w.Task.Containers[i].Essential && (slices.Contains(waits, taskdef.Success) || slices.Contains(waits, taskdef.Complete))
}

// together notes the loss: the other containers go on when an essential one ends.
func (w *writer) together(remedy string) {
	essential := 0
	for _, c := range w.Task.Containers {
		if c.Essential {
			essential++
		}
	}
	if essential > 0 && len(w.Task.Containers) > 1 {
		w.lose(nil, "essential", "the other containers run on when an essential one ends", remedy)
	}
}

// restart is a restart policy in the words of engines: always, on-failure or empty for none.
func restart(p *taskdef.RestartPolicy) string {
	switch {
	case p == nil || p.RulesOnly:
		return ""
	case slices.Contains(p.IgnoredExitCodes, 0):
		return "on-failure"
	}
	return "always"
}

// ignored tells the exit codes other than 0 after which a container would not be restarted.
func (w *writer) ignored(c *taskdef.Container) {
	for _, code := range c.Restart.IgnoredExitCodes {
		if code != 0 {
			w.lose(c, "restartPolicy.ignoredExitCodes", fmt.Sprintf("the container is restarted after exit code %d too", code), "")
		}
	}
}

// hostPort is the port of the host of a mapping; 0 for any.
func (w *writer) hostPort(c *taskdef.Container, p taskdef.Port) uint16 {
	const first = 1024 // that a user may publish
	if p.HostPort == 0 && p.AWSVPCHostPort >= first {
		w.lose(c, "portMappings", fmt.Sprintf("port %d of the host is that of the container, and no other one is taken if it is in use", p.AWSVPCHostPort), "choose another one")
		return p.AWSVPCHostPort
	}
	return p.HostPort
}

// published returns a port in the words of podman run --publish.
func (w *writer) published(c *taskdef.Container, p taskdef.Port) string {
	text := fmt.Sprint(p.ContainerPort)
	if p.ContainerPortEnd != 0 {
		text += fmt.Sprintf("-%d", p.ContainerPortEnd)
	}
	if host := w.hostPort(c, p); host != 0 {
		outside := fmt.Sprint(host)
		if p.ContainerPortEnd != 0 {
			outside += fmt.Sprintf("-%d", int(host)+p.Count()-1)
		}
		text = outside + ":" + text
	} else if p.HostIP != "" {
		text = ":" + text
	}
	if p.HostIP != "" {
		ip := p.HostIP
		if strings.Contains(ip, ":") {
			ip = "[" + ip + "]"
		}
		text = ip + ":" + text
	}
	if p.Protocol != "tcp" {
		text += "/" + p.Protocol
	}
	return text
}

// volume returns the source of a volume: a path of the host, or the name of a volume of the engine.
func (w *writer) volume(v taskdef.Volume) (source string, isPath bool) {
	switch v.Kind {
	case taskdef.VolumeBind:
		return v.HostPath, true
	case taskdef.VolumeTask:
		w.lose(nil, "volumes", "the volume "+v.Name+" stays when the containers are removed: podtask removes it with the task", "remove it with `podman volume rm`")
		return w.Name + "-" + v.Name, false
	default:
		return cmp.Or(v.External, v.Name), false
	}
}

// stored returns the name of a secret of Podman; ok is false for a value from elsewhere.
func stored(v taskdef.SecretValue) (name string, ok bool) {
	name, ok = strings.CutPrefix(cmp.Or(v.Source, v.ValueFrom), "podman:")
	return name, ok && v.JSONKey == ""
}

// devicePermissions has the values of a device as engines write them; empty for all.
func devicePermissions(words []string) (letters string) {
	for _, word := range words {
		letters += word[:1]
	}
	if letters == "rwm" {
		return ""
	}
	return letters
}

// tmpfs returns the options of a tmpfs.
func tmpfs(t taskdef.Tmpfs) string {
	return strings.Join(append([]string{fmt.Sprintf("size=%d", t.Size)}, t.Options...), ",")
}

// words has the values of a program that runs the command of a health check.
func words(check []string) []string {
	if len(check) == 2 && check[0] == "CMD-SHELL" {
		return []string{"/bin/sh", "-c", check[1]}
	}
	return check[min(1, len(check)):]
}

// whole is a time in whole seconds, rounded up.
func whole(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// fields is an object whose members keep their order.
type fields []field

type field struct {
	name  string
	value any
}

// add adds a member, unless its value says nothing.
func (f *fields) add(name string, value any) {
	text, err := json.Marshal(value)
	if err == nil && !slices.Contains([]string{"null", `""`, "[]", "{}", "false", "0"}, string(text)) {
		f.put(name, value)
	}
}

// put adds a member whatever its value is.
func (f *fields) put(name string, value any) { *f = append(*f, field{name, value}) }

// MarshalJSON implements json.Marshaler.
func (f fields) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, one := range f {
		if i > 0 {
			out.WriteByte(',')
		}
		key, err := json.Marshal(one.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(one.value)
		if err != nil {
			return nil, err
		}
		out.Write(key)
		out.WriteByte(':')
		out.Write(value)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// base is the name of the file of a path.
func base(p string) string { return path.Base(p) }
