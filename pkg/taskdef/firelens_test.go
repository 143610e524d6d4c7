package taskdef

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func routed(router, app string) []byte {
	return []byte(fmt.Sprintf(`{"family": "shop", "memory": "64", "containerDefinitions": [
 {"name": "router", "image": "i" %s},
 {"name": "app", "image": "i", "logConfiguration": {"logDriver": "awsfirelens" %s}}]}`, router, app))
}

const (
	fluentBit = `, "firelensConfiguration": {"type": "fluentbit"}`
	toStdout  = `, "options": {"Name": "stdout"}`
)

func TestMistakesInFireLensAreNamed(t *testing.T) {
	t.Parallel()
	sends := Settings{Logs: LogSettings{Mode: LogsAuto}}
	for _, tt := range []struct{ router, app, want string }{
		{``, toStdout, "/containerDefinitions/1/logConfiguration/logDriver: no container of the task is a log router"},
		{`, "firelensConfiguration": {"options": {}}`, toStdout, "/containerDefinitions/0/firelensConfiguration: type is missing"},
		{`, "firelensConfiguration": {"type": "vector"}`, toStdout, "/firelensConfiguration/type"},
		{fluentBit + `}, {"name": "second", "image": "i"` + fluentBit, toStdout, "container \"router\" is a log router too"},
		{fluentBit, `, "options": {"@type": "stdout"}`, `options of an output need Name`},
		{`, "firelensConfiguration": {"type": "fluentd"}`, toStdout, `options of an output need @type`},
		{fluentBit, `, "options": {"Name": "http", "header": "a\n[OUTPUT]"}`, "which would be more configuration"},
		{fluentBit, `, "options": {"Name": "http", "a b": "c"}`, "cannot be the name of an option"},
		{fluentBit, `, "options": {"Name": "` + strings.Repeat("x", 70_000) + `"}`, "more than 65536 bytes"},
		{`, "firelensConfiguration": {"type": "fluentbit", "options": {"config-file-type": "s3", "config-file-value": "arn"}}`, toStdout, "nothing is downloaded from S3"},
		{`, "firelensConfiguration": {"type": "fluentbit", "options": {"config-file-type": "ftp", "config-file-value": "/a"}}`, toStdout, "config-file-type"},
		{`, "firelensConfiguration": {"type": "fluentbit", "options": {"config-file-type": "file"}}`, toStdout, "needs config-file-value"},
		{`, "firelensConfiguration": {"type": "fluentbit", "options": {"config-file-type": "file", "config-file-value": "a"}}`, toStdout, "config-file-value"},
		{fluentBit, toStdout + `, "secretOptions": [{"name": "k", "valueFrom": "/prod/key"}]`, "mapped to nothing here"},
	} {
		_, report, err := sends.Parse("d.json", routed(tt.router, tt.app))
		got := fmt.Sprint(err)
		for _, n := range report.Needs {
			got += n.Message
		}
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s %.90s: %.300s, want %s", tt.router, tt.app, got, tt.want)
		}
	}
}

// A router starts first, unless it waits for something itself. Where nothing leaves the host
// there is none.
func TestARouterStartsFirst(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		router, mode string
		want         []Dependency
	}{
		{fluentBit, LogsAuto, []Dependency{{0, Start}}},
		{fluentBit, LogsLocal, nil},
		{fluentBit + `, "dependsOn": [{"containerName": "other", "condition": "START"}]}, {"name": "other", "image": "i"`, LogsRemote, nil},
	} {
		task, report, err := Settings{Logs: LogSettings{Mode: tt.mode}}.Parse("d.json", routed(tt.router, toStdout))
		if err != nil {
			t.Fatal(err)
		}
		app := len(task.Containers) - 1
		if got := task.Containers[app].DependsOn; !slices.Equal(got, tt.want) {
			t.Errorf("%s %s: app waits for %v, want %v", tt.router, tt.mode, got, tt.want)
		}
		if sends := tt.mode != LogsLocal; (RouterOf(task, tt.mode) == 0) != sends || RoutedBy(task, RouterOf(task, tt.mode), app) != sends {
			t.Errorf("%s: the router is %d", tt.mode, RouterOf(task, tt.mode))
		}
		if warns := fmt.Sprint(report.Warnings); strings.Contains(warns, "waits for other containers") != (app == 2) {
			t.Errorf("the warnings are %s", warns)
		}
	}
}

func TestOptionsOfARouter(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{"": false, "true": true, "false": false, "1": true, "si": false} {
		if got := (&FireLens{Options: map[string]string{routerMetadata: value}}).Metadata(); got != want {
			t.Errorf("%q: metadata %t", value, got)
		}
	}
	if f := (&FireLens{Options: map[string]string{routerFileValue: "/a"}}); !f.Metadata() || f.Include() != "" {
		t.Errorf("%+v", f)
	}
}
