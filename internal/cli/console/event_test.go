package console

import (
	"fmt"
	"slices"
	"testing"

	"github.com/podtask/podtask/pkg/api"
)

func TestEventsOfATaskAreToldOnce(t *testing.T) {
	t.Parallel()
	none, three := api.ExitCode(0), api.ExitCode(3)
	var got []string
	for _, e := range TaskEvents([]api.Transition{
		{Container: "db", Status: "MANIFEST_PULLED"}, {Container: "web", Status: "MANIFEST_PULLED"}, {Status: "MANIFEST_PULLED"},
		{Container: "db", Status: "PULLED", Reason: "local copy"}, {Container: "web", Status: "PULLED"}, {Container: "~infra", Status: "RESOURCES_PROVISIONED"},
		{Container: "db", Status: "CREATED"}, {Container: "web", Status: "CREATED"}, {Status: "CREATED"},
		{Container: "db", Status: "RUNNING"}, {Container: "db", Status: "HEALTHY"}, {Container: "web", Status: "RUNNING"}, {Status: "RUNNING"},
		{Container: "web", Status: "UNHEALTHY", Reason: "refused\x1b[31m"}, {Container: "web", Status: "STOPPED", ExitCode: &three}, {Container: "db", Status: "STOPPED", ExitCode: &none},
		{Status: "STOPPED", Reason: "essential container web exited with code 3"},
		{Container: "db", Status: "STOPPED", Reason: "CannotPullContainerError: no such tag"}, {Container: "~infra", Status: "STOPPED"},
		{Status: "STOPPED", ExitCode: &three, Reason: "TaskFailedToStart: essential container db could not start"},
	}) {
		got = append(got, fmt.Sprintf("%s %s %s %v", e.Of, e.What, e.Reason, e.Failed))
	}
	want := []string{
		"db, web image resolved  false", "db image pulled local copy false", "web image pulled  false", "db, web created  false", "db running  false", "db healthy  false", "web running  false",
		"web unhealthy refused [31m true", "web exited (3)  true", "db exited (0)  false", "(task) stopped essential container web exited with code 3 false",
		"db failed CannotPullContainerError: no such tag true", "(pod) stopped  false", "(task) failed TaskFailedToStart: essential container db could not start true",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nnot %q", got, want)
	}
}
