package endpoint

import (
	"encoding/json"
	"testing"

	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// TestPodsAreNoTasksOfECS: software that finds its endpoint takes them for some. Credentials that
// the user has configured are there all the same.
func TestPodsAreNoTasksOfECS(t *testing.T) {
	t.Parallel()
	pod := taskdef.Task{Extensions: taskdef.TaskExtensions{Pod: json.RawMessage(`{}`)}}
	f := &Factory{Namespaces: struct{ Namespaces }{}, Settings: config.Metadata{Enabled: true, File: true}, Getenv: func(string) string { return "eu-north-1" }}
	if o := f.Options(pod, lifecycle.Options{}); o.MetadataOptions != (lifecycle.MetadataOptions{}) {
		t.Errorf("a Pod has %+v", o.MetadataOptions)
	}
	if o := f.Options(taskdef.Task{}, lifecycle.Options{}); o.MetadataKey == "" || o.Region != "eu-north-1" || o.ExecutionEnv == "" || !o.MetadataFile {
		t.Errorf("a task has %+v", o.MetadataOptions)
	}
	f.Settings.CredentialsHelper = []string{"helper"}
	if o := f.Options(pod, lifecycle.Options{}); o.MetadataKey == "" || !o.Credentials || o.Region != "eu-north-1" || o.ExecutionEnv != "" || o.MetadataFile {
		t.Errorf("a Pod with credentials has %+v", o.MetadataOptions)
	}
}
