package taskdef

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/pkg/taskdef/refs"
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
		{fluentBit, `, "options": {"Name": "http", "a\u0007b": "c"}`, "cannot be the name of an option"},
		{fluentBit, `, "options": {"Name": "` + strings.Repeat("x", 70_000) + `"}`, "more than 65536 bytes"},
		{`, "firelensConfiguration": {"type": "fluentbit", "options": {"config-file-type": "s3", "config-file-value": "arn"}}`, toStdout, "not the ARN of an object of S3"},
		{`, "firelensConfiguration": {"type": "fluentbit", "options": {"config-file-type": "s3", "config-file-value": "arn:aws:s3:::shop/extra.conf"}}`, toStdout, "config-file-value: the log configuration \"arn:aws:s3:::shop/extra.conf\" is on S3"},
		{`, "firelensConfiguration": {"type": "fluentbit", "options": {"config-file-type": "ftp", "config-file-value": "/a"}}`, toStdout, "config-file-type"},
		{`, "firelensConfiguration": {"type": "fluentbit", "options": {"config-file-type": "file"}}`, toStdout, "needs config-file-value"},
		{`, "firelensConfiguration": {"type": "fluentbit", "options": {"config-file-type": "file", "config-file-value": "a"}}`, toStdout, "config-file-value"},
		{fluentBit, toStdout + `, "secretOptions": [{"name": "k", "valueFrom": "/prod/key"}]`, "mapped to nothing here"},
	} {
		_, report, err := sends.Parse("d.json", routed(tt.router, tt.app))
		got := fmt.Sprint(err)
		for _, n := range report.Needs {
			got += fmt.Sprint(n.Pointer, ": ", n.Message)
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

// A configuration on S3 is a file of this host, at the place where the ECS agent mounts it.
func TestAConfigurationOnS3IsMapped(t *testing.T) {
	t.Parallel()
	const arn = "arn:aws:s3:::shop/extra.conf"
	rule := refs.Rule{Match: arn, Source: "file:/etc/extra.conf"}
	for kind, want := range map[string]string{"fluentbit": "/fluent-bit/etc/external.conf", "fluentd": "/fluentd/etc/external.conf"} {
		router := fmt.Sprintf(`, "firelensConfiguration": {"type": %q, "options": {"config-file-type": "s3", "config-file-value": %q}}`, kind, arn)
		for mode, path := range map[string]string{LogsAuto: "/etc/extra.conf", LogsLocal: ""} {
			task, report, err := Settings{Refs: refs.Table{rule}, Logs: LogSettings{Mode: mode}}.Parse("d.json", routed(router, ""))
			if err != nil || len(report.Needs) > 0 {
				t.Fatalf("%v, %+v", err, report.Needs)
			}
			if f := task.Containers[0].FireLens; f.Path != path || f.Include() != want {
				t.Errorf("%s %s: %+v includes %s", kind, mode, f, f.Include())
			}
		}
	}
}
