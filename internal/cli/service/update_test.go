package service

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/pkg/api"
)

// everyChange returns changes of which each member has a value; their number.
func everyChange(t *testing.T) (all api.TaskChanges, members []string) {
	t.Helper()
	values := map[reflect.Type]any{
		reflect.TypeFor[string](): "x", reflect.TypeFor[bool](): true, reflect.TypeFor[[]string](): []string{"x"},
		reflect.TypeFor[map[string]string](): map[string]string{"x": "y"}, reflect.TypeFor[json.RawMessage](): json.RawMessage(`{}`),
		reflect.TypeFor[[]api.EnvVar](): []api.EnvVar{{Name: "MODE", Value: "secret value"}}, reflect.TypeFor[[]api.Reference](): []api.Reference{{Match: "x", Source: "env:x"}},
	}
	v := reflect.ValueOf(&all).Elem()
	for part := range v.NumField() {
		for i := range v.Field(part).NumField() {
			f := v.Field(part).Field(i)
			value, known := values[f.Type()]
			if !known {
				t.Fatalf("the test has no value for %s", f.Type())
			}
			f.Set(reflect.ValueOf(value))
			members = append(members, v.Type().Field(part).Type.Field(i).Name)
		}
	}
	return all, members
}

// An update keeps what it does not name: nothing at all, or each member alone.
func TestUpdateKeepsEveryChangeThatItDoesNotName(t *testing.T) {
	t.Parallel()
	all, members := everyChange(t)
	if got := (api.TaskChanges{}).Over(all); !reflect.DeepEqual(got, all) {
		t.Errorf("%+v became %+v", all, got)
	}
	if got := all.Over(api.TaskChanges{}); !reflect.DeepEqual(got, all) {
		t.Errorf("%+v became %+v", all, got)
	}
	text, err := json.Marshal(all)
	var read api.TaskChanges
	if err != nil || json.Unmarshal(text, &read) != nil || !reflect.DeepEqual(read, all) {
		t.Errorf("%s is read as %+v: %v", text, read, err)
	}
	for _, m := range members {
		if changeFlags[m] == "" {
			t.Errorf("changeFlags has no flag for %s", m)
		}
	}
	for m := range changeFlags {
		if !slices.Contains(members, m) {
			t.Errorf("changeFlags has %s, which api.TaskChanges has not", m)
		}
	}
}

func TestUpdateReplacesWhatItNames(t *testing.T) {
	t.Parallel()
	before := api.TaskChanges{TaskSettings: api.TaskSettings{
		Environment: []api.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "1"}}, Publish: []string{"80"}, Memory: "1g", Vars: map[string]string{"x": "1", "y": "1"},
	}}
	given := api.TaskChanges{TaskSettings: api.TaskSettings{Environment: []api.EnvVar{{Name: "A", Value: "2"}}, Publish: []string{"81"}, Vars: map[string]string{"y": "2"}}}
	want := api.TaskChanges{TaskSettings: api.TaskSettings{
		Environment: []api.EnvVar{{Name: "B", Value: "1"}, {Name: "A", Value: "2"}}, Publish: []string{"81"}, Memory: "1g", Vars: map[string]string{"x": "1", "y": "2"},
	}}
	if got := given.Over(before); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	if before.Vars["y"] != "1" || len(before.Environment) != 2 {
		t.Errorf("the changes before have become %+v", before)
	}
}

// What a new definition resets is named, without values.
func TestDroppedChangesAreNamed(t *testing.T) {
	t.Parallel()
	all, members := everyChange(t)
	dropped := droppedChanges(all, api.TaskChanges{})
	if len(dropped) != len(members) || !slices.Contains(dropped, "-e MODE") || !slices.Contains(dropped, "--memory") || slices.Contains(dropped, "") {
		t.Errorf("%q", dropped)
	}
	if strings.Contains(strings.Join(dropped, " "), "secret value") {
		t.Errorf("%q has a value", dropped)
	}
	if again := droppedChanges(all, all); len(again) != 0 {
		t.Errorf("%q is given again", again)
	}
}

// Each flag of create and update is kept by an update that does not name it, or stands for the request alone.
func TestEveryFlagOfAServiceIsKept(t *testing.T) {
	t.Parallel()
	request := strings.Fields("family locked wait timeout force image")
	// Members of the configuration, which change only if they are given.
	config := strings.Fields("count min-healthy max no-rollback health-grace listen test-listen name-as namespace sleep-after hold ingress drain auto-update strategy bake step-percent step-bake canary-percent canary-bake hook alarm breaker-threshold breaker-cumulative early-success early-deferred")
	changes := strings.Fields("env env-file var override pull limits pids-limit cpu-period minimum-age clamp-ulimits without publish secret network memory cpus stop-timeout stop-after leave-out map-secret map-volume map-env-file map-log-config")
	for _, f := range SettingsFlags() {
		if name := f.Names()[0]; !slices.Contains(slices.Concat(request, config, changes), name) {
			t.Errorf("say of --%s whether an update keeps it: a member of api.TaskChanges, of the configuration, or a part of the request", name)
		}
	}
}
