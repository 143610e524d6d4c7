package pod

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podtask/podtask/pkg/taskdef"
)

// parsed returns what becomes of a Pod with a spec.
func parsed(t *testing.T, spec string, o Options) (Result, taskdef.Report, error) {
	t.Helper()
	return Parse("f", []byte("---\n{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: "+spec+"}"), o)
}

func ptr[T any](v T) *T { return &v }

func TestRequestsAreReserved(t *testing.T) {
	t.Parallel()
	const half, whole = "{cpu: 500m, memory: 64Mi}", "{cpu: 1, memory: 1Gi}"
	for _, c := range []struct {
		resources string
		want      *taskdef.Requests
	}{
		{"{}", nil},
		{"{limits: " + whole + "}", nil},
		{"{requests: " + half + "}", nil}, // its container's, as without limits of the task
		{"{limits: " + whole + ", requests: " + half + "}", &taskdef.Requests{CPU: 512, Memory: 64 << 20}},
		{"{limits: " + whole + ", requests: {cpu: 0, memory: 0}}", &taskdef.Requests{}},
	} {
		got, _, err := parsed(t, "{containers: [{name: a, image: i, resources: "+c.resources+"}]}", Options{})
		if err != nil || !reflect.DeepEqual(got.Task.Extensions.Requests, c.want) {
			t.Errorf("%s reserves %+v, %v", c.resources, got.Task.Extensions.Requests, err)
		}
	}
}

func TestWhatOnlyPodsAskFor(t *testing.T) {
	t.Parallel()
	log := func(k taskdef.Kube) taskdef.Kube { k.MessagePath, k.Pull = messagePath, "always"; return k }
	for _, tt := range []struct {
		rule, pod, container string // the security contexts
		want                 taskdef.Kube
		user                 string
	}{
		{"nothing", "", "", log(taskdef.Kube{}), ""},
		{"groups, that of the volumes among them", "fsGroup: 5, supplementalGroups: [7, 5]", "", log(taskdef.Kube{Groups: []int64{7, 5}}), ""},
		{"a group for the user of the image", "runAsGroup: 9", "", log(taskdef.Kube{Group: ptr(int64(9))}), ""},
		{"a group and a user", "runAsGroup: 9", "runAsUser: 8", log(taskdef.Kube{}), "8:9"},
		{"not root, which the image tells", "runAsNonRoot: true", "", log(taskdef.Kube{NonRoot: true}), ""},
		{"not root, which the Pod tells", "runAsNonRoot: true", "runAsUser: 8", log(taskdef.Kube{}), "8"},
		{"the container's own", "runAsNonRoot: true", "runAsNonRoot: false", log(taskdef.Kube{}), ""},
		{"no seccomp", "seccompProfile: {type: Unconfined}", "", log(taskdef.Kube{SeccompUnconfined: true}), ""},
		{"seccomp again", "seccompProfile: {type: Unconfined}", "seccompProfile: {type: RuntimeDefault}", log(taskdef.Kube{}), ""},
		{"all of /proc", "", "procMount: Unmasked", log(taskdef.Kube{Unmasked: true}), ""},
	} {
		r, _, err := parsed(t, fmt.Sprintf("{securityContext: {%s}, containers: [{name: c, image: x, securityContext: {%s}}]}", tt.pod, tt.container), Options{})
		if err != nil {
			t.Errorf("%s: %v", tt.rule, err)
			continue
		}
		c := r.Task.Containers[0]
		if diff := cmp.Diff(tt.want, c.Extensions.Kube); diff != "" || c.User != tt.user {
			t.Errorf("%s: user %q %s", tt.rule, c.User, diff)
		}
	}
	for _, bad := range []string{
		"{securityContext: {supplementalGroupsPolicy: Strict}, containers: [{name: c, image: x}]}",
		"{securityContext: {runAsNonRoot: true, runAsUser: 0}, containers: [{name: c, image: x}]}",
		"{containers: [{name: c, image: x, terminationMessagePath: log}]}",
		"{containers: [{name: c, image: x, terminationMessagePolicy: Never}]}",
		"{containers: [{name: c, image: x}], dnsConfig: {options: [{name: 'a b'}]}}",
		"{containers: [{name: c, image: x}], hostname: " + strings.Repeat("h", 60) + ", subdomain: s, setHostnameAsFQDN: true}",
		"{containers: [{name: c, image: x, env: [{name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}], volumeMounts: [{name: v, mountPath: /v, subPathExpr: $(IP)}]}], volumes: [{name: v, emptyDir: {}}]}",
		"{containers: [{name: c, image: x, volumeMounts: [{name: v, mountPath: /v}]}], volumes: [{name: v, downwardAPI: {items: [{path: ip, fieldRef: {fieldPath: status.podIP}}]}}]}",
		"{containers: [{name: c, image: x, volumeMounts: [{name: v, mountPath: /v}]}], volumes: [{name: v, image: {}}]}",
	} {
		if _, _, err := parsed(t, bad, Options{}); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

// TestDirectoriesOfAnEmptyDir: each is a volume of its own, and is mounted wherever the
// directory above it is.
func TestDirectoriesOfAnEmptyDir(t *testing.T) {
	t.Parallel()
	r, _, err := parsed(t, `{volumes: [{name: v, emptyDir: {}}, {name: h, hostPath: {path: /srv}}], containers: [
		{name: whole, image: x, volumeMounts: [{name: v, mountPath: /all}, {name: v, mountPath: /all/a, subPath: a, readOnly: true}]},
		{name: part, image: x, volumeMounts: [{name: v, mountPath: /a, subPath: a}, {name: h, mountPath: /h, subPath: x/y}]},
		{name: deep, image: x, volumeMounts: [{name: v, mountPath: /b, subPath: a/b}, {name: v, mountPath: /ab, subPath: ab}]}]}`, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Task.Check(); err != nil {
		t.Fatal(err)
	}
	volume := make(map[string]string) // by the path in the container that shows only it
	for _, c := range r.Task.Containers {
		for _, m := range c.Mounts {
			volume[c.Name+m.Path] = m.Volume
		}
	}
	a, b, ab := volume["part/a"], volume["deep/b"], volume["deep/ab"]
	for place, want := range map[string]string{"whole/all": "v", "whole/all/a": a, "whole/all/a/b": b, "whole/all/ab": ab, "part/a/b": b} {
		if volume[place] != want {
			t.Errorf("%s shows %s, want %s", place, volume[place], want)
		}
	}
	names := []string{"v", a, b, ab}
	slices.Sort(names)
	if len(slices.Compact(names)) != 4 || len(volume) != 9 {
		t.Errorf("volumes %v, mounts %v", names, volume)
	}
	for _, v := range r.Task.Volumes {
		if v.Kind == taskdef.VolumeTask && !v.Empty || v.Kind == taskdef.VolumeBind && (v.Below != "/srv" || v.HostPath != "/srv/x/y") {
			t.Errorf("%+v", v)
		}
	}
	if m := r.Task.Containers[0].Mounts; !slices.ContainsFunc(m, func(m taskdef.Mount) bool { return m.Path == "/all/a" && m.ReadOnly }) {
		t.Errorf("%+v", m)
	}
}

func TestAddressesComeWithTheNetwork(t *testing.T) {
	t.Parallel()
	r, _, err := parsed(t, `{containers: [{name: c, image: x, env: [{name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}, {name: URL, value: "http://$(IP):80"}], args: [--listen=$(IP)]}]}`, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := r.Task.Containers[0]
	if c.Environment[0].Value != taskdef.PodIP || c.Environment[1].Value != "http://"+taskdef.PodIP+":80" || c.Command[0] != "--listen="+taskdef.PodIP {
		t.Errorf("%+v %q", c.Environment, c.Command)
	}
}

func TestFargateHasNotAll(t *testing.T) {
	t.Parallel()
	spec := `{hostNetwork: true, hostPID: false, hostAliases: [{ip: 192.0.2.1, hostnames: [a]}], volumes: [{name: m, emptyDir: {medium: Memory}}],
		initContainers: [{name: i, image: x, securityContext: {privileged: true}}],
		containers: [{name: c, image: x, resources: {limits: {cpu: 300m, memory: 600Mi}}, securityContext: {capabilities: {add: [SYS_PTRACE, NET_ADMIN]}}}]}`
	r, report, err := parsed(t, spec, Options{Fargate: true})
	if err != nil {
		t.Fatal(err)
	}
	if r.Task.CPU != 0.5 || r.Task.Memory != 1<<30 {
		t.Errorf("size %v vCPU, %d bytes", r.Task.CPU, r.Task.Memory)
	}
	var got []string
	for _, w := range report.Warnings {
		got = append(got, w.Pointer)
	}
	for _, want := range []string{"/spec/hostNetwork", "/spec/hostAliases", "/spec/volumes/0/emptyDir/medium", "/spec/initContainers/0/securityContext/privileged", "/spec/containers/0/securityContext/capabilities/add/1"} {
		if !slices.Contains(got, want) {
			t.Errorf("no warning of %s: %v", want, report.Warnings)
		}
	}
	if slices.Contains(got, "/spec/hostPID") || slices.Contains(got, "/spec/containers/0/securityContext/capabilities/add/0") {
		t.Errorf("warnings of what Fargate has: %v", report.Warnings)
	}
	if _, report, _ := parsed(t, spec, Options{}); len(report.Warnings) > 0 {
		t.Errorf("without the target: %v", report.Warnings)
	}
}

// TestFargateRowsAreMembers: no row is about a member that does not exist.
func TestFargateRowsAreMembers(t *testing.T) {
	t.Parallel()
	for _, row := range fargateLacks {
		typ := "PodSpec"
		for _, step := range strings.Split(row.path, ".") {
			name := strings.TrimSuffix(step, "[]")
			i := slices.IndexFunc(schema()[typ], func(p property) bool { return p.name == name })
			if i < 0 {
				t.Errorf("%s: %s has no %s", row.path, typ, name)
				break
			}
			typ = strings.TrimPrefix(schema()[typ][i].word, "[]")
		}
	}
}

func TestPullPolicies(t *testing.T) {
	t.Parallel()
	r, report, err := parsed(t, `{containers: [
		{name: latest, image: x}, {name: tagged, image: "x:1"}, {name: pinned, image: "x:latest@sha256:`+strings.Repeat("0", 64)+`"},
		{name: never, image: x, imagePullPolicy: Never, volumeMounts: [{name: v, mountPath: /v}]}, {name: always, image: "x:1", imagePullPolicy: Always}],
		volumes: [{name: v, image: {reference: "y:1", pullPolicy: Always}}]}`, Options{})
	if err != nil || len(report.Warnings) > 0 {
		t.Fatal(err, report.Warnings)
	}
	want := map[string]string{"latest": "always", "tagged": "prefer-cached", "pinned": "prefer-cached", "never": "never", "always": "always"}
	got := make(map[string]string)
	for _, c := range r.Task.Containers {
		got[c.Name] = c.Extensions.Kube.Pull
		for _, m := range c.Extensions.Kube.Images {
			if m.Pull != "always" {
				t.Errorf("the image volume is pulled %q", m.Pull)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestStopSignals(t *testing.T) {
	t.Parallel()
	for signal, good := range map[string]bool{
		"SIGTERM": true, "SIGUSR1": true, "SIGRTMIN": true, "SIGRTMIN+3": true, "SIGRTMAX-1": true,
		"TERM": false, "sigterm": false, "15": false, "SIGRTMIN+0": false, "SIGRTMIN+16": false, "SIGRTMIN+03": false, "SIGNONE": false,
	} {
		r, _, err := parsed(t, `{containers: [{name: c, image: x, lifecycle: {stopSignal: "`+signal+`"}}]}`, Options{})
		switch {
		case !good && err == nil:
			t.Errorf("%s is accepted", signal)
		case good && (err != nil || r.Task.Containers[0].Extensions.Kube.StopSignal != signal):
			t.Errorf("%s: %v", signal, err)
		}
	}
}

// A container with a hosts file of its own keeps it, and so do Pods that no cluster has sent.
func TestPodsOfANodeHaveTheHostsFileOfAKubelet(t *testing.T) {
	t.Parallel()
	for annotation, want := range map[string][]bool{"podtask/node: edge": {true, false}, "other: x": {false, false}} {
		r, _, err := Parse("f", []byte("---\n{apiVersion: v1, kind: Pod, metadata: {name: p, annotations: {"+annotation+"}}, spec: {containers: [{name: a, image: x}, "+
			"{name: b, image: x, volumeMounts: [{name: h, mountPath: /etc/hosts}]}], volumes: [{name: h, hostPath: {path: /etc/hosts}}]}}"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range r.Task.Containers {
			if c.Extensions.Kube.HostsFile != want[i] {
				t.Errorf("%s: container %s: %v", annotation, c.Name, c.Extensions.Kube.HostsFile)
			}
		}
	}
}

func TestRestartRules(t *testing.T) {
	t.Parallel()
	const in, notIn = "{action: Restart, exitCodes: {operator: In, values: [42, 0]}}", "{action: Restart, exitCodes: {operator: NotIn, values: [1]}}"
	rules := func(r ...taskdef.RestartRule) []taskdef.RestartRule { return r }
	for _, tt := range []struct {
		name, pod, container string
		init                 bool
		want                 *taskdef.RestartPolicy
	}{
		{"no policy of its own", "Never", "", false, nil},
		{"its own policy", "Always", "restartPolicy: Never", false, nil},
		{"its own policy, always", "Never", "restartPolicy: Always", false, &taskdef.RestartPolicy{}},
		{"rules, in order", "Always", "restartPolicy: Never, restartPolicyRules: [" + in + ", " + notIn + "]", false,
			&taskdef.RestartPolicy{RulesOnly: true, Rules: rules(taskdef.RestartRule{ExitCodes: []int{42, 0}}, taskdef.RestartRule{ExitCodes: []int{1}, Not: true})}},
		{"rules on failure", "Never", "restartPolicy: OnFailure, restartPolicyRules: [" + in + "]", false,
			&taskdef.RestartPolicy{IgnoredExitCodes: []int{0}, Rules: rules(taskdef.RestartRule{ExitCodes: []int{42, 0}})}},
		{"an init container that has succeeded", "Never", "restartPolicy: Never, restartPolicyRules: [" + in + ", " + notIn + "]", true,
			&taskdef.RestartPolicy{RulesOnly: true, Rules: rules(taskdef.RestartRule{ExitCodes: []int{42}}, taskdef.RestartRule{ExitCodes: []int{1, 0}, Not: true})}},
		{"a sidecar", "Never", "restartPolicy: Always, restartPolicyRules: [" + in + "]", true,
			&taskdef.RestartPolicy{Rules: rules(taskdef.RestartRule{ExitCodes: []int{42, 0}})}},
	} {
		one := "{name: c, image: x, " + tt.container + "}"
		spec := "containers: [" + one + "]"
		if tt.init {
			spec = "initContainers: [" + one + "], containers: [{name: d, image: x}]"
		}
		r, report, err := parsed(t, "{restartPolicy: "+tt.pod+", "+spec+"}", Options{})
		if err != nil || len(report.Warnings) > 0 {
			t.Errorf("%s: %v, %v", tt.name, err, report.Warnings)
			continue
		}
		if tt.want != nil {
			tt.want.AttemptPeriod, tt.want.BackOff, tt.want.FirstAtOnce = steadyAfter, firstPause, true
		}
		if diff := cmp.Diff(tt.want, r.Task.Containers[0].Restart); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

func TestRestartRulesThatAreWrong(t *testing.T) {
	t.Parallel()
	const good = "{action: Restart, exitCodes: {operator: In, values: [1]}}"
	for rules, want := range map[string]string{
		"restartPolicyRules: [" + good + "]": "go with a restartPolicy of the container",
		"restartPolicy: Never, restartPolicyRules: [" + strings.Repeat(good+", ", 20) + good + "]":                                                "there are 21 rules",
		"restartPolicy: Never, restartPolicyRules: [{exitCodes: {operator: In, values: [1]}}]":                                                    "action is missing",
		"restartPolicy: Never, restartPolicyRules: [{action: Restart}]":                                                                           "exitCodes are missing",
		"restartPolicy: Never, restartPolicyRules: [{action: Restart, exitCodes: {values: [1]}}]":                                                 "operator is missing",
		"restartPolicy: Never, restartPolicyRules: [{action: Restart, exitCodes: {operator: Is}}]":                                                `cannot be "Is"`,
		"restartPolicy: Never, restartPolicyRules: [{action: Stop, exitCodes: {operator: In}}]":                                                   `cannot be "Stop"`,
		"restartPolicy: Never, restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In}}]":                                   "cannot start all containers",
		"restartPolicy: Never, restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [" + strings.Repeat("1, ", 255) + "1]}}]": "there are 256 exit codes",
	} {
		_, _, err := parsed(t, "{containers: [{name: c, image: x, "+rules+"}]}", Options{})
		if err == nil || strings.Count(err.Error(), "f:") != 1 || !strings.Contains(err.Error(), want) {
			t.Errorf("%.90s: %v", rules, err)
		}
	}
	_, report, err := parsed(t, "{containers: [{name: c, image: x, restartPolicy: Never, restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [300]}}]}]}", Options{})
	if err != nil || len(report.Warnings) != 1 || report.Warnings[0].Pointer != "/spec/containers/0/restartPolicyRules/0/exitCodes/values/0" {
		t.Errorf("%v, %v", err, report.Warnings)
	}
}

// The values are those of the tests of a kubelet, of a node with 2 GiB.
func TestOOMScoresFollowTheClass(t *testing.T) {
	t.Parallel()
	one := func(resources string) string { return "{name: c, image: x, resources: {" + resources + "}}" }
	for _, tt := range []struct {
		name, spec string
		want       []int
	}{
		{"best effort", "containers: [" + one("") + "]", []int{1000}},
		{"guaranteed", "containers: [" + one("limits: {cpu: 1, memory: 1Gi}") + "]", []int{-997}},
		{"critical", "priorityClassName: system-node-critical, containers: [" + one("") + "]", []int{-997}},
		{"burstable", "containers: [" + one("requests: {memory: 512Mi}") + "]", []int{750}},
		{"burstable without a request of memory", "containers: [" + one("requests: {cpu: 1}") + "]", []int{999}},
		{"burstable with all of the memory", "containers: [" + one("requests: {memory: 8Gi}") + "]", []int{3}},
		{"a sidecar", "initContainers: [{name: s, image: x, restartPolicy: Always}], containers: [" + one("requests: {memory: 512Mi}") + "]", []int{750, 750}},
		{"requests of the Pod", "resources: {requests: {memory: 1Gi}}, containers: [" + one("requests: {memory: 512Mi}") + ", {name: d, image: x}]", []int{625, 875}},
	} {
		r, _, err := parsed(t, "{"+tt.spec+"}", Options{Memory: 2 << 30})
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		var got []int
		for _, c := range r.Task.Containers {
			got = append(got, c.Extensions.Kube.OOMScoreAdj)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestFilesOfAnEmptyDirHaveTheGroupOfThePod(t *testing.T) {
	t.Parallel()
	const spec = "containers: [{name: c, image: x, volumeMounts: [{name: d, mountPath: /d, subPath: a}, {name: m, mountPath: /m}]}], volumes: [{name: d, emptyDir: {}}, {name: m, emptyDir: {medium: Memory}}]"
	for group, want := range map[string][]string{"": {"gid=0,uid=0", "gid=0,mode=1777"}, "securityContext: {fsGroup: 7}, ": {"gid=7,uid=0", "gid=7,mode=3777"}} {
		r, _, err := parsed(t, "{"+group+spec+"}", Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range r.Task.Volumes {
			if v.DriverOpts["o"] != want[i] || v.SetGroup != (group != "") {
				t.Errorf("%s: %s: %v, keeps the group: %v", group, v.Name, v.DriverOpts, v.SetGroup)
			}
		}
	}
}
