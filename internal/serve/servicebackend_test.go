package serve

import (
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/define/envfile"
	svc "github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef"
)

const set = `---
{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {level: "LEVEL"}}
---
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db}, spec: {serviceName: db, selector: {matchLabels: {a: b}},
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: x, volumeMounts: [{name: all, mountPath: /c}]}], volumes: [{name: all, configMap: {name: c}}]}}}}
`

// specOfSet reads the manifest anew, as each request does.
func specOfSet(t *testing.T, level string, copies int) svc.Spec {
	t.Helper()
	spec := svc.Spec{Files: map[string][]byte{}, Numbered: &svc.Numbered{}}
	for i := range copies {
		d, err := define.Reader{}.Read(define.Document{Name: "set", Source: []byte(strings.Replace(set, "LEVEL", level, 1))}, define.Changes{Copy: i})
		if err != nil || d.Err() != nil {
			t.Fatal(err, d.Err())
		}
		task, files, err := d.PrepareCopies(t.Context(), envfile.Sources(nil))
		if err != nil {
			t.Fatal(err)
		}
		for name, content := range files {
			spec.Files[name] = content
		}
		spec.Numbered.Tasks = append(spec.Numbered.Tasks, task)
	}
	spec.Task = spec.Numbered.Tasks[0]
	return spec
}

// A manifest has another UID each time it is read; its copies are the same all the same.
func TestSameSpecOfAManifest(t *testing.T) {
	t.Parallel()
	one := specOfSet(t, "one", 2)
	if !sameSpec(specOfSet(t, "one", 2), one) {
		t.Error("the same manifest makes other copies")
	}
	if sameSpec(specOfSet(t, "two", 2), one) {
		t.Error("other content of a file makes the same copies")
	}
	if sameSpec(specOfSet(t, "one", 3), one) || sameSpec(specOfSet(t, "one", 1), one) {
		t.Error("another number of copies is the same")
	}
}

// Copies are added behind those that there are, which stay as they are.
func TestGrow(t *testing.T) {
	t.Parallel()
	present, next := specOfSet(t, "one", 2), specOfSet(t, "one", 3)
	grown := grow(present, next)
	if grown == nil || grown.Limit() != 3 || len(grown.Files) < 3 {
		t.Fatalf("%+v", grown)
	}
	kept := *grown
	kept.Numbered = &svc.Numbered{Tasks: append([]taskdef.Task(nil), grown.Numbered.Tasks[:2]...)}
	if uid := func(s svc.Spec) string { return string(s.Numbered.Tasks[0].Extensions.Pod) }; uid(kept) != uid(present) {
		t.Error("the first copy is another one")
	}
	for name := range present.Files {
		if grown.Files[name] == nil {
			t.Error("a file of the first copies is lost")
		}
	}
	if grow(present, specOfSet(t, "two", 3)) != nil || grow(present, specOfSet(t, "one", 2)) != nil {
		t.Error("what differs is said to be more of the same")
	}
}

// The manifest of a replicated MySQL has a container with the name of its Service, and another that answers clones: both ports
// have names, and each copy its own.
func TestNamesOfAReplicatedMySQL(t *testing.T) {
	t.Parallel()
	const manifest = `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: mysql}, spec: {serviceName: mysql, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [
		{name: mysql, image: x, ports: [{name: mysql, containerPort: 3306}]}, {name: xtrabackup, image: x, ports: [{name: xtrabackup, containerPort: 3307}]}]}}}}`
	spec := svc.Spec{TaskDefinition: "mysql:1", Numbered: &svc.Numbered{}}
	for i := range 2 {
		d, err := define.Reader{}.Read(define.Document{Name: "mysql", Source: []byte("---\n" + manifest)}, define.Changes{Copy: i})
		if err != nil || d.Err() != nil {
			t.Fatal(err, d.Err())
		}
		spec.Numbered.Tasks = append(spec.Numbered.Tasks, d.PublishAll(d.Task))
	}
	spec.Task = spec.Numbered.Tasks[0]
	names := svc.Names{Offered: []svc.Name{{Name: "mysql", Port: 3306}, {Name: "mysql", Port: 3307}}}.Resolve(spec.Task)
	config := svc.Config{Names: names}
	if err := svc.Validate("mysql", spec, 2, config); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range svc.New(strings.Repeat("a", 32), "mysql", spec, 2, config, time.Now()).Offers() {
		got = append(got, o.String()+"="+o.Container)
	}
	want := "mysql:3306=mysql mysql-0.mysql:3306=mysql mysql-1.mysql:3306=mysql mysql:3307=xtrabackup mysql-0.mysql:3307=xtrabackup mysql-1.mysql:3307=xtrabackup"
	if strings.Join(got, " ") != want {
		t.Errorf("the names are %s", got)
	}
}
