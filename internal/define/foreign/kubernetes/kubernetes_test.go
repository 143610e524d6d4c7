package kubernetes

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/define/foreign/toolfile"
)

// built reads manifests, and makes a result of the first workload, for a stack if whole is set.
func built(t *testing.T, manifests string, whole bool) (toolfile.Result, *toolfile.Reader) {
	t.Helper()
	r := toolfile.NewReader(toolfile.Request{File: "m.yaml", Whole: whole})
	docs, ok := r.Parse("m.yaml", []byte(manifests))
	if !ok {
		t.Fatal(r.Err())
	}
	res := toolfile.Result{Name: "web"}
	if all := Workloads(r, docs); len(all) > 0 {
		all[0].Build(&res)
	}
	return res, r
}

func lost(r *toolfile.Reader) string {
	var all []string
	for _, l := range r.Losses {
		all = append(all, l.Message)
	}
	return strings.Join(all, "\n")
}

// workload is a manifest with members of its spec beside the template.
func workload(kind, spec string) string {
	return "kind: " + kind + "\nmetadata: {name: web}\nspec: {" + spec + " template: {metadata: {labels: {app: web}}, spec: {containers: [{name: a, ports: [{name: http, containerPort: 8080}, {containerPort: 7000, hostPort: 7000}]}]}}}\n---\n"
}

const bare = "kind: Pod\nmetadata: {name: web, labels: {app: web}}\nspec: {%s containers: [{name: a}]}\n---\n"

func TestControllersBecomeServicesAndSchedules(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		rule, manifest, flags string
		schedules             int
	}{
		{"a Deployment without replicas has one copy", workload("Deployment", ""), "--count 1", 0},
		{"the replicas of a StatefulSet are copies", workload("StatefulSet", "replicas: 3,"), "--count 3", 0},
		{"a DaemonSet has one copy, whatever it says of replicas", workload("DaemonSet", "replicas: 3,"), "--count 1", 0},
		{"a CronJob is a schedule of its name", "kind: CronJob\nmetadata: {name: web}\nspec: {}\n", "", 1},
		{"a Job is neither", workload("Job", ""), "", 0},
		{"a Pod is neither", fmt.Sprintf(bare, ""), "", 0},
		{"a List is its items", "kind: List\nitems: [{kind: Deployment, metadata: {name: web}, spec: {replicas: 2}}]\n", "--count 2", 0},
	} {
		res, r := built(t, "apiVersion: v1\n"+tc.manifest, false)
		flags := ""
		if res.Service != nil {
			flags = strings.Join(res.Service.Flags, " ")
		}
		if flags != tc.flags || len(res.Schedules) != tc.schedules || r.Err() != nil || tc.schedules == 1 && res.Schedules[0].Name != "web" {
			t.Errorf("%s: %q, %v; %v", tc.rule, flags, res.Schedules, r.Err())
		}
	}
	for rule, tc := range map[string][2]string{
		"replicas below 0": {workload("Deployment", "replicas: -1,"), "m.yaml:3:18: replicas is a whole number"}, "a workload without a name": {"kind: Deployment\nmetadata: {}\n", "m.yaml:1:1: the Deployment has no metadata.name"},
		"a document without a kind": {workload("Deployment", "") + "metadata: {name: x}\n", "m.yaml:5:1: a document has no kind"},
	} {
		if _, r := built(t, tc[0], false); r.Err() == nil || !strings.Contains(r.Err().Error(), tc[1]) {
			t.Errorf("%s: %v", rule, r.Err())
		}
	}
}

func TestDocumentsBesideAWorkload(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ rule, other, lost string }{
		{"a ConfigMap that the Pod names is taken along", "kind: ConfigMap\nmetadata: {name: used}\n", ""},
		{"so is a Secret of a volume of several sources", "kind: Secret\nmetadata: {name: projected}\n", ""},
		{"so is one of its registry", "kind: Secret\nmetadata: {name: pull}\n", ""},
		{"another workload is told with its name", "kind: Job\nmetadata: {name: a b}\n", `Job "a b" is another workload`},
		{"a Service is told", "kind: Service\nmetadata: {name: s}\n", `Service "s": there is no cluster network`},
		{"an Ingress that leads elsewhere is told", "kind: Ingress\nmetadata: {name: i}\n", `Ingress "i": no path of it leads to Deployment "web" by a Service of the file`},
		{"a claim is told", "kind: PersistentVolumeClaim\nmetadata: {name: c}\n", `PersistentVolumeClaim "c": its storage is given on the command line`},
		{"an autoscaler of another workload is told", "kind: HorizontalPodAutoscaler\nmetadata: {name: h}\nspec: {scaleTargetRef: {kind: StatefulSet, name: web}}\n", `HorizontalPodAutoscaler "h": ` + toolfile.FixedCopies},
		{"a kind without a meaning is told", "kind: NetworkPolicy\nmetadata: {name: n}\n", "the NetworkPolicy has no effect here"},
		{"a hook of Helm is told", "kind: Job\nmetadata: {name: h, annotations: {helm.sh/hook: post-install}}\n", `Job "h" is a hook of Helm (post-install), which runs beside the release`},
	} {
		const pod = "kind: Deployment\nmetadata: {name: web}\nspec: {template: {spec: {imagePullSecrets: [{name: pull}], volumes: [{projected: {sources: [{secret: {name: projected}}]}}], containers: [{envFrom: [{configMapRef: {name: used}}]}]}}}\n---\n"
		res, r := built(t, pod+tc.other, false)
		if got := lost(r); got != tc.lost || r.Err() != nil || (tc.lost == "") != (len(res.Documents) == 2) {
			t.Errorf("%s: lost %q, %d documents; %v", tc.rule, got, len(res.Documents), r.Err())
		}
	}
	if res, r := built(t, workload("Deployment", "")+"kind: ConfigMap\nmetadata: {name: other}\n", false); len(res.Documents) != 1 || len(r.Losses) > 0 {
		t.Errorf("a ConfigMap that nothing names: %d documents, lost %s", len(res.Documents), lost(r))
	}
}

func TestNamesOfWorkloads(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ rule, manifests, want string }{
		{"a name alone chooses, where it tells", workload("Deployment", "") + "kind: Pod\nmetadata: {name: db}\n", "web deployment/web, db pod/db"},
		{"workloads of one name are told apart by their kinds", workload("Deployment", "") + "kind: Job\nmetadata: {name: web}\n", "deployment/web, job/web"},
		{"generateName is a name without its end", "kind: Pod\nmetadata: {generateName: run-}\n", "run pod/run"},
		{"hooks of Helm are workloads if there are no others", "kind: Job\nmetadata: {name: h, annotations: {helm.sh/hook: test}}\n", "h job/h"},
		{"hooks of Helm are none beside others", workload("Deployment", "") + "kind: Job\nmetadata: {name: h, annotations: {helm.sh/hook: test}}\n", "web deployment/web"},
	} {
		r := toolfile.NewReader(toolfile.Request{File: "m.yaml"})
		docs, _ := r.Parse("m.yaml", []byte(tc.manifests))
		var got []string
		for _, w := range Workloads(r, docs) {
			got = append(got, strings.Join(w.Names, " "))
		}
		if text := strings.Join(got, ", "); text != tc.want {
			t.Errorf("%s: %s", tc.rule, text)
		}
	}
}

func TestAFileIsOnePod(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		rule, manifests string
		want            bool
	}{
		{"a Pod", fmt.Sprintf(bare, ""), true},
		{"a Pod with a hook of Helm", fmt.Sprintf(bare, "") + "kind: Pod\nmetadata: {annotations: {helm.sh/hook: test}}\n", true},
		{"two Pods", fmt.Sprintf(bare+bare, "", ""), false},
		{"a Deployment", workload("Deployment", ""), false},
		{"a Pod to which an Ingress leads", fmt.Sprintf(bare, "") + "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {selector: {app: web}, ports: [{port: 80}]}\n---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: i}\nspec: {rules: [{host: a.example, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: s, port: {number: 80}}}}]}}]}\n", false},
		{"no manifest", "a: b\n", false},
	} {
		if got := OnePod("m.yaml", []byte("apiVersion: v1\n"+tc.manifests)); got != tc.want {
			t.Errorf("%s: %v", tc.rule, got)
		}
	}
}

// Members of a stack have the names and addresses of the Services that select their Pods.
func TestServicesOfAStack(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ rule, spec, flags, lost string }{
		{"a Service gives a name", "ports: [{port: 80, targetPort: http}]", "--publish 127.0.0.1::8080 --name-as s:80=a:8080", ""},
		{"a port without targetPort is that of the container", "ports: [{port: 8080}]", "--publish 127.0.0.1::8080 --name-as s:8080=a:8080", ""},
		{"a port that the host has is not published again", "ports: [{port: 7000}]", "--name-as s:7000=a:7000", ""},
		{"a load balancer is an address, above the ports that users may not open", "type: LoadBalancer, ports: [{port: 80, targetPort: 8080}]", "--publish 127.0.0.1::8080 --name-as s:80=a:8080 --listen 8080=a:8080", ""},
		{"a node port is an address of its number", "type: NodePort, ports: [{port: 80, nodePort: 30080, targetPort: 8080}]", "--publish 127.0.0.1::8080 --name-as s:80=a:8080 --listen 30080=a:8080", ""},
		{"a node port that the cluster chooses is none", "type: NodePort, ports: [{port: 80, targetPort: 8080}]", "--publish 127.0.0.1::8080 --name-as s:80=a:8080", ""},
		{"two ports have two addresses", "type: LoadBalancer, ports: [{port: 80, targetPort: 8080}, {port: 8080}]", "--publish 127.0.0.1::8080 --name-as s:80=a:8080 --listen 8080=a:8080 --name-as s:8080=a:8080 --listen 8081=a:8080", ""},
		{"a port that no container has is lost", "ports: [{port: 80, targetPort: metrics}]", "", `port 80 of Service "s": no container has its targetPort metrics`},
		{"ports of UDP are lost", "ports: [{port: 53, protocol: UDP}]", "", `port 53/UDP of Service "s": names and addresses are those of TCP ports`},
	} {
		res, r := built(t, workload("Deployment", "")+"kind: Service\nmetadata: {name: s}\nspec: {selector: {app: web}, "+tc.spec+"}\n", true)
		want := strings.TrimSpace("--count 1 " + tc.flags)
		if got := strings.Join(res.Service.Flags, " "); got != want || lost(r) != tc.lost {
			t.Errorf("%s: %s, lost %q", tc.rule, got, lost(r))
		}
	}
}

func TestAServiceThatSelectsNobodyIsLost(t *testing.T) {
	t.Parallel()
	const message = `Service "s"` + selectsNobody
	service := func(spec string) string { return "kind: Service\nmetadata: {name: s}\nspec: {" + spec + "}\n" }
	for _, tc := range []struct {
		rule, manifests string
		lost            bool
	}{
		{"labels that the Pods have", workload("Deployment", "") + service("selector: {app: web}"), false},
		{"labels that no Pod has", workload("Deployment", "") + service("selector: {app: web, tier: x}"), true},
		{"no labels, as a name of another host", workload("Deployment", "") + service("type: ExternalName, externalName: a.example"), true},
		{"the Pods of a Job", workload("Job", "") + service("selector: {app: web}"), true},
		{"a Pod that ends", fmt.Sprintf(bare, "restartPolicy: Never,") + service("selector: {app: web}"), true},
		{"Pods of another namespace", workload("Deployment", "") + "kind: Service\nmetadata: {name: s, namespace: x}\nspec: {selector: {app: web}}\n", true},
	} {
		if _, r := built(t, tc.manifests, true); (lost(r) == message) != tc.lost {
			t.Errorf("%s: %q", tc.rule, lost(r))
		}
	}
	lossOf := func(messages ...string) (res toolfile.Result) {
		_, r := built(t, "kind: Service\n", true)
		for _, m := range messages {
			r.Lose(nil, m, "")
		}
		res.Lost = r.Losses
		return res
	}
	all := []toolfile.Result{lossOf(message, `Ingress "i"`+leadsNowhere, `Service "t"`+selectsNobody, "other"), lossOf(message)}
	if ServesNobody(all); len(all[0].Lost) != 2 || len(all[1].Lost) != 1 {
		t.Errorf("what only one member is not led to: %v", all)
	}
}

func TestMembersOfAStack(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ rule, manifest, want string }{
		{"a Job runs to its end", workload("Job", ""), "job=true"},
		{"a Pod that is restarted is a service of one copy", fmt.Sprintf(bare, "restartPolicy: Always,"), "job=false --count 1"},
		{"a Pod that is restarted on failure only is a job", fmt.Sprintf(bare, "restartPolicy: OnFailure,"), "job=true"},
		{"a CronJob is no job of the stack", "kind: CronJob\nmetadata: {name: web}\nspec: {}\n", "job=false"},
		{"an annotation says what a member waits for", "kind: Pod\nmetadata: {name: web, annotations: {podtask/after: 'db=healthy, cache'}}\n", "job=false --count 1 db=healthy cache"},
		{"claims are volumes", "kind: Pod\nmetadata: {name: web}\nspec: {volumes: [{persistentVolumeClaim: {claimName: files}}]}\n", "job=false --count 1 files"},
		{"each copy of a StatefulSet has storage of its own", workload("StatefulSet", "replicas: 2, volumeClaimTemplates: [{metadata: {name: data}}],"), "job=false --count 2 data data-web-1"},
	} {
		res, _ := built(t, tc.manifest, true)
		got := fmt.Sprint("job=", res.Stack.Job)
		if res.Service != nil {
			got += " " + strings.Join(res.Service.Flags, " ")
		}
		for _, word := range slices.Concat(res.Stack.After, res.Stack.Claims) {
			got += " " + word
		}
		if got != tc.want {
			t.Errorf("%s: %s", tc.rule, got)
		}
	}
}

func TestHooksOfAStack(t *testing.T) {
	t.Parallel()
	for hook, want := range map[string]int{"": 1, "pre-install": 1, "post-upgrade": 1, "test": 0, "pre-rollback": 0, "post-delete": 0, "pre-delete, pre-install": 1} {
		r := toolfile.NewReader(toolfile.Request{File: "m.yaml", Whole: true})
		docs, _ := r.Parse("m.yaml", []byte("kind: Job\nmetadata: {name: h, annotations: {helm.sh/hook: '"+hook+"'}}\n"))
		if got := len(Workloads(r, docs)); got != want {
			t.Errorf("a Job with the hook %q is %d members", hook, got)
		}
	}
	all := []toolfile.Result{
		{Stack: toolfile.Stack{Member: "late", Hook: "post-install"}}, {Stack: toolfile.Stack{Member: "web"}}, {Stack: toolfile.Stack{Member: "load", Job: true}},
		{Stack: toolfile.Stack{Member: "migrate", Hook: "pre-upgrade,pre-install"}}, {Stack: toolfile.Stack{Member: "backup", Hook: "pre-install", HookWeight: -5}},
		{Schedules: []toolfile.Schedule{{Name: "x"}}, Stack: toolfile.Stack{Member: "nightly"}},
	}
	HooksAfter(all)
	for i, tc := range []struct{ rule, want string }{
		{"a hook after the installation waits for all but schedules", "load=completed web=healthy"},
		{"a service waits for the hooks before", "backup=completed migrate=completed"},
		{"so does a job", "backup=completed migrate=completed"},
		{"a hook waits for those before it with a lower weight", "backup=completed"},
		{"the one with the lowest weight waits for none", ""},
		{"a schedule waits for the hooks before", "backup=completed migrate=completed"},
	} {
		if got := strings.Join(all[i].Stack.After, " "); got != tc.want {
			t.Errorf("%s: %s", tc.rule, got)
		}
	}
	if res, _ := built(t, "kind: Job\nmetadata: {name: h, annotations: {helm.sh/hook: pre-install, helm.sh/hook-weight: '-5'}}\n", true); res.Stack.HookWeight != -5 {
		t.Errorf("the weight of a hook is %d", res.Stack.HookWeight)
	}
}
