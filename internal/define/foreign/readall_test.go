package foreign

import (
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/define/foreign/toolfile"
	"github.com/podtask/podtask/internal/define/stackfile"
	"github.com/podtask/podtask/pkg/taskdef"
)

func readAll(t *testing.T, file, src string, beside ...toolfile.File) []toolfile.Result {
	t.Helper()
	all, err := ReadAll(toolfile.Request{File: file, Source: []byte(src), Beside: beside}, "shop", "stack")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

const workloads = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, annotations: {podtask/after: "db=healthy"}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web, ports: [{containerPort: 8080, name: http}]}], volumes: [{name: v, persistentVolumeClaim: {claimName: files}}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: migrate, annotations: {helm.sh/hook: pre-upgrade}}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: m, image: m}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: check, annotations: {helm.sh/hook: test}}
spec: {restartPolicy: Never, containers: [{name: m, image: m}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: nowhere}
spec: {rules: [{host: a.example.org, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: none, port: {number: 80}}}}]}}]}
`

// Manifests of several files are a stack: Services of one select Pods of another, hooks have their order, and what leads nowhere is told once.
func TestReadAllOfManifests(t *testing.T) {
	t.Parallel()
	all := readAll(t, "web.yaml", workloads, toolfile.File{Name: "svc.yaml", Source: []byte(`apiVersion: v1
kind: Service
metadata: {name: www}
spec: {type: LoadBalancer, selector: {app: web}, ports: [{port: 80, targetPort: http}, {port: 53, protocol: UDP}, {port: 9, targetPort: nothing}]}
---
apiVersion: v1
kind: Pod
metadata: {name: db, labels: {app: db}}
spec: {containers: [{name: db, image: db}]}
`)})
	by := map[string]toolfile.Result{}
	for _, r := range all {
		by[r.Stack.Member] = r
	}
	if len(all) != 3 || len(by) != 3 {
		t.Fatalf("%d workloads: %v", len(all), by)
	}
	web, migrate, db := by["web"], by["migrate"], by["db"]
	for _, want := range []string{"--publish", "127.0.0.1::8080", "www:80=web:8080", "8080=web:8080"} {
		if !slices.Contains(web.Service.Flags, want) {
			t.Errorf("no %q in %q", want, web.Service.Flags)
		}
	}
	if !slices.Equal(web.Stack.After, []string{"db=healthy", "migrate=completed"}) || !slices.Equal(web.Stack.Claims, []string{"files"}) || web.Stack.Line != 1 {
		t.Errorf("web: %+v", web.Stack)
	}
	if !migrate.Stack.Job || migrate.Service != nil || len(migrate.Stack.After) > 0 || db.Stack.Job || db.Service == nil || db.Stack.File != "svc.yaml" {
		t.Errorf("migrate: %+v, db: %+v", migrate.Stack, db.Stack)
	}
	text := ""
	for _, r := range all {
		for _, l := range r.Lost {
			text += l.String() + "\n"
		}
	}
	for _, want := range []string{"port 53/UDP", "no container has its targetPort nothing", `Ingress "nowhere"`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	if strings.Contains(text, "another workload") {
		t.Errorf("a member is lost:\n%s", text)
	}
}

const template = `Resources:
  Cluster: {Type: AWS::ECS::Cluster}
  DbTask: {Type: AWS::ECS::TaskDefinition, Properties: {Family: db, ContainerDefinitions: [{Name: db, Image: db, PortMappings: [{ContainerPort: 5432}]}]}}
  Db: {Type: AWS::ECS::Service, Properties: {ServiceName: Db, TaskDefinition: !Ref DbTask}}
  WebTask: {Type: AWS::ECS::TaskDefinition, Properties: {Family: web, ContainerDefinitions: [{Name: web, Image: !Ref Image}]}}
  Web: {Type: AWS::ECS::Service, DependsOn: [Db, Cluster], Properties: {ServiceName: web, DesiredCount: 3, TaskDefinition: !Ref WebTask}}
  Nightly: {Type: AWS::Events::Rule, Properties: {Name: nightly, ScheduleExpression: "rate(1 day)", Targets: [{Id: t, Arn: a, EcsParameters: {TaskDefinitionArn: !Ref WebTask}}]}}
  Unused: {Type: AWS::ECS::TaskDefinition, Properties: {Family: unused, ContainerDefinitions: [{Name: u, Image: u}]}}
Parameters: {Image: {Type: String}}
`

// The services of a template are members: DependsOn is their order, a parameter of one of them is none that the others lack.
func TestReadAllOfATemplate(t *testing.T) {
	t.Parallel()
	req := toolfile.Request{File: "t.yaml", Source: []byte(template), Params: map[string]string{"Image": "web:2"}}
	all, err := ReadAll(req, "shop", "stack")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range all {
		names = append(names, r.Stack.Member)
	}
	if !slices.Equal(names, []string{"db", "web", "nightly"}) || len(all[2].Schedules) != 1 {
		t.Fatalf("%v", names)
	}
	web := all[1]
	if text := string(web.Definition.JSON()); !strings.Contains(text, `"family":"shop-web"`) || !strings.Contains(text, `{"key":"stack","value":"shop"}`) || !strings.Contains(text, "web:2") {
		t.Errorf("%s", text)
	}
	if !slices.Equal(web.Stack.After, []string{"db=healthy"}) || !slices.Contains(web.Service.Flags, "3") {
		t.Errorf("%+v, %v", web.Stack, web.Service.Flags)
	}
	req.Params["Imag"] = "x"
	if _, err := ReadAll(req, "shop", "stack"); err == nil || !strings.Contains(err.Error(), "--param Imag") {
		t.Errorf("a parameter that nothing asks for: %v", err)
	}
	req.Params = nil
	if _, err := ReadAll(req, "shop", "stack"); err == nil || strings.Count(err.Error(), "--param Image=") != 1 {
		t.Errorf("a parameter without a value: %v", err)
	}
}

func FuzzReadAll(f *testing.F) {
	f.Add([]byte(workloads))
	f.Add([]byte(template))
	f.Fuzz(func(t *testing.T, src []byte) {
		all, err := ReadAll(toolfile.Request{File: "f.yaml", Source: src}, "shop", "stack")
		if err == nil && len(all) == 0 {
			t.Error("nothing is read, and nothing is wrong")
		}
	})
}

// The copies of a StatefulSet are those of a service, and each has storage of its own.
func TestReadAllOfAStatefulSet(t *testing.T) {
	t.Parallel()
	all := readAll(t, "db.yaml", `apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 3
  ordinals: {start: 5}
  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: db, image: db}]}}
  volumeClaimTemplates: [{metadata: {name: data}}]
`)
	if len(all) != 1 {
		t.Fatal(all)
	}
	if got := all[0]; !slices.Equal(got.Service.Flags, []string{"--count", "3"}) || !slices.Equal(got.Stack.Claims, []string{"data", "data-db-6", "data-db-7"}) {
		t.Errorf("%q, %q", got.Service.Flags, got.Stack.Claims)
	}
	if left := all[0].Lasting([]taskdef.Problem{{Pointer: "/spec/replicas"}}); len(left) > 0 {
		t.Errorf("%v is said of a service with all copies", left)
	}
}

// How many Pods of a Deployment are replaced at once is what a cluster would do, however it is written.
func TestRollout(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ copies, strategy, want string }{
		{"3", "{rollingUpdate: {maxUnavailable: 1, maxSurge: 2}}", "66 167"},
		{"3", "{rollingUpdate: {maxUnavailable: 25%, maxSurge: 25%}}", "100 134"},
		{"4", "{rollingUpdate: {maxUnavailable: 10%, maxSurge: 0}}", "75 100"},
		{"2", "{rollingUpdate: {maxUnavailable: 100%}}", "0"},
		{"2", "{rollingUpdate: {maxSurge: 0}}", "50 100"},
		{"2", "{type: Recreate}", "0 100"},
		{"2", "{type: RollingUpdate}", ""},
		{"0", "{rollingUpdate: {maxUnavailable: 1}}", ""},
		{"2", "{rollingUpdate: {maxUnavailable: x, maxSurge: -1}}", ""},
	} {
		all := readAll(t, "web.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: "+tc.copies+
			"\n  strategy: "+tc.strategy+"\n  template: {spec: {containers: [{name: a, image: a}]}}\n")
		var got []string
		for i, f := range all[0].Service.Flags {
			if f == "--min-healthy" || f == "--max" {
				got = append(got, all[0].Service.Flags[i+1])
			}
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s of %s: %q, want %s", tc.strategy, tc.copies, got, tc.want)
		}
	}
}

// A container of a stack file is a member like one of a definition, and its volumes belong to the stack.
func TestInline(t *testing.T) {
	t.Parallel()
	f, problems := stackfile.Parse("stack.yaml", []byte("members:\n  db:\n    image: localhost/db\n    volumes: ['data:/d', './init:/init:ro']\n"))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	r, err := Inline(toolfile.Request{File: "stack.yaml", Dir: "/app"}, f.Members[0].Inline, "shop", "db", "stack")
	if err != nil {
		t.Fatal(err)
	}
	text := string(r.Definition.JSON())
	for _, want := range []string{`"family":"shop-db"`, `"name":"shop_data"`, `"sourcePath":"/app/init"`, `"tags":[{"key":"stack","value":"shop"}]`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if p := r.Locate(taskdef.Problem{Pointer: "/containerDefinitions/0/mountPoints/1"}, nil); p.Line != 4 || p.File != "stack.yaml" {
		t.Errorf("%+v", p)
	}
	if r, err := Read(toolfile.Request{File: "web.yaml", Dir: "/app", Source: []byte("containers: {web: {image: i, volumes: ['./a:/a']}}")}); err != nil || r.Name != "web" || !strings.Contains(string(r.Definition.JSON()), `"/app/a"`) {
		t.Errorf("%+v, %v", r, err)
	}
}
