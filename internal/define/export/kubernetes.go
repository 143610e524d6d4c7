package export

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/define/pod"
	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/taskdef"
)

// manifest returns the manifest that a task was made from.
func (w *writer) manifest() (Result, error) {
	var kept pod.Pod
	if err := json.Unmarshal(w.Task.Extensions.Pod, &kept); err != nil {
		return Result{}, fmt.Errorf("the Pod that the task was made from cannot be read: %w", err)
	}
	if kept.Source == nil {
		return Result{}, fmt.Errorf("the task keeps no text of the Pod that it was made from")
	}
	for _, c := range w.Task.Containers {
		if len(c.Secrets)+len(c.Extensions.SecretFiles) > 0 {
			w.lose(nil, "Secrets", "the Secrets of the manifest are not written: podtask keeps only their values, in Podman", "add them from your own files")
			break
		}
	}
	var source map[string]any
	if err := json.Unmarshal(kept.Source, &source); err != nil {
		return Result{}, err
	}
	var doc fields
	doc.put("apiVersion", "v1")
	doc.put("kind", "Pod")
	for _, name := range slices.Sorted(maps.Keys(source)) {
		if name != "apiVersion" && name != "kind" && name != "status" {
			doc.add(name, source[name])
		}
	}
	return Result{[]File{{Name: w.Name + ".kube.yaml", Documents: []any{doc}}}, w.lost}, nil
}

// maxName is the number of characters that a name may have.
const maxName = 63

// dns is a name in the characters that Kubernetes allows for Pods and containers.
func dns(name string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	if name = strings.Trim(name[:min(len(name), maxName)], "-"); name == "" {
		return "task"
	}
	return name
}

// dns is a name as Kubernetes has those of Pods and containers, which no other thing of the kind has.
func (w *writer) dns(kind, name, of string) string {
	const number = 4 // characters that unique may add
	name = dns(name)
	if to := w.unique(kind, name, "-", of); len(to) <= maxName {
		return to
	}
	return w.unique(kind, strings.TrimRight(name[:maxName-number], "-"), "-", of)
}

// renamed is a name in Kubernetes, with a line if it is another one.
func (w *writer) renamed(c *taskdef.Container, member, name string) string {
	to := w.dns(member, name, name)
	if to != name {
		w.lose(c, member, fmt.Sprintf("%q is called %q: names have lower-case letters, digits and dashes", name, to), "")
	}
	return to
}

// dollar matches a sign that begins a variable of Kubernetes, or stands for another one.
var dollar = lazy.MustCompile(`\$(\(|\$)`)

// literalArgument is a text in which Kubernetes puts no variables.
func literalArgument(s string) string {
	for at := 0; ; {
		i := dollar.FindStringIndex(s[at:])
		if i == nil {
			return s
		}
		at += i[0]
		s = s[:at] + "$" + s[at:]
		at += 2
	}
}

func literalArguments(list []string) (out []string) {
	for _, s := range list {
		out = append(out, literalArgument(s))
	}
	return out
}

// kubernetes writes a Pod, or for a service a Deployment and a Service.
func (w *writer) kubernetes() []File {
	name := w.renamed(nil, "family", w.Name)
	labels := fields{{"app", name}}
	spec := w.podSpec()
	docs := w.claims()
	metadata := fields{{"name", name}, {"labels", labels}}
	if w.Copies == 0 {
		docs = append(docs, fields{{"apiVersion", "v1"}, {"kind", "Pod"}, {"metadata", metadata}, {"spec", spec}})
	} else {
		template := fields{{"metadata", fields{{"labels", labels}}}, {"spec", spec}}
		docs = append(docs, fields{{"apiVersion", "apps/v1"}, {"kind", "Deployment"}, {"metadata", metadata}, {"spec", fields{{"replicas", w.Copies}, {"selector", fields{{"matchLabels", labels}}}, {"template", template}}}})
		if ports := w.servicePorts(); len(ports) > 0 {
			docs = append(docs, fields{{"apiVersion", "v1"}, {"kind", "Service"}, {"metadata", metadata}, {"spec", fields{{"selector", labels}, {"ports", ports}}}})
		}
	}
	return []File{{Name: w.Name + ".kube.yaml", Documents: docs}}
}

// servicePorts are the ports of a Service for the copies.
func (w *writer) servicePorts() (all []any) {
	var seen []string
	for _, c := range w.Task.Containers {
		for _, p := range c.Ports {
			name := fmt.Sprintf("%s-%d", p.Protocol, p.ContainerPort)
			if !slices.Contains(seen, name) {
				seen = append(seen, name)
				all = append(all, fields{{"name", name}, {"port", p.ContainerPort}, {"targetPort", p.ContainerPort}, {"protocol", strings.ToUpper(p.Protocol)}})
			}
		}
	}
	return all
}

// claims are the claims of the volumes that stay.
func (w *writer) claims() (docs []any) {
	for _, v := range w.Task.Volumes {
		if v.Kind != taskdef.VolumeShared {
			continue
		}
		w.lose(nil, "volumes", "the volume "+v.Name+" begins empty in a cluster, with 1 GiB", "copy its files, and write the size that it needs")
		docs = append(docs, fields{{"apiVersion", "v1"}, {"kind", "PersistentVolumeClaim"}, {"metadata", fields{{"name", w.claim(v)}}}, {"spec", fields{
			{"accessModes", []string{"ReadWriteOnce"}}, {"resources", fields{{"requests", fields{{"storage", "1Gi"}}}}},
		}}})
	}
	return docs
}

func (w *writer) claim(v taskdef.Volume) string {
	source, _ := w.volume(v)
	return w.renamed(nil, "volumes[].name", source)
}

// podSpec writes the Pod.
func (w *writer) podSpec() (f fields) {
	first, rest := w.split()
	f.add("restartPolicy", w.restartPolicy(rest))
	w.podNetwork(&f)
	f.add("hostPID", w.Task.PIDMode == taskdef.PIDHost)
	f.add("hostIPC", w.Task.IPCMode == taskdef.IPCHost)
	f.add("shareProcessNamespace", w.Task.PIDMode == taskdef.PIDTask)
	if d := w.Task.Extensions.Deadline; d > 0 && w.Copies == 0 {
		f.put("activeDeadlineSeconds", whole(d))
	} else if d > 0 {
		w.lose(nil, "x-podtask.timeout", "a Deployment has no deadline", "")
	}
	if arch := w.Task.Platform.Architecture; arch != "" {
		f.put("nodeSelector", fields{{"kubernetes.io/arch", arch}})
	}
	f.add("terminationGracePeriodSeconds", w.grace())
	var security, sysctls = fields{}, []any{}
	for _, name := range w.sysctls() {
		sysctls = append(sysctls, fields{{"name", name[0]}, {"value", name[1]}})
	}
	security.add("sysctls", sysctls)
	security.add("supplementalGroups", w.groups())
	f.add("securityContext", security)
	var volumes []any
	initial, running := w.podContainers(first, &volumes), w.podContainers(rest, &volumes)
	f.add("initContainers", initial)
	f.add("containers", running)
	f.add("volumes", volumes)
	if len(rest) > 1 {
		w.together("")
	}
	return f
}

// split divides the containers into those that end before the others start, in their order, and the others.
func (w *writer) split() (first, rest []int) {
	is := make([]bool, len(w.Task.Containers))
	for more := true; more; {
		more = false
		for i, c := range w.Task.Containers {
			waits := slices.ContainsFunc(c.DependsOn, func(d taskdef.Dependency) bool { return !is[d.Container] })
			if w.ends(i) && !waits && !is[i] {
				is[i], more = true, true
				first = append(first, i)
			}
		}
	}
	for i := range w.Task.Containers {
		c := &w.Task.Containers[i]
		if !is[i] {
			rest = append(rest, i)
		}
		for _, d := range c.DependsOn {
			on := w.Task.Containers[d.Container].Name
			switch {
			case !is[d.Container]:
				w.lose(c, "dependsOn", fmt.Sprintf("it does not wait for %s %s: the containers of a Pod start together", on, d.Condition.Words()), "let the program try again until it can go on")
			case d.Condition == taskdef.Complete:
				w.lose(c, "dependsOn", on+" has to end with exit code 0 here", "let it end with 0")
			}
		}
	}
	for _, i := range rest {
		if c := &w.Task.Containers[i]; !c.Essential && len(rest) > 1 {
			w.lose(c, "essential", "a Pod with a container that has ended is not ready", "")
		}
	}
	if len(rest) == 0 {
		return nil, first
	}
	return first, rest
}

// restartPolicy has the value of the Pod, for all containers alike.
func (w *writer) restartPolicy(of []int) string {
	words := map[string]string{"": pod.RestartNever, "always": pod.RestartAlways, "on-failure": pod.RestartOnFailure}
	policy := pod.RestartNever
	for _, i := range of {
		if one := words[restart(w.Task.Containers[i].Restart)]; one != pod.RestartNever {
			policy = one
		}
	}
	if w.Copies > 0 {
		policy = pod.RestartAlways
	}
	for _, i := range of {
		if c := &w.Task.Containers[i]; c.Restart != nil {
			w.ignored(c)
		}
		if c := &w.Task.Containers[i]; words[restart(c.Restart)] != policy && w.Copies == 0 {
			w.lose(c, "restartPolicy", "it is that of the whole Pod, "+policy, "")
		}
	}
	return policy
}

// podNetwork writes the network, which all containers share.
func (w *writer) podNetwork(f *fields) {
	if w.Task.Bridged() {
		w.lose(nil, "networkMode", "the containers share one network, in which each reaches the others as localhost too", "")
	}
	f.add("hostNetwork", w.Task.Network == taskdef.NetworkHost)
	f.add("hostname", w.podHostname())
	var aliases []any
	for _, h := range w.hosts() {
		aliases = append(aliases, fields{{"ip", h.Address}, {"hostnames", []string{h.Name}}})
	}
	f.add("hostAliases", aliases)
	var servers, searches []string
	var options []any
	for _, c := range w.Task.Containers {
		servers, searches = appendNew(servers, c.Net.DNSServers...), appendNew(searches, c.Net.DNSSearch...)
		for _, o := range c.Net.DNSOptions {
			name, value, _ := strings.Cut(o, ":")
			var option fields
			option.put("name", name)
			option.add("value", value)
			options = append(options, option)
		}
	}
	if len(servers) > 0 {
		f.put("dnsPolicy", "None")
	}
	var config fields
	config.add("nameservers", servers)
	config.add("searches", searches)
	config.add("options", options)
	f.add("dnsConfig", config)
}

func (w *writer) podHostname() string {
	name := w.hostname()
	if name == "" {
		return ""
	}
	return w.renamed(nil, "hostname", name)
}

// grace is the time that the containers have to stop, in seconds.
func (w *writer) grace() int64 {
	var most time.Duration
	for _, c := range w.Task.Containers {
		most = max(most, c.StopTimeout)
	}
	for i := range w.Task.Containers {
		if c := &w.Task.Containers[i]; c.StopTimeout != most {
			w.lose(c, "stopTimeout", fmt.Sprintf("it has %d seconds to stop, as all containers of the Pod", whole(most)), "")
		}
	}
	return whole(most)
}

// sysctls are the parameters of the namespaces of the Pod, each with its value.
func (w *writer) sysctls() (all [][2]string) {
	seen := map[string]string{}
	for i := range w.Task.Containers {
		c := &w.Task.Containers[i]
		for _, name := range slices.Sorted(maps.Keys(c.Linux.Sysctls)) {
			value := c.Linux.Sysctls[name]
			if other, known := seen[name]; known {
				if other != value {
					w.lose(c, "systemControls", name+" is "+other+" for all containers of the Pod", "")
				}
				continue
			}
			seen[name] = value
			all = append(all, [2]string{name, value})
		}
	}
	return all
}

// groups are the supplementary groups of all containers.
func (w *writer) groups() (all []int64) {
	for _, c := range w.Task.Containers {
		for _, g := range c.Extensions.Kube.Groups {
			if !slices.Contains(all, g) {
				all = append(all, g)
			}
		}
	}
	return all
}

func (w *writer) podContainers(of []int, volumes *[]any) (all []any) {
	for _, i := range of {
		all = append(all, w.podContainer(i, volumes))
	}
	return all
}

func (w *writer) podContainer(i int, volumes *[]any) (f fields) {
	c := &w.Task.Containers[i]
	f.put("name", w.renamed(c, "name", c.Name))
	f.put("image", image(c.Image))
	f.add("imagePullPolicy", map[string]string{"always": "Always", "prefer-cached": "IfNotPresent", "never": "Never"}[c.Extensions.Kube.Pull])
	if len(c.EntryPoint) == 1 && c.EntryPoint[0] == "" { // without an entry point, the command is the program
		f.add("command", literalArguments(c.Command))
	} else {
		f.add("command", literalArguments(c.EntryPoint))
		f.add("args", literalArguments(c.Command))
	}
	f.add("workingDir", c.WorkingDirectory)
	f.add("env", w.podEnvironment(c))
	f.add("ports", w.podPorts(c))
	f.add("stdin", c.Interactive)
	f.add("tty", c.PseudoTerminal)
	f.add("resources", podResources(c))
	f.add("securityContext", w.podSecurity(c))
	w.podProbe(&f, c)
	if s := c.Extensions.Kube.StopSignal; s != "" {
		f.put("lifecycle", fields{{"stopSignal", s}})
	}
	f.add("volumeMounts", w.podMounts(i, volumes))
	return f
}

func (w *writer) podEnvironment(c *taskdef.Container) (all []any) {
	for _, v := range c.Environment {
		all = append(all, fields{{"name", v.Name}, {"value", literalArgument(v.Value)}})
	}
	for _, s := range c.Secrets {
		name, key := w.secret(c, "secrets", s.Name, s.SecretValue)
		all = append(all, fields{{"name", s.Name}, {"valueFrom", fields{{"secretKeyRef", fields{{"name", name}, {"key", key}}}}}})
	}
	return all
}

// secret is the Secret, and the key in it, that has a value. A line says how to make it.
func (w *writer) secret(c *taskdef.Container, member, what string, v taskdef.SecretValue) (name, key string) {
	name, ok := stored(v)
	if !ok {
		name = what
	}
	name, key = w.dns("secret", name, cmp.Or(v.Source, v.ValueFrom)+" "+v.JSONKey), "value"
	w.lose(c, member, "the value of "+what+" is not written", "make it: kubectl create secret generic "+name+" --from-file="+key+"=FILE")
	return name, key
}

func (w *writer) podPorts(c *taskdef.Container) (all []any) {
	for _, p := range c.Ports {
		host := w.hostPort(c, p)
		if host == 0 && w.Copies == 0 {
			w.lose(c, "portMappings", fmt.Sprintf("port %d is published at no port of the host: Kubernetes chooses none", p.ContainerPort), "write hostPort, or a Service")
		}
		for k := range p.Count() {
			var f fields
			f.put("containerPort", int(p.ContainerPort)+k)
			if host != 0 {
				f.put("hostPort", int(host)+k)
				f.add("hostIP", p.HostIP)
			}
			if p.Protocol != "tcp" {
				f.put("protocol", strings.ToUpper(p.Protocol))
			}
			all = append(all, f)
		}
	}
	return all
}

// podResources are the limits, and the shares that are reserved.
func podResources(c *taskdef.Container) (f fields) {
	var limits, requests fields
	if c.Extensions.CPULimit > 0 {
		limits.put("cpu", fmt.Sprintf("%dm", int64(c.Extensions.CPULimit*1000)))
	}
	if c.Memory > 0 {
		limits.put("memory", fmt.Sprint(c.Memory))
	}
	if c.Linux.GPUs > 0 {
		limits.put("nvidia.com/gpu", c.Linux.GPUs)
	}
	if c.CPU > 0 {
		requests.put("cpu", fmt.Sprintf("%dm", max(1, c.CPU*1000/1024)))
	}
	if c.MemoryReservation > 0 {
		requests.put("memory", fmt.Sprint(c.MemoryReservation))
	}
	f.add("limits", limits)
	f.add("requests", requests)
	return f
}

func (w *writer) podSecurity(c *taskdef.Container) (f fields) {
	user, group, _ := strings.Cut(c.User, ":")
	for _, id := range []struct{ member, text string }{{"runAsUser", user}, {"runAsGroup", group}} {
		if n, err := strconv.ParseInt(id.text, 10, 64); err == nil {
			f.put(id.member, n)
		} else if id.text != "" {
			w.lose(c, "user", strconv.Quote(id.text)+" is a name, and "+id.member+" is a number", "write the number, or USER in the image")
		}
	}
	f.add("privileged", c.Privileged)
	f.add("readOnlyRootFilesystem", c.ReadonlyRootFS)
	if c.Security.NoNewPrivileges && c.Privileged {
		w.lose(c, "dockerSecurityOptions", "a privileged container of Kubernetes can get new privileges", "remove privileged")
	} else if c.Security.NoNewPrivileges {
		f.put("allowPrivilegeEscalation", false)
	}
	var caps fields
	caps.add("add", c.Linux.CapAdd)
	caps.add("drop", c.Linux.CapDrop)
	f.add("capabilities", caps)
	var labels fields
	for _, label := range c.Security.Labels {
		kind, value, _ := strings.Cut(label, ":")
		if slices.Contains([]string{"user", "role", "type", "level"}, kind) {
			labels.put(kind, value)
		} else {
			w.lose(c, "dockerSecurityOptions", "label:"+label, "")
		}
	}
	f.add("seLinuxOptions", labels)
	return f
}

// podProbe writes the health check: that the container is ready, or if an unhealthy one is restarted, that it lives.
func (w *writer) podProbe(f *fields, c *taskdef.Container) {
	if p := c.Extensions.Probes.Readiness; p != nil && p.Action.HTTP != nil {
		a := p.Action.HTTP
		get := fields{{"port", int(a.Port)}}
		get.add("path", a.Path)
		if a.HTTPS {
			get.put("scheme", "HTTPS")
		}
		f.put("readinessProbe", fields{
			{"httpGet", get}, {"periodSeconds", whole(p.Period)}, {"timeoutSeconds", whole(p.Timeout)}, {"failureThreshold", p.FailureThreshold},
		})
	}
	h := c.HealthCheck
	if h == nil {
		return
	}
	probe := fields{
		{"exec", fields{{"command", words(h.Command)}}}, {"periodSeconds", whole(h.Interval)}, {"timeoutSeconds", whole(h.Timeout)}, {"failureThreshold", h.Retries},
	}
	if h.Action == taskdef.ActionRestart {
		f.put("livenessProbe", probe)
	}
	f.put("readinessProbe", probe)
}

// podMounts writes what is mounted, and declares the volumes of the Pod.
func (w *writer) podMounts(i int, volumes *[]any) (all []any) {
	c := &w.Task.Containers[i]
	mount := func(name, at, subPath string, readOnly bool) {
		f := fields{{"name", name}, {"mountPath", at}}
		f.add("subPath", subPath)
		f.add("readOnly", readOnly)
		all = append(all, f)
	}
	declare := func(name string, f ...field) string {
		declared := append(fields{{"name", name}}, f...)
		if !slices.ContainsFunc(*volumes, func(have any) bool { return have.(fields)[0].value == name }) {
			*volumes = append(*volumes, declared)
		}
		return name
	}
	for _, m := range w.Task.Mounts(i) {
		v, _ := w.Task.Volume(m.Volume)
		name := w.dns("volume", v.Name, v.Name)
		switch v.Kind {
		case taskdef.VolumeBind:
			declare(name, field{"hostPath", fields{{"path", v.HostPath}}})
		case taskdef.VolumeTask:
			declare(name, field{"emptyDir", fields{}})
		case taskdef.VolumeShared:
			declare(name, field{"persistentVolumeClaim", fields{{"claimName", w.claim(v)}}})
		case taskdef.VolumeRemote:
			continue
		}
		mount(name, m.Path, "", m.ReadOnly)
	}
	for k, t := range c.Linux.Tmpfs {
		if len(t.Options) > 0 {
			w.lose(c, "linuxParameters.tmpfs", "the options of "+t.Path, "")
		}
		name := fmt.Sprintf("%s-tmpfs-%d", c.Name, k+1)
		mount(declare(w.dns("volume", name, "tmpfs "+name), field{"emptyDir", fields{{"medium", "Memory"}, {"sizeLimit", fmt.Sprint(t.Size)}}}), t.Path, "", false)
	}
	for k, s := range c.Extensions.SecretFiles {
		name, key := w.secret(c, "x-podtask.secretFiles", base(s.Path), s.SecretValue)
		if s.UID != 0 || s.GID != 0 {
			w.lose(c, "x-podtask.secretFiles", "the owner of "+s.Path, "")
		}
		file := base(s.Path)
		secret := fields{{"secretName", name}, {"items", []any{fields{{"key", key}, {"path", file}, {"mode", s.Mode}}}}}
		volume := fmt.Sprintf("%s-secret-%d", c.Name, k+1)
		mount(declare(w.dns("volume", volume, "secret "+volume), field{"secret", secret}), path.Clean(s.Path), file, true)
	}
	return all
}
