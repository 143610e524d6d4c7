package adapter

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/internal/aws/awsapi"
	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/define/catalog"
	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/podtask/podtask/internal/host/ulimit"
	"github.com/podtask/podtask/internal/serve"
	"github.com/podtask/podtask/internal/serve/ownerapi"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// doors are the backends of an agent without Podman.
type doors struct {
	agent    serve.AgentBackend
	ecs      ECS
	stateDir string
}

func openDoors(t testing.TB, settings *config.Settings) doors {
	t.Helper()
	return openDoorsIn(t, t.TempDir(), settings)
}

// openDoorsIn opens those of a state directory.
func openDoorsIn(t testing.TB, dir string, settings *config.Settings) doors {
	t.Helper()
	e, err := engine.Open(engine.Config{StateDir: dir, RuntimeDir: t.TempDir(), Settings: settings, Getenv: os.Getenv})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	fleet := engine.NewFleet(t.Context(), e)
	services, err := engine.NewServices(t.Context(), e, fleet, lifecycle.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := serve.NewAgentBackend(ownerapi.Host{Engine: e, Log: slog.New(slog.DiscardHandler), StateDir: dir}, settings, fleet, services)
	return doors{b, NewECS(b), dir}
}

// register registers a document and returns FAMILY:REVISION.
func (d doors) register(t *testing.T, src string) catalog.Revision {
	t.Helper()
	c, err := define.OpenCatalog(d.stateDir, "test")
	if err != nil {
		t.Fatal(err)
	}
	r, _, err := c.Register(t.Context(), catalog.Document{Family: "web", Digest: fmt.Sprint(len(src)), Source: []byte(src)}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// definition is the task that a request becomes, or the problem of the request.
type definition struct {
	Task    taskdef.Task
	Pull    lifecycle.PullBehavior
	Limits  string
	Quota   lifecycle.Quota
	Problem string
}

func definitionOf(task taskdef.Task, o lifecycle.Options, err error) definition {
	if err != nil {
		return definition{Problem: strings.TrimPrefix(err.Error(), "InvalidParameterException: ")}
	}
	return definition{Task: task, Pull: o.Pull, Limits: o.Limits, Quota: o.Quota}
}

// Every door makes the same task of a registered definition, an override and the configuration.
func TestDoorsAnswerAlike(t *testing.T) {
	t.Parallel()
	most, ok := ulimit.Hard("nofile")
	if !ok {
		t.Skip("this user may open any number of files")
	}
	settings := config.Default()
	settings.Tasks.ClampUlimits, settings.Tasks.Pull = true, lifecycle.PullNever
	d := openDoors(t, settings)
	for name, src := range map[string]string{
		"a limit above the user's": fmt.Sprintf(`{"family":"web","containerDefinitions":[{"name":"a","image":"i","ulimits":[{"name":"nofile","softLimit":%d,"hardLimit":%[1]d}]}]}`, most+1),
		"a placeholder":            `{"family":"web","containerDefinitions":[{"name":"a","image":"${IMAGE}"}]}`,
		"an unknown member":        `{"family":"web","containerDefinitions":[{"name":"a","image":"i","colour":"red"}]}`,
		"not valid":                `{"family":"web","containerDefinitions":[{"name":"a"}]}`,
		"a Pod":                    `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","uid":"0f8a1659-fc36-4cc6-83ba-9d14709f28ee"},"spec":{"containers":[{"name":"a","image":"i"}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			r := d.register(t, src)
			doc := define.Registered(r, []byte(src))

			task, options, err := d.agent.Define(t.Context(), doc, define.Changes{})
			byAPI := definitionOf(task, options, err)
			task, options, err = d.ecs.define(t.Context(), awsapi.NewTask{Cluster: arn.DefaultCluster, Definition: awsapi.Document{Name: doc.Name, Revision: doc.Revision, Source: doc.Source}})
			byAWS := definitionOf(task, options, err)
			spec, err := d.agent.Spec(t.Context(), doc.Name, api.ServiceSettings{}, 1)
			byService := definitionOf(spec.Task, options, err)
			read, err := define.Reader{Settings: settings}.Read(doc, define.Changes{})
			if err == nil {
				err = read.Err()
			}
			byRun := definitionOf(read.Task, read.Options, err)

			// The identity of a Pod is new each time.
			for _, a := range []*definition{&byAPI, &byAWS, &byService, &byRun} {
				a.Task.Extensions.Pod = json.RawMessage(nil)
			}
			for door, got := range map[string]definition{"RunTask": byAWS, "a service": byService, "run": byRun} {
				if diff := cmp.Diff(byAPI, got); diff != "" {
					t.Errorf("%s differs from the API:\n%s", door, diff)
				}
			}
			if name == "a limit above the user's" {
				if l := byAWS.Task.Containers[0].Linux.Ulimits[0]; l.Hard != int64(most) || l.Soft != int64(most) {
					t.Errorf("RunTask leaves the limit at %+v, want %d", l, most)
				}
			}
		})
	}
}
