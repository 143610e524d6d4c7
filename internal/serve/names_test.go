package serve

import (
	"strings"
	"testing"

	svc "github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef"
)

func TestWhySaysWhichNamesLeadNowhere(t *testing.T) {
	t.Parallel()
	named := func(name string, count int, tasks ...svc.Task) svc.State {
		return svc.State{
			Name: name, DesiredCount: count, Tasks: tasks, Deployments: []svc.Deployment{{ID: "d", Primary: true}},
			Config: svc.Config{Names: svc.Names{Namespace: "shop", Offered: []svc.Name{{Name: name, Port: 80}}}},
		}
	}
	healthy := svc.Task{ID: "a", Deployment: "d", Phase: svc.Live, HealthyNow: true}
	all := []svc.State{named("good", 1, healthy), named("sick", 2), named("none", 0)}
	got := strings.Join(explainNames(taskdef.Task{}, "shop", all), "|")
	if want := "connections to sick:80 wait: no copy of service sick is healthy; `podtask why sick` shows more|connections to none:80 find no copy: service none has a desired count of 0"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	own := taskdef.Task{Containers: []taskdef.Container{{Name: "app", Net: taskdef.ContainerNetwork{Hostname: "good"}}}}
	if got := explainNames(own, "shop", all[:1]); len(got) != 1 || got[0] != "the name good does not lead to service good in this task: it is the hostname of the container app" {
		t.Errorf("%q", got)
	}
	if got := explainNames(taskdef.Task{}, "elsewhere", all); len(got) != 1 || !strings.Contains(got[0], "no service has a name in the namespace elsewhere") {
		t.Errorf("%q", got)
	}
}
