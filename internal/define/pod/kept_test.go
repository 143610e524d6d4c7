package pod

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podtask/podtask/pkg/taskdef"
)

const withSecrets = `
apiVersion: v1
kind: Secret
metadata:
  name: db
  annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"data":{"password":"aHVudGVyMg=="}}'}
data: {password: aHVudGVyMg==}
stringData: {user: app-hunter2, none: ""}
---
apiVersion: v1
kind: Secret
metadata: {name: pull}
type: kubernetes.io/dockerconfigjson
stringData: {.dockerconfigjson: '{"auths":{"https://index.docker.io/v1/":{"auth":"aHVudGVyMjpodW50ZXIy"},"quay.io/team":{"auth":"aHVudGVyMjp4"}}}'}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {level: debug}
---
apiVersion: v1
kind: Pod
metadata: {name: web, uid: 11111111-2222-4333-8444-555555555555}
spec:
  imagePullSecrets: [{name: pull}]
  containers:
  - name: app
    image: docker.io/library/app:1
    env:
    - {name: PASSWORD, valueFrom: {secretKeyRef: {name: db, key: password}}}
    - {name: EMPTY, valueFrom: {secretKeyRef: {name: db, key: none}}}
    envFrom: [{prefix: ALL_, secretRef: {name: db}}]
    volumeMounts: [{name: s, mountPath: /s}, {name: c, mountPath: /c}]
  - name: side
    image: quay.io/team/side:1
  volumes:
  - {name: s, secret: {secretName: db, items: [{key: password, path: deep/password, mode: 256}]}}
  - {name: c, projected: {sources: [{configMap: {name: settings}}, {secret: {name: db}}]}}
`

// TestStripTakesOutTheContentOfSecretsOnly parses a manifest with and without the content of
// its Secrets: the tasks differ in nothing but the sources.
func TestStripTakesOutTheContentOfSecretsOnly(t *testing.T) {
	t.Parallel()
	stripped, contents, err := Strip([]byte(withSecrets), func(n int) string { return fmt.Sprintf("podman:kept-%d", n) })
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"hunter2", "aHVudGVyMg", "aHVudGVyMj"} {
		if strings.Contains(string(stripped), secret) {
			t.Errorf("%s is left in\n%s", secret, stripped)
		}
	}
	before, _, err := Parse("a", []byte(withSecrets), host)
	if err != nil || !before.Sensitive {
		t.Fatal(err, before.Sensitive)
	}
	after, report, err := Parse("b", stripped, host)
	if err != nil || after.Sensitive || len(report.Needs) > 0 {
		t.Fatal(err, after.Sensitive, report)
	}
	for _, s := range after.Secrets {
		if s.Sensitive() {
			t.Errorf("the content of %s is asked for", s)
		}
	}
	have := func(r Result) (all []string) {
		for i, c := range r.Task.Containers {
			for _, v := range c.Secrets {
				all = append(all, fmt.Sprint(i, v.Name, "=", valueOf(before, contents, v.SecretValue)))
			}
			for _, f := range c.Extensions.SecretFiles {
				all = append(all, fmt.Sprint(i, f.Path, f.Mode, "=", valueOf(before, contents, f.SecretValue)))
			}
		}
		return all
	}
	if diff := cmp.Diff(have(before), have(after)); diff != "" {
		t.Error(diff)
	}
	for i, registry := range []string{"docker.io", "quay.io/team"} {
		var file struct{ Auths map[string]any }
		login := after.Task.Containers[i].RepositoryCredentials
		if login == nil || json.Unmarshal([]byte(valueOf(before, contents, *login)), &file) != nil || file.Auths[registry] == nil {
			t.Errorf("container %d: no login for %s in %v", i, registry, login)
		}
	}
	again, none, err := Strip(stripped, func(int) string { return "podman:other" })
	if err != nil || len(none) > 0 || string(again) != string(stripped) {
		t.Errorf("a second time: %d contents, %v\n%s", len(none), err, cmp.Diff(string(stripped), string(again)))
	}
}

// valueOf looks up a source in the contents that Parse or Strip returned.
func valueOf(r Result, contents [][]byte, v taskdef.SecretValue) string {
	var n int
	if _, err := fmt.Sscanf(v.Source, "podman:kept-%d", &n); err == nil {
		return string(contents[n])
	}
	i := slices.IndexFunc(r.Secrets, func(s Secret) bool { return "env:"+s.Name == v.Source })
	if i < 0 {
		return "nothing"
	}
	return string(r.Secrets[i].Value())
}

func TestAnnotationOfKeptSecretsNamesPodmanOnly(t *testing.T) {
	t.Parallel()
	for _, note := range []string{`{"keys":{"a":"command:/bin/x"}}`, `{"logins":{"source":"file:/etc/shadow"}}`, `nonsense`} {
		doc := fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {name: s, annotations: {podtask.kept: %q}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i, env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: a}}}]}]}}`, note)
		if _, _, err := Parse("p", []byte(doc), host); err == nil || !strings.Contains(err.Error(), "has no key") {
			t.Errorf("%s: %v", note, err)
		}
	}
}
