package console

import (
	"testing"

	"github.com/podtask/podtask/pkg/api"
)

func TestStateOfAServiceInEverydayWords(t *testing.T) {
	t.Parallel()
	steady := api.Service{Status: "ACTIVE", Steady: true, DesiredCount: 2, HealthyCount: 2}
	with := func(change func(*api.Service)) api.Service {
		s := steady
		change(&s)
		return s
	}
	staged := func(p api.DeploymentProgress) api.Service {
		return with(func(s *api.Service) { s.Steady, s.History = false, []api.PastDeployment{{Progress: &p}} })
	}
	for _, c := range []struct {
		service api.Service
		words   string
		kind    Kind
	}{
		{steady, "steady", Good},
		{with(func(s *api.Service) { s.Status = "DRAINING" }), "draining", Busy},
		{with(func(s *api.Service) { s.HealthyCount = 0 }), "down", Bad},
		{with(func(s *api.Service) { s.DesiredCount = 0 }), "no copies", Idle},
		{with(func(s *api.Service) { s.Steady = false }), "updating", Busy},
		{with(func(s *api.Service) { s.HealthyCount, s.Sleep = 0, api.SleepAsleep }), "asleep", Idle},
		{with(func(s *api.Service) { s.Sleep = api.SleepWaking }), "waking", Busy},
		{with(func(s *api.Service) { s.Listeners = []api.Listener{{Problem: "address already in use"}} }), "address down", Bad},
		{with(func(s *api.Service) { s.Ingress = []api.Ingress{{Problem: "no certificate", Down: true}} }), "address down", Bad},
		{with(func(s *api.Service) {
			s.Sleep, s.Ingress = api.SleepAsleep, []api.Ingress{{Problem: "no certificate", Down: true}}
		}), "address down", Bad},
		{with(func(s *api.Service) { s.Ingress = []api.Ingress{{Problem: "its certificate is being issued"}} }), "steady", Good},
		{with(func(s *api.Service) { s.Deployments = []api.Deployment{{RolloutState: "FAILED"}} }), "failed", Bad},
		{staged(api.DeploymentProgress{Stage: "BAKE_TIME"}), "watching", Busy},
		{staged(api.DeploymentProgress{Stage: "BAKE_TIME", Returning: true}), "rolling back", Warn},
		{staged(api.DeploymentProgress{Stage: "BAKE_TIME", Hooks: []api.HookCall{{Status: "AWAITING_ACTION"}}}), "paused", Warn},
	} {
		if words, kind := ServiceState(c.service); words != c.words || kind != c.kind {
			t.Errorf("%+v: %s, %s, want %s, %s", c.service, words, kind, c.words, c.kind)
		}
	}
}

func TestEventsOfAServiceInEverydayWords(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"(service web) has started 1 tasks: (task web-2).":                                                  "started web-2",
		"(service web) has started 3 tasks: (task web-1) (task web-2) (task web-3).":                        "started web-1, web-2, web-3",
		"(service web) has stopped 2 tasks: (task web-1) (task web-2).":                                     "stopped web-1, web-2",
		"(service web) stopped 1 pending tasks: (task web-1).":                                              "stopped web-1, which had not run yet",
		"(service web) has begun draining connections on 1 tasks.":                                          "lets the connections of a copy end",
		"(service web) has begun draining connections on 2 tasks.":                                          "lets the connections of 2 copies end",
		"(service web) (deployment web/1) deployment completed.":                                            "deployment web/1 completed",
		"(service web) (deployment web/2) deployment failed: tasks failed to start.":                        "deployment web/2 failed: tasks failed to start",
		"(service web) (deployment web/2) deployment stopped as asked.":                                     "deployment web/2 stopped as asked",
		"(service web) (deployment web/2) began with web:2.":                                                "deployment web/2 begins with web:2",
		"(service web) rolling back to (deployment web/1).":                                                 "rolling back to deployment web/1",
		"(service web) (deployment web/2) is rolled back to (deployment web/1) as asked.":                   "deployment web/2 is rolled back to deployment web/1 as asked",
		"(service web) (deployment web/2) is in the stage PRODUCTION_TRAFFIC_SHIFT.":                        "deployment web/2: shifting connections",
		"(service web) (task web-3) failed: CannotPullContainerError: manifest unknown.":                    "web-3 failed: CannotPullContainerError: manifest unknown",
		"(service web) was unable to place a task because it waits for port 80/tcp (task web-3).":           "web-3 cannot start yet: port 80/tcp",
		"(service web) is unable to consistently start tasks successfully; the next is due in 10s.":         "copies keep failing; the next one starts in 10s",
		"(service web) has a desired count of 3 instead of 2.":                                              "scaled from 2 to 3",
		"(service web) has reached a steady state.":                                                         "steady",
		"(service web) falls asleep: it had no connection for 15m. The next one wakes it.":                  "falls asleep: it had no connection for 15m. The next one wakes it",
		"(service web) has a problem with the certificate of https://web.example.org: it has \x1b[31mended": "has a problem with the certificate of https://web.example.org: it has  [31mended",
	} {
		if got := ServiceEvent("web", message); got != want {
			t.Errorf("%s\n is %s\nnot %s", message, got, want)
		}
	}
}
