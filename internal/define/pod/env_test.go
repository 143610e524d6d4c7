package pod

import (
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
