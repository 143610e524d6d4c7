package export

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/podtask/podtask/internal/define/composefile"
	"github.com/podtask/podtask/internal/define/convert"
	"github.com/podtask/podtask/internal/define/convert/compose"
	"github.com/podtask/podtask/internal/define/convert/quadlet"
	"github.com/podtask/podtask/internal/define/members"
	"github.com/podtask/podtask/internal/define/pod"
	"github.com/podtask/podtask/internal/testing/guide"
	"github.com/podtask/podtask/internal/unitfile/taskunit"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

// leaves lists the paths of all values below a type.
func leaves(t reflect.Type, at string) (all []string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8 {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return []string{at}
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			all = append(all, leaves(f.Type, at)...)
			continue
		}
		all = append(all, leaves(f.Type, strings.TrimPrefix(at+"."+name, "."))...)
	}
	return all
}

// TestEveryMemberHasARow: a member of a task without an answer would be left out in silence.
func TestEveryMemberHasARow(t *testing.T) {
	t.Parallel()
	all := leaves(reflect.TypeFor[taskdef.Task](), "")
	for _, member := range all {
		if _, ok := find(member); !ok {
			t.Errorf("%s has no row", member)
		}
	}
	seen := map[string]bool{}
	for _, r := range rows {
		if seen[r.member] {
			t.Errorf("%s has two rows", r.member)
		}
		seen[r.member] = true
		if !slices.ContainsFunc(all, func(m string) bool { return m == r.member || strings.HasPrefix(m, r.member+".") }) {
			t.Errorf("%s is not a member of a task", r.member)
		}
		for _, target := range Targets {
			if a := r.of(target); a.treatment != members.Honored && a.note == "" || a.treatment == members.Lost && r.name == "" && r.member != "extensions.requests" {
				t.Errorf("%s for %s: no reason, or no name", r.member, target)
			}
		}
	}
}

// rich are definitions that have the members of which the guide has no example.
var rich = map[string]string{
	"limits": `{"family":"a_b","memory":"512","cpu":"256","containerDefinitions":[
		{"name":"web","image":"docker.io/library/nginx:1","memory":64,"memoryReservation":32,"cpu":128,"startTimeout":9,"stopTimeout":5,"privileged":true,"interactive":true,"pseudoTerminal":true,"readonlyRootFilesystem":true,
		 "user":"1000:1000","workingDirectory":"/w","entryPoint":["/bin/a","b c"],"command":["x $HOME %h","\"q\"","$$","$(A)","${B}","'"],"dockerLabels":{"a.b":"c d"},
		 "environment":[{"name":"A","value":"$HOME %n \"x\" \\ 'y' #z"},{"name":"E","value":""},{"name":"N","value":"a\nb"}],"dockerSecurityOptions":["no-new-privileges","label:type:container_t"],
		 "linuxParameters":{"capabilities":{"add":["NET_ADMIN"],"drop":["ALL"]},"initProcessEnabled":true,"sharedMemorySize":128,"maxSwap":64,"devices":[{"hostPath":"/dev/null","containerPath":"/dev/n","permissions":["read"]}],"tmpfs":[{"containerPath":"/t","size":8,"mountOptions":["noexec"]}]},
		 "ulimits":[{"name":"nofile","softLimit":100,"hardLimit":200}],"systemControls":[{"namespace":"net.core.somaxconn","value":"100"}],"x-podtask":{"cpuLimit":0.25,"stopSignal":"SIGQUIT"}}]}`,
	"order": `{"family":"order","memory":"512","cpu":"256","containerDefinitions":[
		{"name":"web","image":"i","dependsOn":[{"containerName":"db","condition":"HEALTHY"},{"containerName":"migrate","condition":"SUCCESS"},{"containerName":"side","condition":"START"},{"containerName":"seed","condition":"COMPLETE"}],
		 "portMappings":[{"containerPort":80,"hostPort":8080},{"containerPort":53,"hostPort":5353,"protocol":"udp","x-podtask":{"hostIP":"127.0.0.1"}}],"stopTimeout":10},
		{"name":"db","image":"i","startTimeout":60,"healthCheck":{"command":["CMD-SHELL","true && echo \"$A\" %h"],"interval":7,"timeout":3,"retries":4,"startPeriod":9},"stopTimeout":10},
		{"name":"side","image":"i","essential":false,"healthCheck":{"command":["CMD","true","a b"],"x-podtask":{"action":"restart"}},"restartPolicy":{"enabled":true},"stopTimeout":10},
		{"name":"migrate","image":"i","essential":false,"stopTimeout":10},{"name":"seed","image":"i","essential":false,"stopTimeout":10}]}`,
	"storage": `{"family":"storage","volumes":[{"name":"data","dockerVolumeConfiguration":{"scope":"shared","autoprovision":true}},{"name":"old","dockerVolumeConfiguration":{"scope":"shared"}},
		{"name":"nfs","dockerVolumeConfiguration":{"scope":"shared","autoprovision":true,"driverOpts":{"type":"tmpfs","device":"tmpfs","o":"size=1m"},"labels":{"a":"b c"}}},
		{"name":"path","host":{"sourcePath":"/srv/a"},"x-podtask":{"selinuxRelabel":"shared"}},{"name":"own"}],
		"containerDefinitions":[{"name":"web","image":"i","mountPoints":[{"sourceVolume":"data","containerPath":"/data"},{"sourceVolume":"old","containerPath":"/old"},{"sourceVolume":"nfs","containerPath":"/nfs"},{"sourceVolume":"path","containerPath":"/a","readOnly":true},{"sourceVolume":"own","containerPath":"/own"}]},
		{"name":"two","image":"i","volumesFrom":[{"sourceContainer":"web","readOnly":true}]}]}`,
	"secrets": `{"family":"secrets","containerDefinitions":[{"name":"web","image":"i","secrets":[{"name":"P","valueFrom":"podman:p"}],"environmentFiles":[{"type":"s3","value":"/etc/a.env"},{"type":"s3","value":"/etc/b.env"}],
		"x-podtask":{"secretFiles":[{"path":"/run/x","valueFrom":"podman:x","mode":"0440","uid":1,"gid":2}]}},{"name":"b","image":"i","secrets":[{"name":"Q","valueFrom":"podman:q"}]}]}`,
	"network": `{"family":"network","containerDefinitions":[{"name":"web","image":"i","dockerSecurityOptions":["no-new-privileges"],"links":["db:sql"],"hostname":"box","extraHosts":[{"hostname":"a","ipAddress":"10.0.0.1"}],"dnsServers":["10.0.0.2"],"dnsSearchDomains":["x.org"]},{"name":"db","image":"i"}]}`,
	"host":    `{"family":"host","networkMode":"host","pidMode":"host","ipcMode":"host","containerDefinitions":[{"name":"web","image":"i"}]}`,
	"joined":  `{"family":"joined","x-podtask":{"network":"net1"},"containerDefinitions":[{"name":"web","image":"i"}]}`,
	"restart": `{"family":"restart","x-podtask":{"timeout":60,"stopWhenUnhealthy":true},"containerDefinitions":[{"name":"web","image":"i","logConfiguration":{"logDriver":"json-file","options":{"max-size":"1m"}},
		"healthCheck":{"command":["CMD-SHELL","x"]},"restartPolicy":{"enabled":true,"ignoredExitCodes":[0],"x-podtask":{"backOff":1,"maxCount":3}}}]}`,
	"range":   `{"family":"range","containerDefinitions":[{"name":"web","image":"i","portMappings":[{"containerPort":80,"x-podtask":{"hostPortRange":"8000-8010"}}],"x-podtask":{"imageHealthCheck":true,"emptyCommand":true}}]}`,
	"empty":   `{"family":"empty","containerDefinitions":[{"name":"web","image":"i","entryPoint":[""],"command":["a"]},{"name":"b","image":"i","dependsOn":[{"containerName":"web","condition":"START"}],"disableNetworking":true}]}`,
	"fargate": `{"family":"fargate","networkMode":"awsvpc","runtimePlatform":{"cpuArchitecture":"ARM64"},"containerDefinitions":[{"name":"web","image":"i","portMappings":[{"containerPort":8080}]},{"name":"b","image":"i","dependsOn":[{"containerName":"web","condition":"START"}]}]}`,
}

// definitions returns all tasks of the guide that can be read, and the rich ones.
func definitions(t testing.TB) map[string]taskdef.Task {
	t.Helper()
	out := map[string]taskdef.Task{}
	entries, err := guide.Files.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	settings := taskdef.Settings{Vars: map[string]string{"IMAGE1_NAME": "i"}, Without: []string{"credentialSpecs"}}
	for _, e := range entries {
		src, err := guide.Files.ReadFile(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		if task, report, err := settings.Parse(e.Name(), src); err == nil && len(report.Needs) == 0 {
			out[strings.TrimSuffix(e.Name(), ".json")] = task
		}
	}
	all := maps.Clone(rich)
	all["health"] = healthByHTTP
	for name, src := range all {
		task, report, err := taskdef.Parse(name, []byte(src))
		if err != nil || len(report.Needs) > 0 {
			t.Fatalf("%s: %v %v", name, err, report.Needs)
		}
		out[name] = task
	}
	return out
}

// yamlOf is the text of documents.
func yamlOf(t testing.TB, docs []any) []byte {
	t.Helper()
	var out bytes.Buffer
	for _, d := range docs {
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := yaml.Unmarshal(text, &v); err != nil {
			t.Fatal(err)
		}
		doc, err := yaml.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("---\n")
		out.Write(doc)
	}
	return out.Bytes()
}

// back imports what was written for a target. Unit is the text of the unit beside the definition.
func back(t testing.TB, target Target, name string, r Result) (task taskdef.Task, unit string) {
	t.Helper()
	var result convert.Result
	var err error
	switch target {
	case Quadlet:
		var files []taskunit.File
		for _, f := range r.Files {
			files = append(files, taskunit.Read("/q/"+f.Name, f.Text))
		}
		result, err = quadlet.Convert(name, files, quadlet.Manager{User: "u", Home: "/home/u"})
	case Compose:
		src := yamlOf(t, r.Files[0].Documents)
		result, err = compose.Convert("/q/compose.yaml", name, src, compose.Options{Load: composefile.Load, Lookup: func(name string) (string, bool) { return "value", !strings.HasPrefix(name, "COMPOSE_") }})
	case Kubernetes:
		got, _, err := pod.Parse("pod.yaml", yamlOf(t, r.Files[0].Documents), pod.Options{})
		if err != nil {
			t.Fatalf("%v\n%s", err, yamlOf(t, r.Files[0].Documents))
		}
		return got.Task, ""
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, textOf(t, r))
	}
	task, _, err = taskdef.Parse(name, result.Definition)
	if err != nil {
		t.Fatal(err)
	}
	return task, result.Unit
}

func textOf(t testing.TB, r Result) string {
	var b strings.Builder
	for _, f := range r.Files {
		fmt.Fprintf(&b, "---%s---\n%s%s\n", f.Name, f.Text, yamlOf(t, f.Documents))
	}
	return b.String()
}

// elsewhere are members that the importer of a target puts into the unit, or makes of something else, each with the reason.
var elsewhere = map[Target]map[string]string{
	Quadlet: {
		"containers.secrets": "the unit of a container that is alone has Secret=", "containers.extensions.secretFiles": "likewise", "containers.environmentFiles": "likewise",
		"containers.restart": "the unit has Restart=", "networkMode": "the unit has Network=", "extensions.network": "the unit has Network=, and containers of a pod share one", "containers.startTimeout": "the unit has TimeoutStartSec=",
		"platform": "an argument of podman", "containers.healthCheck.action": "HealthOnFailure= stops the task, or restarts the container", "containers.linux.gpus": "", "extensions.stopWhenUnhealthy": "it follows from HealthOnFailure=",
		"containers.net.links": "they are lines of the hosts file", "containers.net.hostname": "one for all", "containers.extensions.imageHealthCheck": "Podman uses it always", "cpu": "of a container that is alone, its own", "memory": "likewise",
		"containers.essential": "a container that nothing waits for to end is essential", "containers.log": "k8s-file", "containers.dependsOn": "START of what is waited for with other conditions too",
		"extensions.pull": "the unit has Pull=",
	},
	Compose: {
		"platform": "the importer says that podtask has that of the host", "containers.essential": "a service that nothing waits for to complete is essential", "containers.secrets": "variables of the environment",
		"containers.healthCheck.action": "", "extensions.network": "the network of the project", "networkMode": "the importer makes bridge of a shared network", "containers.dependsOn": "network_mode adds START", "containers.restart": "pauses",
		"containers.net.links": "the importer makes links of aliases where the order allows it", "containers.ports": "those of a shared network are at its owner", "containers.net.disabled": "the importer has one network for all",
		"containers.linux.gpus": "", "extensions.stopWhenUnhealthy": "", "containers.extensions.imageHealthCheck": "Compose uses it always",
	},
	Kubernetes: {
		"networkMode": "a Pod shares a network", "extensions.network": "likewise", "containers.healthCheck": "it is a probe", "containers.secrets": "the values of the Secrets are to be given", "containers.extensions.secretFiles": "likewise",
		"containers.restart": "the policy of the Pod", "containers.essential": "all containers of a Pod are", "containers.dependsOn": "init containers run one by one", "containers.net": "lines of the hosts file, and the host name of the Pod",
		"platform": "a selector of nodes", "containers.linux.sysctls": "of the Pod, for all its containers", "volumes": "a claim is mapped by --map-volume", "containers.mounts": "likewise", "containers.linux.tmpfs": "a volume in memory",
		"containers.labels": "those of the Pod", "containers.cpu": "requests count at least 2 units", "containers.linux.maxSwap": "", "pidMode": "", "containers.extensions.kube": "fields of the Pod",
		"extensions.deadline": "", "containers.security.labels": "", "containers.linux.ulimits": "", "extensions.requests": "sums", "containers.linux.gpus": "", "containers.unpinned": "",
	},
}

// isElsewhere reports whether a member is compared in another way.
func isElsewhere(target Target, member string) bool {
	for prefix := range elsewhere[target] {
		if member == prefix || strings.HasPrefix(member, prefix+".") {
			return true
		}
	}
	return false
}

// alike brings a task into a form in which it can be compared after a way there and back.
func alike(target Target, task taskdef.Task, name string) taskdef.Task {
	t := task
	t.Family = ""
	sources := alikeVolumes(target, &t, name)
	servers, search := t.DNS()
	t.Containers = nil
	var ports []taskdef.Port
	var hosts []taskdef.Host
	var used []string
	for i, c := range task.Containers {
		c.Image, c.Name = image(c.Image), strings.TrimPrefix(c.Name, name+"-")
		if len(task.Containers) == 1 {
			c.Name = "only"
			c.Memory, c.Extensions.CPULimit, t.Memory, t.CPU = cmp.Or(c.Memory, t.Memory), cmp.Or(c.Extensions.CPULimit, t.CPU), 0, 0
		}
		c.Mounts, c.VolumesFrom = nil, nil
		for _, m := range task.Mounts(i) {
			m.Volume = sources[m.Volume]
			used = append(used, m.Volume)
			c.Mounts = append(c.Mounts, m)
		}
		ports = append(ports, alikePorts(target, c.Ports)...)
		c.Ports = nil
		for _, h := range c.Net.ExtraHosts {
			if h.Address != "127.0.0.1" {
				hosts = append(hosts, h)
			}
		}
		c.Net.ExtraHosts = nil
		if target != Compose {
			c.Net = taskdef.ContainerNetwork{DNSServers: servers, DNSSearch: search}
		}
		slices.SortFunc(c.Environment, func(a, b taskdef.EnvVar) int { return strings.Compare(a.Name, b.Name) })
		slices.SortFunc(c.DependsOn, func(a, b taskdef.Dependency) int { return a.Container - b.Container })
		t.Containers = append(t.Containers, withoutTold(target, task, c))
	}
	t.Volumes = slices.DeleteFunc(t.Volumes, func(v taskdef.Volume) bool { return !slices.Contains(used, v.Name) })
	slices.SortFunc(ports, func(a, b taskdef.Port) int { return int(a.ContainerPort) - int(b.ContainerPort) })
	slices.SortFunc(hosts, func(a, b taskdef.Host) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(t.Containers, func(a, b taskdef.Container) int { return strings.Compare(a.Name, b.Name) })
	t.Containers[0].Ports, t.Containers[0].Net.ExtraHosts = ports, slices.Compact(hosts)
	return t
}

// alikeVolumes gives volumes names by which those of two tasks can be compared, and returns these by the names before.
func alikeVolumes(target Target, t *taskdef.Task, name string) map[string]string {
	sources := map[string]string{}
	var all []taskdef.Volume
	for _, v := range t.Volumes {
		to := v.Name
		switch v.Kind {
		case taskdef.VolumeBind:
			to = "path" + strings.ReplaceAll(v.HostPath, "/", "-")
		case taskdef.VolumeTask:
			v.Kind, v.Autoprovision, to = taskdef.VolumeShared, true, strings.ReplaceAll(name, "_", "-")+"-"+v.Name
		}
		to = strings.TrimPrefix(strings.TrimPrefix(to, projectName(name)+"_"), name+"_")
		v.Autoprovision = v.Autoprovision || target == Quadlet
		sources[v.Name] = to
		v.Name, v.Driver = to, ""
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b taskdef.Volume) int { return strings.Compare(a.Name, b.Name) })
	t.Volumes = slices.CompactFunc(all, func(a, b taskdef.Volume) bool { return a.Name == b.Name })
	return sources
}

// alikePorts divides ranges, and leaves out ports that are told.
func alikePorts(target Target, ports []taskdef.Port) (all []taskdef.Port) {
	for _, p := range ports {
		for k := range p.Count() {
			one := p
			one.ContainerPort, one.ContainerPortEnd, one.Name, one.AWSVPCHostPort = p.ContainerPort+uint16(k), 0, "", 0
			if p.AWSVPCHostPort >= 1024 {
				one.HostPort = p.AWSVPCHostPort
			}
			if target == Quadlet {
				one.AnyOf = taskdef.PortSpan{}
			}
			if target != Kubernetes || one.HostPort != 0 {
				all = append(all, one)
			}
		}
	}
	return all
}

// withoutTold leaves out of a container values that a writer tells as lost.
func withoutTold(target Target, task taskdef.Task, c taskdef.Container) taskdef.Container {
	if c.Log != nil && c.Log.Driver == logdriver.FireLens {
		c.Log = nil
	}
	if target != Kubernetes {
		return c
	}
	c.Security.NoNewPrivileges = c.Security.NoNewPrivileges && !c.Privileged
	for _, other := range task.Containers {
		c.StopTimeout = max(c.StopTimeout, other.StopTimeout)
	}
	if len(c.EntryPoint) == 1 && c.EntryPoint[0] == "" {
		c.EntryPoint, c.Command = c.Command, nil // the same without an entry point
	}
	return c
}

// values lists the values of each member of a task, as JSON.
func values(v reflect.Value, at string, out map[string][]string) {
	switch {
	case v.Kind() == reflect.Pointer:
		if !v.IsNil() {
			values(v.Elem(), at, out)
		}
		return
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8 && leavesOf(v.Type().Elem()):
		for i := range v.Len() {
			values(v.Index(i), at, out)
		}
		return
	case v.Kind() != reflect.Struct:
		text, _ := json.Marshal(v.Interface())
		out[at] = append(out[at], string(text))
		return
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			values(v.Field(i), at, out)
		} else {
			values(v.Field(i), strings.TrimPrefix(at+"."+name, "."), out)
		}
	}
}

func leavesOf(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct
}

// TestThereAndBack: what the table calls honored is the same after the files were imported again, and each such row has a definition
// in which it says something.
func TestThereAndBack(t *testing.T) {
	t.Parallel()
	all := definitions(t)
	for _, target := range Targets {
		t.Run(string(target), func(t *testing.T) {
			t.Parallel()
			tried := map[string]bool{}
			for name, task := range all {
				if target == Kubernetes && strings.Contains(name, "gpu") {
					continue // podtask allocates no devices of a cluster
				}
				r, err := Write(target, Source{Name: task.Family, Task: task})
				if err != nil {
					t.Fatal(err)
				}
				again, _ := back(t, target, task.Family, r)
				before, after := map[string][]string{}, map[string][]string{}
				values(reflect.ValueOf(alike(target, task, task.Family)), "", before)
				values(reflect.ValueOf(alike(target, again, task.Family)), "", after)
				for member, want := range before {
					row, _ := find(member)
					if row.of(target).treatment != members.Honored {
						continue
					}
					if says(want) {
						tried[row.member] = true
					}
					if got := after[member]; !isElsewhere(target, member) && !slices.Equal(got, want) {
						t.Errorf("%s: %s: %q became %q\n%s", name, member, want, got, textOf(t, r))
					}
				}
			}
			for _, r := range rows {
				if a := r.of(target); a.treatment == members.Honored && !tried[r.member] && !isElsewhere(target, r.member) && !ofPods(r.member) {
					t.Errorf("no definition says something by %s", r.member)
				}
			}
		})
	}
}

// says reports whether one of the values is not empty.
func says(values []string) bool {
	return slices.ContainsFunc(values, func(v string) bool {
		return !slices.Contains([]string{"null", `""`, "[]", "{}", "false", "0"}, v)
	})
}

// ofPods reports whether only a task that was made from a Pod has a member, or one that Parse never sets.
func ofPods(member string) bool {
	return slices.Contains([]string{"extensions.pod", "extensions.pull", "containers.extensions.kube.groups", "containers.extensions.kube.pull", "containers.net.dnsOptions", "volumes.empty", "volumes.external", "family", "containers.volumesFrom", "volumes.driver"}, member)
}

// What is lost is told, with the container, a reason and, where there is one, a remedy.
func TestLost(t *testing.T) {
	t.Parallel()
	task := definitions(t)["limits"]
	for target, want := range map[Target]string{
		Quadlet:    "",
		Compose:    "web: startTimeout: what waits for the container waits for ever",
		Kubernetes: "web: dockerLabels: a container of a Pod has no labels; write them as labels or annotations of the Pod",
	} {
		r, err := Write(target, Source{Name: "a_b", Task: task})
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, l := range r.Lost {
			lines = append(lines, l.String())
		}
		if text := strings.Join(lines, "\n"); !strings.Contains(text, want) || want == "" && text != "" {
			t.Errorf("%s: no %q in:\n%s", target, want, text)
		}
	}
}

// A service of Kubernetes is a Deployment with a Service, and one of Compose has replicas.
func TestCopies(t *testing.T) {
	t.Parallel()
	task, _, err := taskdef.Parse("web", []byte(`{"family":"web","containerDefinitions":[{"name":"web","image":"i","portMappings":[{"containerPort":80}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for target, want := range map[Target]string{Kubernetes: "kind: Deployment(.|\n)*replicas: 3(.|\n)*kind: Service(.|\n)*targetPort: 80", Compose: "replicas: 3", Quadlet: "ContainerName=web"} {
		r, err := Write(target, Source{Name: "web", Task: task, Copies: 3})
		if err != nil || !regexp.MustCompile(want).MatchString(textOf(t, r)) {
			t.Errorf("%s: %v\n%s", target, err, textOf(t, r))
		}
		if lost := len(r.Lost) > 0; lost != (target == Quadlet) {
			t.Errorf("%s: %v", target, r.Lost)
		}
	}
}

// A task that was made from a manifest gives that manifest.
func TestManifest(t *testing.T) {
	t.Parallel()
	got, _, err := pod.Load(taskdef.ReadSource("p.yaml", []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: a, image: i, startupProbe: {tcpSocket: {port: 80}}}]}\n")), taskdef.Settings{}, pod.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Write(Kubernetes, Source{Name: "p", Task: got.Task})
	if err != nil || len(r.Lost) > 0 || !strings.Contains(textOf(t, r), "startupProbe") {
		t.Errorf("%v %v\n%s", err, r.Lost, textOf(t, r))
	}
	if r, err := Write(Compose, Source{Name: "p", Task: got.Task}); err != nil || !slices.ContainsFunc(r.Lost, func(l Loss) bool { return l.Member == "x-podtask.httpHealthCheck" }) {
		t.Errorf("%v %v", err, r.Lost)
	}
}

// healthByHTTP is not rich: Quadlet and Compose lose its check whatever it says.
const healthByHTTP = `{"family":"health","containerDefinitions":[{"name":"web","image":"i","x-podtask":{"httpHealthCheck":"https://localhost:8443/ping?a=b"}}]}`

// A health check by HTTP is a probe in Kubernetes; Quadlet and Compose have none.
func TestHTTPHealthCheck(t *testing.T) {
	t.Parallel()
	task, _, err := taskdef.Parse("f", []byte(healthByHTTP))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Write(Kubernetes, Source{Name: "health", Task: task})
	if text := textOf(t, r); err != nil || len(r.Lost) > 0 || !strings.Contains(strings.Join(strings.Fields(text), " "), "httpGet: path: /ping?a=b port: 8443 scheme: HTTPS") {
		t.Errorf("%v %v\n%s", err, r.Lost, text)
	}
	for _, target := range []Target{Quadlet, Compose} {
		if r, err := Write(target, Source{Name: "health", Task: task}); err != nil || !slices.ContainsFunc(r.Lost, func(l Loss) bool { return l.Member == "x-podtask.httpHealthCheck" }) {
			t.Errorf("%v %v", err, r.Lost)
		}
	}
}

// FuzzWrite: whatever a definition has, the files of Quadlet and Compose can be read by the importers.
func FuzzWrite(f *testing.F) {
	for _, src := range rich {
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src string) {
		task, report, err := taskdef.Parse("f", []byte(src))
		if err != nil || len(report.Needs) > 0 {
			return
		}
		for _, target := range Targets {
			r, err := Write(target, Source{Name: task.Family, Task: task})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range r.Files {
				if path.Base(f.Name) != f.Name {
					t.Errorf("%q is not the name of a file", f.Name)
				}
				for line := range strings.SplitSeq(f.Text, "\n") {
					if line != "" && line[0] != '[' && !strings.Contains(line, "=") {
						t.Errorf("the line %q of %s is no assignment", line, f.Name)
					}
				}
			}
		}
	})
}

// Texts of a definition stay texts: they add no keys to a unit, and variables stay as they are written.
func TestTextsAddNothing(t *testing.T) {
	t.Parallel()
	task, _, err := taskdef.Parse("web", []byte(`{"family":"web","volumes":[{"name":"v","host":{"sourcePath":"/srv"}}],"containerDefinitions":[{"name":"web","image":"i",
		"command":["x\nExecStartPre=/bin/evil","$(A) $B %n"],"environment":[{"name":"A","value":"a\n[Service]\nExecStartPre=/bin/evil"}],
		"dockerLabels":{"l\nk":"v\nPodmanArgs=--privileged"},"mountPoints":[{"sourceVolume":"v","containerPath":"/d:x"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	unit, err := Write(Quadlet, Source{Name: "web", Task: task})
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(unit.Files[0].Text) {
		if strings.HasPrefix(line, "ExecStartPre=") || strings.HasPrefix(line, "PodmanArgs=") || strings.HasPrefix(line, "Volume=") || strings.HasPrefix(line, "[Service]") {
			t.Errorf("the unit has %s", line)
		}
	}
	if len(unit.Lost) != 1 || !strings.Contains(unit.Lost[0].String(), `"/d:x"`) || !strings.Contains(unit.Files[0].Text, "$$(A) $$B %%n") {
		t.Errorf("%v\n%s", unit.Lost, unit.Files[0].Text)
	}
	manifest, err := Write(Kubernetes, Source{Name: "web", Task: task})
	if err != nil || !strings.Contains(textOf(t, manifest), "$$(A) $B %n") {
		t.Errorf("%v\n%s", err, textOf(t, manifest))
	}
}

// find returns the row that covers a member.
func find(member string) (row, bool) {
	for path := member; path != ""; {
		for _, r := range rows {
			if r.member == path {
				return r, true
			}
		}
		i := strings.LastIndexByte(path, '.')
		path = path[:max(i, 0)]
	}
	return row{}, false
}
