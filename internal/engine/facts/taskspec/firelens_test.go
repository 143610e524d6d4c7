package taskspec

import (
	"maps"
	"strings"
	"testing"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

// routed is a task of a router and an app that logs to it with a secret option.
func routed(kind string, network taskdef.NetworkMode) lifecycle.State {
	s := stateOf(taskdef.Task{Family: "shop", Revision: 3, Network: network, Containers: []taskdef.Container{
		{Name: "router", Memory: 100 << 20, FireLens: &taskdef.FireLens{Type: kind}},
		{Name: "app", Log: &taskdef.LogConfiguration{
			Driver: logdriver.FireLens, Options: map[string]string{"Name": "http", "@type": "http"},
			SecretOptions: []taskdef.Secret{{Name: "key", SecretValue: taskdef.SecretValue{ValueFrom: "env:KEY", Source: "env:KEY"}}},
		}},
	}})
	s.Options.Logs = taskdef.LogsAuto
	return s
}

func TestARouterHasItsConfigurationAndSecrets(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind, reference, listens string
		network                  taskdef.NetworkMode
		app                      map[string]string
	}{
		{"fluentbit", "key ${key_1}", "Listen 127.0.0.1", taskdef.NetworkAWSVPC, map[string]string{"FLUENT_HOST": "127.0.0.1", "FLUENT_PORT": "24224"}},
		{"fluentd", `key "#{ENV['key_1']}"`, "bind 0.0.0.0", taskdef.NetworkBridge, map[string]string{"FLUENT_HOST": "router", "FLUENT_PORT": "24224"}},
		{"fluentd", `key "#{ENV['key_1']}"`, "", taskdef.NetworkHost, nil},
	} {
		s := routed(tt.kind, tt.network)
		config := string(RouterConfig(s))
		for _, want := range []string{tt.reference, tt.listens, "app-firelens*", "ecs_task_arn " + TaskARN(s), "ecs_task_definition shop:3"} {
			if !strings.Contains(config, want) {
				t.Errorf("%s: no %s in\n%s", tt.network, want, config)
			}
		}
		if tt.network == taskdef.NetworkHost && strings.Contains(config, "24224") {
			t.Errorf("on the host's network it listens on a port:\n%s", config)
		}
		router, app := Container(s, 0, "image"), Container(s, 1, "image")
		if len(router.SecretEnv) != 1 || router.SecretEnv["key_1"] == "" || len(app.SecretEnv) != 0 {
			t.Errorf("secrets: router %v, app %v", router.SecretEnv, app.SecretEnv)
		}
		if uid := router.Env["FLUENT_UID"]; (uid == "0") != (tt.kind == "fluentd") {
			t.Errorf("%s: FLUENT_UID is %q", tt.kind, uid)
		}
		if got := routerEnv(s, 1); !maps.Equal(got, tt.app) || app.Env["FLUENT_HOST"] != tt.app["FLUENT_HOST"] {
			t.Errorf("%s: the app has %v", tt.network, got)
		}
		if all := Secrets(s); len(all) != 1 || !all[0].Own || !all[0].ProcessLocal() {
			t.Errorf("the secrets are %+v", all)
		}
		s.Options.Logs = taskdef.LogsLocal
		if c := Container(s, 1, "image"); len(Container(s, 0, "image").SecretEnv) > 0 || c.Env["FLUENT_HOST"] != "" {
			t.Errorf("local: %v", c.Env)
		}
	}
}
