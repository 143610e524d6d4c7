package taskdef

import (
	"fmt"
	"strings"
	"testing"

	"github.com/podtask/podtask/pkg/taskdef/refs"
)

func logged(driver, options, secret string) []byte {
	return []byte(fmt.Sprintf(`{"family": "shop", "memory": "64", "containerDefinitions": [{"name": "app", "image": "i",
 "logConfiguration": {"logDriver": "%s", "options": {%s}, "secretOptions": [%s]}}]}`, driver, options, secret))
}

const sound = `"splunk-url": "https://h:8088"`

// What a driver that sends cannot use is a mistake; where it does not send, a warning.
func TestOptionsOfDriversThatSendAreChecked(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ driver, options, secret, want string }{
		{"syslog", `"syslog-adress": "udp://h:1"`, "", `/options/syslog-adress: syslog has no option "syslog-adress"; did you mean "syslog-address"`},
		{"gelf", `"gelf-address": "udp://h"`, "", `/options/gelf-address: the address needs a host and a port`},
		{"gelf", ``, "", `/options: gelf needs the option gelf-address`},
		{"splunk", sound, "", "splunk needs the option splunk-token"},
		{"splunk", sound, `{"name": "splunk-token", "valueFrom": "/prod/token"}`, "the secret \"/prod/token\" is on AWS and mapped to nothing here"},
		{"splunk", sound + `, "splunk-token": "t"`, `{"name": "splunk-url", "valueFrom": "env:X"}`, `the log driver splunk has no secret option "splunk-url"`},
		{"fluentd", `"tag": "{{.Nam}}"`, "", "/options/tag: the tag is not valid"},
	} {
		_, report, err := Settings{Logs: LogSettings{Mode: LogsAuto}}.Parse("d.json", logged(tt.driver, tt.options, tt.secret))
		got := fmt.Sprint(err)
		for _, n := range report.Needs {
			got += n.Message
		}
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s %s: %s, want %s", tt.driver, tt.options, got, tt.want)
		}
		if _, _, err := (Settings{Logs: LogSettings{Mode: LogsLocal}}).Parse("d.json", logged(tt.driver, tt.options, tt.secret)); err != nil {
			t.Errorf("%s %s: local: %v", tt.driver, tt.options, err)
		}
	}
}

func TestDestinationsAreNamed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ driver, options, want string }{
		{"awslogs", `"awslogs-region": "r", "awslogs-group": "g", "tag": "{{.Name}}", "awslogs-endpoint": "http://h"`, "CloudWatch Logs r g, stream app"},
		{"syslog", `"syslog-address": "tcp+tls://h:1", "tag": "x/{{.ID}}"`, "syslog at tls://h:1, tag x/CONTAINERID"},
		{"gelf", `"gelf-address": "udp://h:1"`, "GELF server at udp://h:1"},
		{"fluentd", ``, "fluentd at tcp://127.0.0.1:24224, tag CONTAINERID"},
		{"splunk", sound, "Splunk at https://h:8088/services/collector/event/1.0"},
	} {
		settings := Settings{Logs: LogSettings{Mode: LogsAuto}, Refs: refs.Table{{Match: "/prod/token", Source: "env:TOKEN"}}}
		secret := ""
		if tt.driver == "splunk" {
			secret = `{"name": "splunk-token", "valueFrom": "/prod/token"}`
		}
		task, _, err := settings.Parse("d.json", logged(tt.driver, tt.options, secret))
		if err != nil {
			t.Fatal(err)
		}
		l := task.Containers[0].Log
		if got := l.Destination("app", settings.Logs); got != tt.want {
			t.Errorf("%s goes to %s, want %s", tt.driver, got, tt.want)
		}
		if len(l.SecretOptions) > 0 && l.SecretOptions[0].Source != "env:TOKEN" {
			t.Errorf("the token is from %+v", l.SecretOptions)
		}
		if got := l.Destination("app", LogSettings{Mode: LogsLocal}); got != "" {
			t.Errorf("local: %s goes to %s", tt.driver, got)
		}
	}
}
