package pod

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/internal/define/members"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/refs"
)

// ofJob is a Job with members of its spec and of that of its Pod.
func ofJob(spec, podSpec string) string {
	return "{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {" + spec + "template: {spec: {" + podSpec + "}}}}"
}

func parseText(src string) (Result, taskdef.Report, error) {
	return Parse("f", []byte("---\n"+src), Options{})
}

func TestTriesOfAJob(t *testing.T) {
	t.Parallel()
	const one, two = "containers: [{name: c, image: x}]", "containers: [{name: c, image: x}, {name: d, image: x}]"
	const once = -1 // the container is not started again
	for _, tt := range []struct {
		spec, pod string
		restarts  int
		warns     bool
	}{
		{"", "restartPolicy: OnFailure, " + one, 6, false},
		{"backoffLimit: 1, ", "restartPolicy: OnFailure, " + one, 1, false},
		{"backoffLimit: 0, ", "restartPolicy: OnFailure, " + one, once, false},
		{"backoffLimit: 2, ", "restartPolicy: Never, " + one, 2, false},
		{"backoffLimit: 0, ", "restartPolicy: Never, " + two, once, false},
		{"backoffLimit: 2, ", "restartPolicy: Never, " + two, once, true},
		{"backoffLimit: 2, ", "restartPolicy: OnFailure, " + two, 2, false},
		{"completions: 1, completionMode: Indexed, backoffLimitPerIndex: 3, ", "restartPolicy: Never, " + one, 3, false},
	} {
		r, report, err := parseText(ofJob(tt.spec, tt.pod))
		if err != nil || len(report.Warnings) > 0 != tt.warns {
			t.Errorf("%s%s: %v, %v", tt.spec, tt.pod, err, report.Warnings)
			continue
		}
		restarts := once
		if p := r.Task.Containers[0].Restart; p != nil {
			restarts = p.MaxCount
		}
		if restarts != tt.restarts || r.Task.Extensions.FailAtOnce != strings.Contains(tt.pod, "OnFailure") {
			t.Errorf("%s%s: %d restarts, %+v", tt.spec, tt.pod, restarts, r.Task.Extensions)
		}
	}
}

func TestDeadlineOfAJob(t *testing.T) {
	t.Parallel()
	for pod, want := range map[string]time.Duration{"": 4 * time.Second, "activeDeadlineSeconds: 2, ": 2 * time.Second, "activeDeadlineSeconds: 9, ": 4 * time.Second} {
		r, report, err := parseText(ofJob("activeDeadlineSeconds: 4, ", pod+"restartPolicy: Never, containers: [{name: c, image: x}]"))
		if err != nil || len(report.Warnings) > 0 || r.Task.Extensions.Deadline != want {
			t.Errorf("%s: %v, %v, %s", pod, err, report.Warnings, r.Task.Extensions.Deadline)
		}
	}
}

// A Job that asks for more or less than one run of one Pod is refused by name, also below a CronJob.
func TestJobsThatAreRefused(t *testing.T) {
	t.Parallel()
	const pod = "restartPolicy: Never, containers: [{name: c, image: x}]"
	for spec, want := range map[string]string{
		"completions: 3, ": "/completions", "completions: 0, ": "/completions", "parallelism: 2, ": "/parallelism", "parallelism: 0, ": "/parallelism",
		"suspend: true, ": "/suspend", "completionMode: Indexed, ": "/completionMode", "completionMode: Indexed, completions: 2, ": "/completions",
		"podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [1]}}]}, ": "/podFailurePolicy",
		"successPolicy: {rules: [{succeededCount: 1}]}, ":                                            "/successPolicy", "backoffLimitPerIndex: 1, ": "/backoffLimitPerIndex",
	} {
		for place, src := range map[string]string{
			"/spec":                  ofJob(spec, pod),
			"/spec/jobTemplate/spec": "{apiVersion: batch/v1, kind: CronJob, metadata: {name: j}, spec: {schedule: '0 3 * * *', jobTemplate: {spec: {" + spec + "template: {spec: {" + pod + "}}}}}}",
		} {
			_, _, err := parseText(src)
			if err == nil || !strings.Contains(err.Error(), place+want+": ") || strings.Count(err.Error(), "f:") != 1 {
				t.Errorf("%s at %s: %v", spec, place, err)
			}
		}
	}
	for _, spec := range []string{"completions: 1, parallelism: 4, ", "parallelism: 1, ", "suspend: false, "} {
		if _, report, err := parseText(ofJob(spec, pod)); err != nil || len(report.Warnings) > 0 {
			t.Errorf("%s: %v, %v", spec, err, report.Warnings)
		}
	}
	for _, policy := range []string{"", "restartPolicy: Always, "} {
		if _, _, err := parseText(ofJob("", policy+"containers: [{name: c, image: x}]")); err == nil || !strings.Contains(err.Error(), "OnFailure or Never") {
			t.Errorf("%q: %v", policy, err)
		}
	}
}

func TestIndexOfAJob(t *testing.T) {
	t.Parallel()
	r, report, err := parseText(ofJob("completions: 1, completionMode: Indexed, ", "restartPolicy: Never, initContainers: [{name: i, image: x}], containers: [{name: c, image: x, args: ['$(JOB_COMPLETION_INDEX)'], env: [{name: A, value: b}]}]"))
	if err != nil || len(report.Warnings) > 0 {
		t.Fatal(err, report.Warnings)
	}
	for _, c := range r.Task.Containers {
		if c.Net.Hostname != "j-0" || len(c.Environment) == 0 || c.Environment[0] != (taskdef.EnvVar{Name: "JOB_COMPLETION_INDEX", Value: "0"}) {
			t.Errorf("%s: %q, %v", c.Name, c.Net.Hostname, c.Environment)
		}
	}
	if c := r.Task.Containers[1]; c.Command[0] != "0" || c.Labels[labelJobIndex] != "0" {
		t.Errorf("%+v", c)
	}
}

func TestPodsOfAStatefulSetAreNumbered(t *testing.T) {
	t.Parallel()
	src := `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: my.sql, namespace: db}, spec: {serviceName: mysql, ordinals: {start: 5}, selector: {matchLabels: {a: b}},
		template: {metadata: {labels: {a: b}}, spec: {hostname: other, containers: [{name: c, image: x, volumeMounts: [{name: data, mountPath: /d}],
			env: [{name: I, valueFrom: {fieldRef: {fieldPath: "metadata.labels['apps.kubernetes.io/pod-index']"}}}, {name: N, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}]}},
		volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce]}}]}}`
	for _, volume := range []string{"data", "data-my.sql-5"} {
		r, _, err := Parse("f", []byte("---\n"+src), Options{Refs: volumeAt(volume)})
		if err != nil {
			t.Fatal(err)
		}
		c := r.Task.Containers[0]
		got := []string{r.Pod.Name, r.Task.Family, c.Net.Hostname, c.Environment[0].Value, c.Environment[1].Value, c.Labels[labelPodName], r.Task.Volumes[0].HostPath}
		if diff := cmp.Diff([]string{"my.sql-5", "my_sql", "my.sql-5", "5", "my.sql-5", "my.sql-5", "/srv/data"}, got); diff != "" {
			t.Error(diff)
		}
		if !slices.Contains(c.Net.ExtraHosts, taskdef.Host{Name: "my.sql-5.mysql", Address: "127.0.0.1"}) {
			t.Error(c.Net.ExtraHosts)
		}
	}
}

// The Pods of a StatefulSet differ by their number, and none gets the storage of another.
func TestCopiesOfAStatefulSet(t *testing.T) {
	t.Parallel()
	const src = `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db}, spec: {serviceName: db, podManagementPolicy: Parallel, ordinals: {start: 3}, selector: {matchLabels: {a: b}},
		template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: x, volumeMounts: [{name: data, mountPath: /d}]}]}},
		volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce]}}]}}`
	given := slices.Concat(volumeAt("data"), refs.Table{{Match: "volume:data-db-4", Source: "file:/srv/4"}})
	for i, want := range []string{"db-3 /srv/data", "db-4 /srv/4", ""} {
		r, report, err := Parse("f", []byte(src), Options{Refs: given, Copy: i})
		if err != nil || r.Numbered == nil || *r.Numbered != (Numbered{First: 3, Parallel: true}) {
			t.Fatal(r.Numbered, err)
		}
		if want == "" {
			if len(report.Needs) != 1 || !strings.Contains(report.Needs[0].Fix, "--map-volume data-db-5=PATH") {
				t.Errorf("the third Pod needs %v", report.Needs)
			}
			continue
		}
		c := r.Task.Containers[0]
		if got := c.Net.Hostname + " " + r.Task.Volumes[0].HostPath; got != want || c.Labels[labelPodName] != r.Pod.Name || c.Mounts[0].Volume != "data" {
			t.Errorf("copy %d: %s, want %s; %v, %v", i, got, want, c.Labels, c.Mounts)
		}
	}
}

func TestReplicasAreTold(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"Deployment", "ReplicaSet", "StatefulSet"} {
		for n, warned := range map[int]bool{0: true, 1: false, 3: true} {
			_, report, err := parseText(fmt.Sprintf("{apiVersion: apps/v1, kind: %s, metadata: {name: d}, spec: {replicas: %d, template: {spec: {containers: [{name: c, image: x}]}}}}", kind, n))
			told := slices.ContainsFunc(report.Warnings, func(p taskdef.Problem) bool { return p.Pointer == "/spec/replicas" })
			if err != nil || told != warned {
				t.Errorf("%s, %d: %v, %v", kind, n, err, report.Warnings)
			}
		}
	}
}

// The number of copies is that of a service.
func TestCopiesOfAService(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{"Deployment": "3", "ReplicaSet": "3", "StatefulSet": "3"} {
		r, _, err := parseText(fmt.Sprintf("{apiVersion: apps/v1, kind: %s, metadata: {name: d}, spec: {replicas: 3, template: {spec: {containers: [{name: c, image: x}]}}}}", kind))
		got := "none"
		if r.Replicas != nil {
			got = fmt.Sprint(*r.Replicas)
		}
		if err != nil || got != want {
			t.Errorf("%s: %s, %v", kind, got, err)
		}
	}
	r, _, err := parseText("{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {template: {spec: {containers: [{name: c, image: x}]}}}}")
	if err != nil || r.Replicas != nil {
		t.Errorf("%v, %v", r.Replicas, err)
	}
}

func TestHooksOfHelmAreLeftOut(t *testing.T) {
	t.Parallel()
	const deployment = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {template: {spec: {containers: [{name: c, image: x}]}}}}"
	const hook = "{apiVersion: v1, kind: Pod, metadata: {name: h, annotations: {helm.sh/hook: test}}, spec: {restartPolicy: Never, containers: [{name: h, image: y}]}}"
	for _, src := range []string{deployment + "\n---\n" + hook, hook + "\n---\n" + deployment} {
		r, report, err := parseText(src)
		if err != nil || r.Pod.Name != "d" || !slices.ContainsFunc(report.Warnings, func(p taskdef.Problem) bool { return strings.Contains(p.Message, `the Pod "h" is left out`) }) {
			t.Errorf("%v, %s, %v", err, r.Pod.Name, report.Warnings)
		}
	}
	if r, _, err := parseText(hook); err != nil || r.Pod.Name != "h" {
		t.Errorf("alone: %v", err)
	}
}

// TestEveryAnnotationOfPodmanHasARule enumerates the constants of Podman's module.
func TestEveryAnnotationOfPodmanHasARule(t *testing.T) {
	t.Parallel()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/containers/podman/v5").Output()
	if err != nil {
		t.Skip(err)
	}
	root, quoted := strings.TrimSpace(string(dir)), regexp.MustCompile(`"(io\.podman\.annotations\.[a-zA-Z.\-]+|io\.containers\.[a-z.]+|run\.oci\.[a-z_]+)"`)
	n := 0
	for _, path := range []string{"libpod/define/annotations.go", "libpod/define/autoupdate.go", "pkg/systemd/notifyproxy/notifyproxy.go", "libpod/define/container.go", "pkg/domain/infra/abi/play.go", "pkg/autoupdate/autoupdate.go"} {
		src, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			continue
		}
		for _, m := range quoted.FindAllSubmatch(src, -1) {
			n++
			if _, known := annotationTable()[string(m[1])]; !known {
				t.Errorf("%s of %s has no row", m[1], path)
			}
		}
	}
	if n < 35 {
		t.Errorf("only %d annotations found: have the files moved?", n)
	}
	for _, r := range annotationRules {
		if r.note == "" && r.treatment != honored {
			t.Errorf("%s has no note", r.member)
		}
	}
}

func TestAnnotationsOfKubePlay(t *testing.T) {
	t.Parallel()
	read := func(annotations string) (taskdef.Task, []taskdef.Problem, error) {
		r, report, err := parseText("{apiVersion: v1, kind: Pod, metadata: {name: p, annotations: {" + annotations + "}}, spec: {containers: [{name: c, image: x}, {name: d, image: x}]}}")
		return r.Task, report.Warnings, err
	}
	task, warnings, err := read("io.podman.annotations.ulimit: 'nofile=512:1024,nproc=7', io.podman.annotations.init/c: 'TRUE'")
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	want := []taskdef.Ulimit{{Name: "nofile", Soft: 512, Hard: 1024}, {Name: "nproc", Soft: 7, Hard: 7}}
	for i, c := range task.Containers {
		if diff := cmp.Diff(want, c.Linux.Ulimits); diff != "" || c.Init != (i == 0) {
			t.Errorf("%s: %s, init %v", c.Name, diff, c.Init)
		}
	}
	for text, bad := range map[string]bool{"io.podman.annotations.ulimit: nofile": true, "io.podman.annotations.userns: keep-id": false, "io.podman.annotations.pids-limit/c: '5'": false, "io.podman.annotations.new: x": false, "io.containers.autoupdate/c: registry": false} {
		if _, warnings, err := read(text); (err != nil) != bad || !bad && len(warnings) != 1 {
			t.Errorf("%s: %v, %v", text, err, warnings)
		}
	}
	if _, warnings, err := read("io.podman.annotations.userns: host, io.podman.annotations.autoremove/c: 'FALSE', example.com/x: y"); err != nil || len(warnings) > 0 {
		t.Errorf("%v, %v", err, warnings)
	}
}

func TestNamesOfPorts(t *testing.T) {
	t.Parallel()
	for name, good := range map[string]bool{
		"http": true, "a": true, "x-1": true, "1a": true, "my_p": false, "8080": false, "Http": false, "a--b": false, "-a": false, "a-": false, "''": false, "abcdefghijklmnop": false, "abcdefghijklmno": true, "1-2": false,
	} {
		_, _, err := parsed(t, "{containers: [{name: c, image: x, ports: [{name: "+map[bool]string{true: "'" + name + "'", false: "'" + strings.Trim(name, "'") + "'"}[good]+", containerPort: 80}]}]}", Options{})
		if (err == nil) != good {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMountsOfKubePlayOnly(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{"/d:Z": "chcon", "/d:ro,z": "chcon", "/d:x": "absolute path"} {
		_, _, err := parsed(t, "{containers: [{name: c, image: x, volumeMounts: [{name: v, mountPath: '"+path+"'}]}], volumes: [{name: v, hostPath: {path: /srv}}]}", Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	_, _, err := parsed(t, "{containers: [{name: c, image: x}], volumes: [{name: v, hostPath: {path: ./html}}]}", Options{})
	if err == nil || !strings.Contains(err.Error(), "write the directory of the file before it") {
		t.Error(err)
	}
	for path, good := range map[string]bool{"/proc": true, "/srv": false} {
		_, _, err := parsed(t, "{containers: [{name: c, image: x, volumeMounts: [{name: v, mountPath: /proc}]}], volumes: [{name: v, hostPath: {path: "+path+"}}]}", Options{})
		if (err == nil) != good {
			t.Errorf("%s at /proc: %v", path, err)
		}
	}
}

// frames are documents in which a value of a type can be set at the place %s of a member of an otherwise valid one.
var frames = map[string]string{
	"DeploymentSpec":        "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {template: {spec: {containers: [{name: c, image: x}]}}, %s}}",
	"ReplicaSetSpec":        "{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: d}, spec: {template: {spec: {containers: [{name: c, image: x}]}}, %s}}",
	"StatefulSetSpec":       "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: d}, spec: {template: {spec: {containers: [{name: c, image: x}]}}, %s}}",
	"DaemonSetSpec":         "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: d}, spec: {template: {spec: {containers: [{name: c, image: x}]}}, %s}}",
	"JobSpec":               "{apiVersion: batch/v1, kind: Job, metadata: {name: d}, spec: {template: {spec: {restartPolicy: OnFailure, containers: [{name: c, image: x}]}}, %s}}",
	"CronJobSpec":           "{apiVersion: batch/v1, kind: CronJob, metadata: {name: d}, spec: {schedule: '1 2 3 4 5', jobTemplate: {spec: {template: {spec: {restartPolicy: OnFailure, containers: [{name: c, image: x}]}}}}, %s}}",
	"PodSpec":               "{apiVersion: v1, kind: Pod, metadata: {name: d}, spec: {containers: [{name: c, image: x}], %s}}",
	"PodSecurityContext":    "{apiVersion: v1, kind: Pod, metadata: {name: d}, spec: {containers: [{name: c, image: x}], securityContext: {%s}}}",
	"Container":             "{apiVersion: v1, kind: Pod, metadata: {name: d}, spec: {containers: [{name: c, image: x, %s}]}}",
	"SecurityContext":       "{apiVersion: v1, kind: Pod, metadata: {name: d}, spec: {containers: [{name: c, image: x, securityContext: {%s}}]}}",
	"PersistentVolumeClaim": "{apiVersion: v1, kind: Pod, metadata: {name: d}, spec: {containers: [{name: c, image: x}]}}\n---\n{apiVersion: v1, kind: PersistentVolumeClaim, %s}",
	"ContainerPort":         "{apiVersion: v1, kind: Pod, metadata: {name: d}, spec: {containers: [{name: c, image: x, ports: [{containerPort: 80, %s}]}]}}",
	"Lifecycle":             "{apiVersion: v1, kind: Pod, metadata: {name: d}, spec: {containers: [{name: c, image: x, lifecycle: {%s}}]}}",
	"VolumeMount":           "{apiVersion: v1, kind: Pod, metadata: {name: d}, spec: {volumes: [{name: v, emptyDir: {}}], containers: [{name: c, image: x, volumeMounts: [{name: v, mountPath: /m, %s}]}]}}",
	"EmptyDirVolumeSource":  "{apiVersion: v1, kind: Pod, metadata: {name: d}, spec: {volumes: [{name: v, emptyDir: {%s}}], containers: [{name: c, image: x, volumeMounts: [{name: v, mountPath: /m}]}]}}",
	"Probe":                 "{apiVersion: v1, kind: Pod, metadata: {name: d}, spec: {containers: [{name: c, image: x, livenessProbe: {tcpSocket: {port: 80}, %s}}]}}",
	"StatefulSetOrdinals":   "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: d}, spec: {ordinals: {%s}, template: {spec: {containers: [{name: c, image: x}]}}}}",
	"DeploymentStrategy":    "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {strategy: {%s}, template: {spec: {containers: [{name: c, image: x}]}}}}",
}

// TestEachMemberIsEffectiveToldOrRefused sets each member alone to legal values that are not its default. Unless its
// row says that it means nothing here, the task differs, or a warning, need or problem names it.
func TestEachMemberIsEffectiveToldOrRefused(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	result := func(src string) string {
		got, report, err := parseText(src)
		got.Pod.Source = nil
		return fmt.Sprintf("%+v %+v %v %v", got, report.Warnings, report.Needs, err) + fmt.Sprintf("%+v", got.CronJob) + dump(got.Task)
	}
	n := 0
	for typ, frame := range frames {
		plain := result(fmt.Sprintf(frame, ""))
		for _, p := range schema()[typ] {
			row, known := ruleTable()[typ+"."+p.name]
			if !known || row.treatment == members.NoMeaning || slices.Contains(strings.Fields("template jobTemplate apiVersion kind metadata containers name image schedule containerPort mountPath tcpSocket"), p.name) {
				continue
			}
			for range 3 {
				value, ok := legal(r, typ+"."+p.name, p.word)
				if !ok {
					continue
				}
				n++
				if got := result(fmt.Sprintf(frame, p.name+": "+value)); got == plain {
					t.Errorf("seed %d: %s.%s: %s changes nothing, and nothing is said", seed, typ, p.name, value)
				}
			}
		}
	}
	t.Logf("seed %d: %d members set", seed, n)
	if n < 200 {
		t.Errorf("only %d values", n)
	}
}

// dump shows what %+v hides behind pointers.
func dump(task taskdef.Task) (out string) {
	for _, c := range task.Containers {
		out += fmt.Sprintf("%+v %+v %+v", c.Restart, c.HealthCheck, c.Extensions.Kube)
		if g := c.Extensions.Kube.Group; g != nil {
			out += fmt.Sprint(*g)
		}
	}
	if r := task.Extensions.Requests; r != nil {
		out += fmt.Sprintf("%+v", *r)
	}
	return out
}

// notDefault are legal values of members whose default is not the zero value of their type, or that have few words.
var notDefault = map[string][]string{
	"PodSpec.restartPolicy": {"Never", "OnFailure"}, "PodSpec.terminationGracePeriodSeconds": {"7", "90"}, "PodSpec.dnsPolicy": {"ClusterFirst"}, "PodSpec.preemptionPolicy": nil,
	"PodSpec.os": {"{name: windows}"}, "PodSpec.securityContext": nil, "PodSpec.setHostnameAsFQDN": nil, "PodSpec.hostUsers": nil, "PodSpec.hostNetwork": {"true"}, "PodSpec.shareProcessNamespace": {"true"}, "PodSpec.hostPID": {"true"},
	"PodSpec.volumes": nil, "PodSpec.dnsConfig": {"{nameservers: [192.0.2.1]}"}, "PodSpec.imagePullSecrets": {"[{name: s}]"}, "PodSpec.initContainers": {"[{name: i, image: y}]"}, "PodSpec.resources": {"{limits: {cpu: 1}}"},
	"PodSecurityContext.appArmorProfile": {"{type: RuntimeDefault}"}, "PodSecurityContext.seccompProfile": {"{type: Unconfined}"}, "PodSecurityContext.seLinuxOptions": {"{level: s0}"}, "PodSecurityContext.sysctls": {"[{name: net.ipv4.ip_forward, value: '1'}]"},
	"PodSecurityContext.supplementalGroupsPolicy": {"Strict"}, "PodSecurityContext.fsGroupChangePolicy": nil,
	"SecurityContext.appArmorProfile": {"{type: RuntimeDefault}"}, "SecurityContext.seccompProfile": {"{type: Unconfined}"}, "SecurityContext.seLinuxOptions": {"{level: s0}"}, "SecurityContext.procMount": {"Unmasked"},
	"SecurityContext.allowPrivilegeEscalation": {"false"}, "SecurityContext.capabilities": {"{add: [SYS_PTRACE]}"},
	"Container.imagePullPolicy": {"Never", "IfNotPresent"}, "Container.resizePolicy": nil, "Container.restartPolicy": {"Never"}, "Container.restartPolicyRules": {"[{action: Restart}]"}, "Container.ports": {"[{containerPort: 80, hostPort: 81}]"},
	"Container.env": {"[{name: A, value: b}]"}, "Container.envFrom": {"[{configMapRef: {name: x}}]"}, "Container.resources": {"{limits: {memory: 64Mi}}"}, "Container.securityContext": nil, "Container.lifecycle": {"{stopSignal: SIGINT}"},
	"Container.livenessProbe": {"{tcpSocket: {port: 8}}"}, "Container.readinessProbe": {"{tcpSocket: {port: 8}}"}, "Container.startupProbe": {"{tcpSocket: {port: 8}}"}, "Container.terminationMessagePolicy": {"FallbackToLogsOnError"},
	"Container.volumeMounts": {"[{name: none, mountPath: /x}]"}, "Container.workingDir": {"/w"}, "Container.terminationMessagePath": {"/w"},
	"ContainerPort.protocol": {"SCTP"}, "ContainerPort.hostIP": nil, "ContainerPort.name": nil,
	"Lifecycle.stopSignal": {"SIGINT"}, "Lifecycle.postStart": {"{sleep: {seconds: 1}}"}, "Lifecycle.preStop": {"{sleep: {seconds: 1}}"},
	"VolumeMount.mountPropagation": {"Bidirectional"}, "VolumeMount.recursiveReadOnly": {"Enabled"}, "VolumeMount.subPath": {"a/b"}, "VolumeMount.subPathExpr": {"a"},
	"EmptyDirVolumeSource.medium": {"Memory"}, "EmptyDirVolumeSource.mode": {"448"},
	"Probe.exec": {"{command: [x]}"}, "Probe.httpGet": {"{port: 8}"}, "Probe.grpc": {"{port: 8}"}, "Probe.failureThreshold": {"5"}, "Probe.periodSeconds": {"12"}, "Probe.successThreshold": nil, "Probe.timeoutSeconds": {"5"}, "Probe.terminationGracePeriodSeconds": {"7"},
	"DeploymentSpec.strategy": nil, "DeploymentStrategy.type": {"Recreate"}, "DeploymentStrategy.rollingUpdate": {"{maxSurge: 1}"}, "DaemonSetSpec.updateStrategy": nil, "StatefulSetSpec.updateStrategy": nil, "StatefulSetSpec.ordinals": {"{start: 2}"},
	"StatefulSetSpec.podManagementPolicy": {"Parallel"}, "StatefulSetSpec.serviceName": {"svc"}, "StatefulSetSpec.volumeClaimTemplates": {"[{metadata: {name: v}, spec: {}}]"},
	"JobSpec.completionMode": {"Indexed"}, "JobSpec.completions": {"2", "0"}, "JobSpec.parallelism": {"2", "0"}, "JobSpec.backoffLimit": {"0", "1", "5"},
	"CronJobSpec.concurrencyPolicy": {"Forbid", "Replace"}, "PersistentVolumeClaim.spec": {"{accessModes: [ReadWriteOnce]}"},
}

// legal returns a legal value of a member that is not its default; not ok: it has none alone.
func legal(r *rand.Rand, member, word string) (text string, ok bool) {
	if list, known := notDefault[member]; known {
		if len(list) == 0 {
			return "", false
		}
		return list[r.IntN(len(list))], true
	}
	switch {
	case word == "bool":
		return "true", true
	case word == "string":
		return fmt.Sprintf("x%d", r.IntN(1000)), true
	case word == "int32" || word == "int64":
		return fmt.Sprint(2 + r.IntN(7)), true
	}
	return example(word), true
}

// What no cluster takes is refused before a schedule or a service is made of it.
func TestControllersThatNoClusterTakes(t *testing.T) {
	t.Parallel()
	const cron, set = "{apiVersion: batch/v1, kind: CronJob, metadata: {name: c}, spec: {%s, jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: x}]}}}}}}",
		"{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: d}, spec: {%s, template: {spec: {containers: [{name: c, image: x}]}}}}"
	for spec, want := range map[string]string{
		fmt.Sprintf(cron, "schedule: '0 25 * * *'"):                   "hours \"25\": values are 0 to 23",
		fmt.Sprintf(cron, "schedule: 'TZ=UTC 0 3 * * *'"):             "the time zone is spec.timeZone",
		fmt.Sprintf(cron, "suspend: true"):                            "schedule is missing",
		fmt.Sprintf(cron, "schedule: '0 3 * * *', timeZone: Local"):   "Local is no name of a time zone",
		fmt.Sprintf(cron, "schedule: '0 3 * * *', timeZone: Etc/UTC"): "",
		fmt.Sprintf(set, "podManagementPolicy: Sometimes"):            "this cannot be \"Sometimes\"",
		fmt.Sprintf(set, "replicas: -1"):                              "out of range",
	} {
		_, _, err := parseText(spec)
		var invalid *taskdef.InvalidError
		if found := errors.As(err, &invalid); found != (want != "") || found && (len(invalid.Problems) != 1 || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", spec, err, want)
		}
	}
}

// A claim of a StatefulSet goes before a volume of its template with the same name: what it would keep must not be lost.
func TestAClaimGoesBeforeAVolume(t *testing.T) {
	t.Parallel()
	r, report, err := Parse("f", []byte(`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db}, spec: {template: {spec: {volumes: [{name: data, emptyDir: {}}],
		containers: [{name: c, image: x, volumeMounts: [{name: data, mountPath: /d}]}]}}, volumeClaimTemplates: [{metadata: {name: data}}]}}`), Options{Refs: volumeAt("data")})
	if err != nil || len(report.Needs) > 0 || r.Task.Volumes[0].HostPath != "/srv/data" {
		t.Errorf("%+v, %v, %v", r.Task.Volumes, report.Needs, err)
	}
}

// Other kinds of Kubernetes are no misspelled ones.
func TestOtherKindsHaveNoEffect(t *testing.T) {
	t.Parallel()
	for _, kind := range otherKinds {
		_, report, err := Parse("f", []byte("{apiVersion: v1, kind: "+kind+", metadata: {name: o}}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: x}]}}\n"), Options{})
		if err != nil || !slices.ContainsFunc(report.Warnings, func(p taskdef.Problem) bool { return strings.Contains(p.Message, "the "+kind+" has no effect") }) {
			t.Errorf("%s: %v, %v", kind, report.Warnings, err)
		}
	}
	if _, _, err := Parse("f", []byte("{apiVersion: v1, kind: PersistentVolumeClaims, metadata: {name: o}}"), Options{}); err == nil || !strings.Contains(err.Error(), "did you mean") {
		t.Error(err)
	}
}
