package pod

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podtask/podtask/internal/testing/nonsense"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/refs"
)

// host is what the fixtures are given beside the file.
var host = Options{
	Refs:  refs.Table{{Match: "volume:big", Source: "file:/srv/big"}, {Match: "volume:data", Source: "file:/srv/data"}},
	Facts: map[string]string{"spec.nodeName": "edge1", "status.podIP": "192.0.2.7"},
	CPU:   2000, Memory: 1 << 30,
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (run with -update if this is wanted): %s", name, diff)
	}
}

func lines(title string, ps []taskdef.Problem) string {
	if len(ps) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(title + ":\n")
	for _, p := range ps {
		b.WriteString("  " + p.String() + "\n")
	}
	return b.String()
}

// TestPods are Pods of the kinds that the tasks pages of the Kubernetes documentation
// show, with words and values of our own.
func TestPods(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/pods/*.[yj]*")
	if err != nil || len(files) < 17 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, name := range files {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !taskdef.ReadSource(name, src).Manifest() && !strings.Contains(name, "config") {
			t.Errorf("%s is not recognized", name)
		}
		r, report, err := Parse(filepath.Base(name), src, host)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := r.Task.Check(); err != nil && len(report.Needs) == 0 {
			t.Errorf("%s: %v", name, err)
		}
		r.Pod.Source = nil
		var b strings.Builder
		b.WriteString(lines("warnings", report.Warnings) + lines("needs", report.Needs))
		for _, part := range []any{r.Pod, r.Task} {
			text, err := json.MarshalIndent(part, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			b.WriteString(string(text) + "\n")
		}
		for _, p := range r.HostPaths {
			fmt.Fprintf(&b, "%s is a %s\n", p.Path, p.Type)
		}
		for _, s := range r.Secrets {
			fmt.Fprintf(&b, "%s has %d bytes\n", s.Name, len(s.Value()))
		}
		golden(t, strings.TrimSuffix(name, filepath.Ext(name))+".want", b.String())
	}
}

func TestInvalidPods(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/invalid/*.[yj]*")
	if err != nil || len(files) < 6 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, name := range files {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, report, err := Parse(filepath.Base(name), src, Options{})
		var invalid *taskdef.InvalidError
		if !errors.As(err, &invalid) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, p := range invalid.Problems {
			if p.Line < 1 || p.Column < 1 {
				t.Errorf("%s: no place: %v", name, p)
			}
		}
		golden(t, strings.TrimSuffix(name, filepath.Ext(name))+".want", lines("problems", invalid.Problems)+lines("warnings", report.Warnings)+lines("needs", report.Needs))
	}
}

// TestSecretsAreShownNowhere looks for the content of Secrets in all that is shown.
func TestSecretsAreShownNowhere(t *testing.T) {
	t.Parallel()
	for name, words := range map[string][]string{"pods/secret.yaml": {"correct horse", "YWRtaW4", "admin"}, "pods/registry.yaml": {"hunter2", "dTpw"}, "invalid/refused.yaml": {"hunter2"}} {
		src, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		r, report, err := Parse("f", src, host)
		shown, jsonErr := json.Marshal(r)
		if jsonErr != nil {
			t.Fatal(jsonErr)
		}
		all := fmt.Sprintf("%s %v %+v %#v %v %v %v", shown, r, r, r.Secrets, report, err, r.Secrets)
		for _, word := range words {
			if !bytes.Contains(src, []byte(word)) && word != "admin" {
				t.Errorf("%s does not hold %q", name, word)
			}
			if strings.Contains(all, word) {
				t.Errorf("%s: %q is shown: %s", name, word, all)
			}
		}
	}
}

func TestSecretContent(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("testdata/pods/secret.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r, _, err := Parse("f", src, host)
	if err != nil {
		t.Fatal(err)
	}
	content := make(map[string]string)
	for _, s := range r.Secrets {
		content["env:"+s.Name] = string(s.Value())
	}
	for _, s := range r.Task.Containers[0].Secrets {
		want := map[string]string{"PGUSER": "admin", "PGPASSWORD": "correct horse", "DB_username": "admin", "DB_password": "correct horse"}[s.Name]
		if got := content[s.Source]; got != want || got == "" {
			t.Errorf("%s is %q", s.Name, got)
		}
	}
	if f := r.Task.Containers[0].Extensions.SecretFiles; len(f) != 1 || content[f[0].Source] != "correct horse" || f[0].Mode != 0o400 {
		t.Errorf("%+v", f)
	}
}

func TestNeedsAreMet(t *testing.T) {
	t.Parallel()
	const src = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "busybox:1",
		"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}, {"name": "U", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}],
		"volumeMounts": [{"name": "v", "mountPath": "/v"}]}], "volumes": [{"name": "v", "csi": {"driver": "d"}}]}}`
	_, report, err := Parse("f", []byte(src), Options{})
	if err != nil || len(report.Needs) != 3 {
		t.Fatalf("%v, needs %v", err, report.Needs)
	}
	r, report, err := Parse("f", []byte(src), Options{
		Refs:  refs.Table{{Match: "s/k", Source: "file:/x"}, {Match: "volume:v", Source: "file:/srv"}},
		Facts: map[string]string{"metadata.uid": "u-1"},
	})
	if err != nil || len(report.Needs) != 0 || r.Task.Check() != nil {
		t.Fatalf("%v, needs %v", err, report.Needs)
	}
	if c := r.Task.Containers[0]; c.Secrets[0].Source != "file:/x" || c.Labels[LabelUID] != "u-1" || r.Task.Volumes[0].HostPath != "/srv" {
		t.Errorf("%+v", r.Task)
	}
}

// TestNoKeptPodHoldsASecret: the Pod as given is its document alone.
func TestSourceIsThePodAlone(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("testdata/pods/printed.json")
	if err != nil {
		t.Fatal(err)
	}
	r, _, err := Parse("f", src, host)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(r.Pod.Source, &doc); err != nil || doc["kind"] != "Pod" || doc["status"] != nil || doc["spec"] == nil {
		t.Errorf("%v: %s", err, r.Pod.Source)
	}
}

func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/pods/*.[yj]*", "testdata/invalid/*.[yj]*"} {
		files, _ := filepath.Glob(pattern)
		for _, name := range files {
			if src, err := os.ReadFile(name); err == nil {
				f.Add(src)
			}
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		r, report, err := Parse("f", src, host)
		if err != nil {
			var invalid *taskdef.InvalidError
			if !errors.As(err, &invalid) || len(invalid.Problems) == 0 {
				t.Fatal(err)
			}
			return
		}
		if len(report.Needs) > 0 {
			return
		}
		if err := r.Task.Check(); err != nil {
			t.Fatal(err)
		}
		if !json.Valid(r.Pod.Source) {
			t.Fatalf("the source is no JSON: %s", r.Pod.Source)
		}
	})
}

// A Pod may have more containers than a task definition of ECS.
func TestContainersOfAPod(t *testing.T) {
	t.Parallel()
	for n, ok := range map[int]bool{11: true, maxContainers: true, maxContainers + 1: false} {
		text := "apiVersion: v1\nkind: Pod\nmetadata: {name: many}\nspec:\n  containers:\n"
		for i := range n {
			text += fmt.Sprintf("    - {name: c%d, image: registry.example/app:1}\n", i)
		}
		r, _, err := Parse("f.yaml", []byte(text), host)
		if (err == nil) != ok || ok && len(r.Task.Containers) != n {
			t.Errorf("%d containers: %v", n, err)
		}
	}
}

func TestNonsenseCostsLittle(t *testing.T) {
	for _, head := range []string{"", "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec:\n  x: "} {
		nonsense.Check(t, head, func(text string) { _, _, _ = Parse("f.yaml", []byte(text), Options{}) })
	}
}

// A kind of another API is no slip of the pen, however much its name is like one that is read.
func TestKindsOfOtherAPIs(t *testing.T) {
	t.Parallel()
	const pod = "---\n{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: a, image: i}]}}\n"
	if _, _, err := Parse("f", []byte(pod+"---\n{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: a}}\n"), Options{}); err != nil {
		t.Errorf("a file with an APIService: %v", err)
	}
	if _, _, err := Parse("f", []byte(pod+"---\n{apiVersion: v1, kind: Servise, metadata: {name: a}}\n"), Options{}); err == nil || !strings.Contains(err.Error(), "Service") {
		t.Errorf("a slip of the pen: %v", err)
	}
}

// kubectl create makes the name of a Job.
func TestJobWithAGeneratedName(t *testing.T) {
	t.Parallel()
	got, _, err := Parse("f", []byte("---\n{apiVersion: batch/v1, kind: Job, metadata: {generateName: load-}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: i}]}}}}\n"), Options{})
	if err != nil || got.Pod.Name != "load" {
		t.Errorf("name %q, %v", got.Pod.Name, err)
	}
}
