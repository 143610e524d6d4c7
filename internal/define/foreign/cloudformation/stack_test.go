package cloudformation

import (
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/define/foreign/toolfile"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// workloads finds the workloads of t.yaml, one of several files by their names.
func workloads(t *testing.T, files map[string]string) (*toolfile.Reader, []*toolfile.Workload) {
	t.Helper()
	r := toolfile.NewReader(toolfile.Request{File: "t.yaml", Base: "t.yaml", Open: func(name string) ([]byte, error) { return []byte(files[name]), nil }})
	docs, ok := r.Parse("t.yaml", []byte(files["t.yaml"]))
	if !ok {
		t.Fatal(r.Err())
	}
	return r, Workloads(r, docs)
}

const task = "\n  Task: {Type: AWS::ECS::TaskDefinition, Properties: {Family: job, ContainerDefinitions: [{Name: a, Image: i}]}}"

// What a template has beside the workload that is chosen, and what becomes of it.
func TestResourcesOfATemplate(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ rule, resources, lost string }{
		{"a rule without targets starts nothing and is lost", task + "\n  R: {Type: AWS::Events::Rule, Properties: {ScheduleExpression: rate(1 hour)}}", "ignored resources: AWS::Events::Rule (1)"},
		{"a rule with targets that are no tasks is lost", task + "\n  R: {Type: AWS::Events::Rule, Properties: {Targets: [{Id: f, Arn: x}]}}", "ignored resources: AWS::Events::Rule (1)"},
		{"a cluster is this host", task + "\n  C: {Type: AWS::ECS::Cluster}", ""},
		{"a target that scales another service is lost", task + "\n  S: {Type: AWS::ApplicationAutoScaling::ScalableTarget, Properties: {ResourceId: service/c/other}}", "S: " + toolfile.FixedCopies},
		{"resources that nothing stands for are counted by their kinds", task + "\n  A: {Type: AWS::SNS::Topic}\n  B: {Type: AWS::SNS::Topic}", "ignored resources: AWS::SNS::Topic (2)"},
	} {
		r, all := workloads(t, map[string]string{"t.yaml": "Resources:" + tc.resources})
		if len(all) != 1 {
			t.Errorf("%s: %d workloads", tc.rule, len(all))
			continue
		}
		all[0].Build(&toolfile.Result{})
		if lost := messages(r); lost != tc.lost || r.Err() != nil {
			t.Errorf("%s: lost %q; %v", tc.rule, lost, r.Err())
		}
	}
}

func messages(r *toolfile.Reader) string {
	var all []string
	for _, l := range r.Losses {
		all = append(all, l.Message)
	}
	return strings.Join(all, "\n")
}

func TestWorkloadsOfATemplate(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ rule, text, want string }{
		{"the definition of a service counts only by its name", "Resources:" + task + "\n  Web: {Type: AWS::ECS::Service, Properties: {TaskDefinition: !Ref Task}}", "Web, Task used"},
		{"a service with a false condition is absent", "Conditions: {No: !Equals [a, b]}\nResources:" + task + "\n  Web: {Type: AWS::ECS::Service, Condition: No, Properties: {TaskDefinition: !Ref Task}}", "Web absent, Task used"},
		{"a condition that is not known leaves a service", "Parameters: {P: {Type: String}}\nConditions: {Maybe: !Equals [!Ref P, b]}\nResources:" + task + "\n  Web: {Type: AWS::ECS::Service, Condition: Maybe, Properties: {TaskDefinition: !Ref Task}}", "Web, Task used"},
		{"each target of a rule that is a task is a workload", "Resources:" + task + "\n  R: {Type: AWS::Events::Rule, Properties: {Targets: [{Id: a, EcsParameters: {TaskDefinitionArn: !Ref Task}}, {Id: f, Arn: x}, {Id: b, EcsParameters: {TaskDefinitionArn: !Ref Task}}]}}", "R/a, R/b, Task used"},
		{"the digits of CDK are no part of a name", "Resources:\n  Task0A1B2C3D: {Type: AWS::ECS::TaskDefinition}", "Task0A1B2C3D as Task"},
	} {
		r, all := workloads(t, map[string]string{"t.yaml": tc.text})
		var got []string
		for _, w := range all {
			word := w.Names[0]
			for state, is := range map[string]bool{" used": w.Used, " absent": w.Absent, " as Task": w.Name == "Task"} {
				if is {
					word += state
				}
			}
			got = append(got, word)
		}
		if text := strings.Join(got, ", "); text != tc.want || r.Err() != nil {
			t.Errorf("%s: %s; %v", tc.rule, text, r.Err())
		}
	}
}

func TestWhatDoesNotBuildIsTold(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ rule, text, want string }{
		{"a service whose definition is not in the file", "Resources: {Web: {Type: AWS::ECS::Service, Properties: {TaskDefinition: web:3}}}", `the task definition "web:3" is not in this file`},
		{"a service without a definition", "Resources: {Web: {Type: AWS::ECS::Service, Properties: {DesiredCount: 1}}}", "TaskDefinition is missing"},
		{"a definition without properties", "Resources: {Task: {Type: AWS::ECS::TaskDefinition}}", "the task definition has no Properties"},
		{"a service whose condition is false", "Conditions: {No: !Equals [a, b]}\nResources:\n  Web: {Type: AWS::ECS::Service, Condition: No, Properties: {TaskDefinition: !Ref Task}}" + task, "Web does not exist: its condition No is false"},
	} {
		r, all := workloads(t, map[string]string{"t.yaml": tc.text})
		all[0].Build(&toolfile.Result{})
		if err := r.Err(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", tc.rule, err)
		}
	}
}

func TestNestedStacks(t *testing.T) {
	t.Parallel()
	const child = "Parameters: {Image: {Type: String, Default: own}}\nResources:\n  Task: {Type: AWS::ECS::TaskDefinition, Properties: {ContainerDefinitions: [{Image: !Ref Image}]}}\nOutputs: {Name: {Value: !Sub '${AWS::StackName}'}}\n"
	nested := func(properties string) string {
		return "Parameters: {Image: {Type: String, Default: parent}}\nResources:\n  Shop: {Type: AWS::CloudFormation::Stack, Properties: {TemplateURL: " + properties + "}}\n"
	}
	for _, tc := range []struct{ rule, parent, want string }{
		{"a parameter of the parent replaces the default", nested("c.yaml, Parameters: {Image: !Ref Image}"), `"image":"parent"`},
		{"a parameter that the parent leaves out has its default", nested("c.yaml"), `"image":"own"`},
		{"a parameter without a value of the parent has its default", nested("c.yaml, Parameters: {Image: !Ref AWS::NoValue}"), `"image":"own"`},
		{"an output of another nested stack is evaluated there", nested("c.yaml, Parameters: {Image: !GetAtt Other.Outputs.Name}") + "  Other: {Type: AWS::CloudFormation::Stack, Properties: {TemplateURL: d.yaml}}\n", `"image":"t-Other"`},
	} {
		r, all := workloads(t, map[string]string{"t.yaml": tc.parent, "c.yaml": child, "d.yaml": "Resources: {}\nOutputs: {Name: {Value: !Ref AWS::StackName}}\n"})
		if len(all) != 1 || all[0].Names[0] != "Shop.Task" {
			t.Errorf("%s: %v, %v", tc.rule, all, r.Err())
			continue
		}
		if def := string(all[0].Build(&toolfile.Result{}).JSON()); !strings.Contains(def, tc.want) || r.Err() != nil {
			t.Errorf("%s: %s; %v", tc.rule, def, r.Err())
		}
	}
	for rule, tc := range map[string][2]string{
		"a template on S3 is lost":                 {nested("https://s3/c.yaml"), "the template of the nested stack Shop is not a local file"},
		"a template outside of the directory":      {nested("../c.yaml"), "import reads no file outside of it"},
		"a stack that contains itself":             {nested("t.yaml"), "the nested stack Shop contains itself: t.yaml"},
		"an output of a template that is not here": {nested("c.yaml, Parameters: {Image: !GetAtt Other.Outputs.Name}") + "  Other: {Type: AWS::CloudFormation::Stack, Properties: {TemplateURL: s3://d}}\n", "Outputs.Name of Other (AWS::CloudFormation::Stack) is known on AWS only; give --param Other.Outputs.Name=VALUE"},
		"an output that the stack has not":         {nested("c.yaml, Parameters: {Image: !GetAtt Other.Outputs.Nme}") + "  Other: {Type: AWS::CloudFormation::Stack, Properties: {TemplateURL: d.yaml}}\n", `the nested stack Other has no output "Nme"`},
	} {
		r, all := workloads(t, map[string]string{"t.yaml": tc[0], "c.yaml": child, "d.yaml": "Resources: {}\n"})
		for _, w := range all {
			w.Build(&toolfile.Result{})
		}
		told := messages(r)
		if r.Err() != nil {
			told = r.Err().Error()
		}
		if !strings.Contains(told, tc[1]) {
			t.Errorf("%s: %s", rule, told)
		}
	}
}

func TestMembersOfADefinitionAndAService(t *testing.T) {
	t.Parallel()
	const header = "Parameters: {Arn: {Type: String}}\nConditions: {Yes: !Equals [a, a]}\nResources:\n  Web: {Type: AWS::ECS::Service, Properties: {TaskDefinition: !Ref Task"
	service := func(members string) string { return header + members + "}}" + task }
	environment := func(value string) string {
		return "Resources: {Task: {Type: AWS::ECS::TaskDefinition, Properties: {ContainerDefinitions: [{Environment: [{Name: A, Value: '" + value + "'}]}]}}}"
	}
	const balancer = "loadBalancers: host names, paths and certificates of the load balancer; the service listens on port 8080 instead"
	for _, tc := range []struct{ rule, text, want, lost, problem string }{
		{"a load balancer needs no ARN", service(", LoadBalancers: [{ContainerName: a, ContainerPort: 80, TargetGroupArn: !Ref Arn}]"), "--listen 8080=a:80", balancer, ""},
		{"a load balancer may depend on a condition", service(", LoadBalancers: !If [Yes, [!If [Yes, {ContainerName: a, ContainerPort: 80}, !Ref AWS::NoValue]], !Ref AWS::NoValue]"), "--listen 8080=a:80", balancer, ""},
		{"a variable of a secret is one", environment("{{resolve:ssm:/a}}"), `"environment":[],"secrets":[{"name":"A","valueFrom":"/a"}]`, "", ""},
		{"the version of a parameter is lost", environment("{{resolve:ssm:/a:2}}"), `"valueFrom":"/a"`, "version 2 of the parameter /a: a secret is read by its name alone", ""},
		{"a reference within a text is asked for", environment("x-{{resolve:ssm:/a}}"), "", "", "CloudFormation reads a value from ssm:/a here; give --param resolve:ssm:/a=VALUE"},
	} {
		r, all := workloads(t, map[string]string{"t.yaml": tc.text})
		res := toolfile.Result{Name: "web"}
		got := string(all[0].Build(&res).JSON())
		if res.Service != nil {
			got = strings.Join(res.Service.Flags, " ")
		}
		wrong := r.Err() != nil && (tc.problem == "" || !strings.Contains(r.Err().Error(), tc.problem)) || r.Err() == nil && tc.problem != ""
		if !strings.Contains(got, tc.want) || messages(r) != tc.lost || wrong {
			t.Errorf("%s: %s; lost %q; %v", tc.rule, got, messages(r), r.Err())
		}
	}
}

func TestAnExportOfAnotherStackIsEvaluatedThere(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"a.json": "Parameters: {Tag: {Default: own}}\nResources: {}\nOutputs: {O: {Value: !Ref Tag, Export: {Name: !Sub '${AWS::StackName}-Tag'}}}",
		"b.json": "Parameters: {Tag: {Default: other}}\nResources: {}\nOutputs: {O: {Value: x, Export: {Name: b-Tag}}}\nValue: [!ImportValue a-Tag, !ImportValue b-Tag]",
	}
	r := toolfile.NewReader(toolfile.Request{File: "manifest.json", Open: func(name string) ([]byte, error) { return []byte(files[name]), nil }})
	docs, _ := r.Parse("manifest.json", []byte(`{"artifacts": {"a": {"type": "aws:cloudformation:stack", "properties": {"templateFile": "a.json"}}, "b": {"type": "aws:cloudformation:stack", "properties": {"templateFile": "b.json"}}}}`))
	a := &assembly{Reader: r, loose: map[string]bool{}}
	a.manifest(docs[0], "manifest.json", 0)
	b := a.stacks[1]
	if got := string(b.eval(b.root.Member("Value"), false).JSON()); got != `["own",""]` {
		t.Errorf("%s; %v", got, r.Err())
	}
	if err := r.Err(); err == nil || !strings.Contains(err.Error(), "the export b-Tag of another stack is not known") {
		t.Errorf("an export of the stack itself: %v", err)
	}
}

func TestDynamicReferencesBecomeSecrets(t *testing.T) {
	t.Parallel()
	const arn = "arn:aws:secretsmanager:eu-west-1:1:secret:shop-AbCdEf"
	for _, tc := range []struct{ rule, text, name, version string }{
		{"a parameter is its name", "{{resolve:ssm:/shop/flag}}", "/shop/flag", ""},
		{"the version of a parameter is told apart", "{{resolve:ssm-secure:/shop/key:3}}", "/shop/key", "3"},
		{"an ARN of a parameter stays whole", "{{resolve:ssm:arn:aws:ssm:eu-west-1:1:parameter/key}}", "arn:aws:ssm:eu-west-1:1:parameter/key", ""},
		{"a name of a secret becomes an ARN", "{{resolve:secretsmanager:shop}}", "arn:aws:secretsmanager:local:000000000000:secret:shop", ""},
		{"an ARN of a secret stays whole", "{{resolve:secretsmanager:" + arn + "}}", arn, ""},
		{"a key of a secret has three parts behind the ARN", "{{resolve:secretsmanager:" + arn + ":SecretString:password}}", arn + ":password::", ""},
		{"a stage and a version of a secret stay", "{{resolve:secretsmanager:" + arn + ":SecretString:password:AWSPREVIOUS:v}}", arn + ":password:AWSPREVIOUS:v", ""},
		{"all of a secret needs no key", "{{resolve:secretsmanager:" + arn + ":SecretString::}}", arn, ""},
	} {
		service, rest, ok := wholeDynamic(tc.text)
		if name, version := dynamicName(service, rest); !ok || name != tc.name || version != tc.version {
			t.Errorf("%s: %s, version %q, %v", tc.rule, name, version, ok)
		}
	}
	for rule, text := range map[string]string{
		"a reference within a text": "x{{resolve:ssm:/a}}", "two references": "{{resolve:ssm:/a}}{{resolve:ssm:/b}}", "a service that has no references": "{{resolve:dynamodb:a}}", "no name": "{{resolve:ssm:}}",
	} {
		if service, rest, ok := wholeDynamic(text); ok {
			t.Errorf("%s is a whole reference: %s %s", rule, service, rest)
		}
	}
}

func TestAFactOfAStackIsTheOneOfItsEnvironment(t *testing.T) {
	t.Parallel()
	for environment, want := range map[string]map[string]string{
		"aws://1/eu-west-1": {"AWS::AccountId": "1", "AWS::Region": "eu-west-1"}, "aws://unknown-account/eu-west-1": {"AWS::Region": "eu-west-1"}, "aws://unknown-account/unknown-region": {},
	} {
		r := toolfile.NewReader(toolfile.Request{File: "manifest.json", Open: func(string) ([]byte, error) { return []byte("Resources: {}"), nil }})
		docs, _ := r.Parse("manifest.json", []byte(`{"artifacts": {"S": {"type": "aws:cloudformation:stack", "environment": "`+environment+`", "properties": {"templateFile": "s.json"}}}}`))
		a := &assembly{Reader: r}
		a.manifest(docs[0], "manifest.json", 0)
		if len(a.stacks) != 1 || len(a.stacks[0].facts) != len(want) {
			t.Errorf("%s: %v, %v", environment, a.stacks, r.Err())
			continue
		}
		for name, v := range want {
			if a.stacks[0].facts[name] != v {
				t.Errorf("%s: %v", environment, a.stacks[0].facts)
			}
		}
	}
}

func TestAResourceIsReferredTo(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"!Ref Web": true, "!GetAtt Web.Name": true, "!Sub 'service/main/${Web.Name}'": true, "!Sub 'service/${Web}'": true, "!Join ['/', [service, !GetAtt [Web, Name]]]": true,
		"!Ref Webhook": false, "!Sub 'service/${Webhook.Name}'": false, "service/main/Web": false,
	} {
		docs, ok := toolfile.NewReader(toolfile.Request{File: "t.yaml"}).Parse("t.yaml", []byte("V: "+text))
		if got := ok && refersTo(docs[0].Member("V"), "Web"); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	if !slices.Equal(dependsOn(&doctree.Node{Kind: doctree.Text, Text: "A"}), []string{"A"}) {
		t.Error("one name of DependsOn")
	}
}
