package pod

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/refs"
)

// TestAValueWithASecretInItIsASecret, also one that names it over another variable. Sources of the
// command line count as the documents of the file do.
func TestAValueWithASecretInItIsASecret(t *testing.T) {
	t.Parallel()
	env := func(ref string) string {
		return `{containers: [{name: c, image: x, env: [{name: HOST, value: db}, {name: PW, valueFrom: {secretKeyRef: ` + ref + `}},
			{name: URL, value: "u:$(PW)@$(HOST)"}, {name: TWICE, value: "$(URL)/$(PW)$$(PW)$(NONE)"}, {name: PLAIN, value: "$(HOST):1"}, {name: ONLY, value: $(PW)}]}]}`
	}
	table := refs.Table{{Match: "login/pw", Source: "podman:kept"}}
	r, report, err := parsed(t, env(`{name: login, key: pw}`), Options{Refs: table})
	if err != nil || len(report.Needs) > 0 {
		t.Fatal(err, report.Needs)
	}
	kept := taskdef.SecretValue{ValueFrom: "podman:kept", Source: "podman:kept"}
	pw := taskdef.SecretPart{Secret: &kept}
	want := []taskdef.Secret{
		{Name: "PW", SecretValue: kept},
		{Name: "URL", Parts: []taskdef.SecretPart{{Text: "u:"}, pw, {Text: "@"}, {Text: "db"}}},
		{Name: "TWICE", Parts: []taskdef.SecretPart{{Text: "u:"}, pw, {Text: "@"}, {Text: "db"}, {Text: "/"}, pw, {Text: "$(PW)$(NONE)"}}},
		{Name: "ONLY", Parts: []taskdef.SecretPart{pw}},
	}
	c := r.Task.Containers[0]
	if diff := cmp.Diff(want, c.Secrets); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]taskdef.EnvVar{{Name: "HOST", Value: "db"}, {Name: "PLAIN", Value: "db:1"}}, c.Environment); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// An ID that no container of this host can have is refused before anything starts, at its place.
func TestIDsOfThisHost(t *testing.T) {
	t.Parallel()
	const spec = `{securityContext: {fsGroup: 1000660000, runAsUser: 65536, supplementalGroups: [7, 70001]}, containers: [{name: c, image: x, securityContext: {runAsUser: 65537}}, {name: d, image: x}]}`
	_, _, err := parsed(t, spec, Options{IDs: taskdef.IDs{User: 65536, Group: 70000}})
	var invalid *taskdef.InvalidError
	if !errors.As(err, &invalid) {
		t.Fatal(err)
	}
	places := map[string]bool{}
	for _, p := range invalid.Problems {
		places[p.Pointer] = true
	}
	want := map[string]bool{"/spec/securityContext/fsGroup": true, "/spec/securityContext/supplementalGroups/1": true, "/spec/containers/0/securityContext/runAsUser": true}
	if diff := cmp.Diff(want, places); diff != "" {
		t.Error(diff)
	}
	if _, _, err := parsed(t, spec, Options{}); err != nil {
		t.Errorf("unknown bounds refuse: %v", err)
	}
}
