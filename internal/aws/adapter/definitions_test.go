package adapter

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/internal/aws/awsapi"
	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Definitions as CDK and Terraform send them today, and as describe-task-definition prints them, are valid
// for `podtask validate`, are registered, and become the same task by RunTask.
func TestDefinitionsOfToolsAreTakenAlike(t *testing.T) {
	t.Parallel()
	settings := config.Default()
	settings.Tasks.Pull = lifecycle.PullNever
	d := openDoors(t, settings)
	files, err := filepath.Glob("testdata/definitions/*.json")
	if err != nil || len(files) < 5 {
		t.Fatalf("%v %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			refused, needs := strings.HasPrefix(filepath.Base(file), "refused-"), strings.HasPrefix(filepath.Base(file), "needs-")
			read, err := define.Reader{Settings: settings}.Read(define.Document{Name: file, Source: source}, define.Changes{})
			if err == nil {
				err = read.Err()
			}
			_, checked := d.ecs.Check(source)
			if (err != nil) != (refused || needs) || (checked != nil) != refused {
				t.Fatalf("validate: %v; RegisterTaskDefinition: %v", err, checked)
			}
			if refused {
				return
			}
			r := d.register(t, string(source))
			task, _, runErr := d.ecs.define(t.Context(), awsapi.NewTask{Cluster: arn.DefaultCluster, Definition: awsapi.Document{Name: "web:1", Revision: r.Revision, Source: source}})
			if (runErr != nil) != needs {
				t.Fatalf("RunTask: %v", runErr)
			}
			if needs { // both name what this host lacks
				for _, word := range []string{"secret:db-AbCdEf", "fs-0123456789abcdef0"} {
					if !strings.Contains(err.Error(), word) || !strings.Contains(runErr.Error(), word) {
						t.Errorf("%s: validate: %v; RunTask: %v", word, err, runErr)
					}
				}
				return
			}
			want := read.Task
			want.Revision = task.Revision
			if diff := cmp.Diff(want, task); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What DescribeTaskDefinition answers of such a definition is taken again, as deploy actions send it, and
// becomes the same task.
func TestADescribedDefinitionIsTakenAgain(t *testing.T) {
	t.Parallel()
	d := openDoors(t, config.Default())
	h := d.server(t)
	for _, name := range []string{"cdk-fargate", "cdk-ec2", "terraform", "terraform-neutral", "describe-query", "fault-injection"} {
		source, err := os.ReadFile("testdata/definitions/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var registered, described struct {
			TaskDefinition json.RawMessage `json:"taskDefinition"`
		}
		first := ask(t, h, "RegisterTaskDefinition", string(source))
		if err := json.Unmarshal([]byte(first), &registered); err != nil {
			t.Fatal(err)
		}
		second := ask(t, h, "RegisterTaskDefinition", string(registered.TaskDefinition))
		if err := json.Unmarshal([]byte(second), &described); err != nil {
			t.Fatal(err)
		}
		var tasks [2]taskdef.Task
		for i, doc := range []json.RawMessage{source, described.TaskDefinition} {
			if tasks[i], _, err = taskdef.Parse(name, doc); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			tasks[i].Identity.Tags = nil // they are beside the definition
		}
		if diff := cmp.Diff(tasks[0], tasks[1]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if faults := name == "fault-injection"; tasks[1].FaultInjection != faults || faults != strings.Contains(second, `"enableFaultInjection":true`) {
			t.Errorf("%s: enableFaultInjection is described as %s", name, second)
		}
		if has := strings.Contains(string(source), "trustedExecutionConfiguration"); has != strings.Contains(second, "trustedExecutionConfiguration") {
			t.Errorf("%s: trustedExecutionConfiguration is not described", name)
		}
	}
}
