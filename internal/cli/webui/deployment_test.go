package webui

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/pkg/api"
)

// The history says which deployment is the present one, and how to return to another one.
func TestHistorySaysHowToReturn(t *testing.T) {
	t.Parallel()
	one := api.Service{
		ServiceName: "shop@box", RollbackTo: "shop/2", Deployments: []api.Deployment{{ID: "shop/3"}},
		History: []api.PastDeployment{
			{Number: 1, Deployment: "shop/1", Status: "SUCCESSFUL", TaskDefinition: "shop:1"}, {Number: 2, Deployment: "shop/2", Status: "SUCCESSFUL", TaskDefinition: "shop:2"},
			{Number: 3, Deployment: "shop/9", Status: "ROLLBACK_SUCCESSFUL", TaskDefinition: "shop:9", Reason: "it failed"}, {Number: 4, Deployment: "shop/2", Status: "SUCCESSFUL", TaskDefinition: "shop:2"},
			{Number: 5, Deployment: "shop/3", Status: "IN_PROGRESS", TaskDefinition: "shop:3"},
		},
	}
	var got []string
	for _, p := range newShop(one, Host{}, noon).Past() {
		got = append(got, fmt.Sprint(p.Number, " ", p.Status.Text, " ", p.Present, " ", p.Target, " ", p.Return))
	}
	want := []string{
		"5 in progress true false ", "4 done false true podtask --host box service rollback shop", "3 rolled back false false ",
		"2 done false false ", "1 done false false podtask --host box service update shop shop:1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Ten events are shown, in everyday words, the others are folded.
func TestEventsAreFolded(t *testing.T) {
	t.Parallel()
	one := api.Service{ServiceName: "shop"}
	for i := range 25 {
		one.Events = append(one.Events, api.ServiceEvent{ID: i, Message: fmt.Sprintf("(service shop) has started 1 tasks: (task shop-%d).", i)})
	}
	v := newShop(one, Host{}, noon)
	if a, b := v.Latest(), v.Earlier(); len(a) != 10 || len(b) != 15 || a[0].Text != "started shop-24" || b[14].Text != "started shop-0" {
		t.Errorf("%d and %d: %v", len(a), len(b), a)
	}
}

// What is down or has failed is red.
func TestWhatIsDownIsRed(t *testing.T) {
	t.Parallel()
	f := &fake{}
	b := opened(t, f, nil)
	b.server.watch.last = &look{at: noon, services: []api.Service{{
		ServiceName: "front", Status: "ACTIVE", Steady: true, DesiredCount: 1, HealthyCount: 1, Deployments: []api.Deployment{{ID: "d"}},
		Ingress: []api.Ingress{{URL: "https://front.example.org", Down: true, Problem: "certificate: refused"}},
		Tasks:   []api.ServiceTask{{ID: web().ID, Name: "front-1", Phase: "STOPPED", Failed: true, Reason: "CannotPullContainerError"}},
		Why:     []api.Reason{{Code: "ingress", Text: "https://front.example.org is not served: certificate: refused"}},
	}}}
	for path, wants := range map[string][]string{
		"/":              {`<li class="card alarm" id="service-front"`, `<span class="chip bad">address down</span>`, "is not served: certificate: refused", `class="port down"`, `<span class="chip bad">down</span>`},
		"/service/front": {`<span class="chip bad">address down</span>`, "certificate: refused", `class="alarm"><tr role="row"><th role="rowheader" scope="row"><a href="/task/` + web().ID + `">front-1</a></th><td role="cell" class="status"><span class="chip bad">failed</span>`},
	} {
		text := b.send("GET", path, nil, nil).Body.String()
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s has no %s: %s", path, want, text)
			}
		}
	}
}
