//go:build e2e

//e2e:bed plain

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// setOf writes a StatefulSet of two Pods that keep their names in storage of their own.
func setOf(b *box, greeting string) (file string) {
	b.t.Helper()
	file = filepath.Join(b.dir, "set-"+greeting+".yaml")
	text := strings.NewReplacer("@NAME", b.family, "@IMAGE", b.testbox(), "@GREETING", greeting).Replace(`
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: "@NAME"}
spec:
  serviceName: db
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 2
      initContainers:
      - name: who
        image: "@IMAGE"
        imagePullPolicy: IfNotPresent
        args: [write, /data/who, "$(POD) $(INDEX)"]
        env: &env
        - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        - {name: INDEX, valueFrom: {fieldRef: {fieldPath: "metadata.labels['apps.kubernetes.io/pod-index']"}}}
        volumeMounts: &mounts [{name: data, mountPath: /data}]
      containers:
      - name: app
        image: "@IMAGE"
        imagePullPolicy: IfNotPresent
        args: [term, "0", --, serve, "8080", --, write, /data/greeting, "@GREETING", --, write, /tmp/well]
        ports: [{name: http, containerPort: 8080}]
        env: *env
        volumeMounts: *mounts
        readinessProbe: {exec: {command: [/testbox, exists, /tmp/well]}, periodSeconds: 1, timeoutSeconds: 30, failureThreshold: 10}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return file
}

// The copies of a StatefulSet have numbers: their names, host names, labels and storage stay while copies are replaced, they
// reach each other by them, and the second starts when the first is ready.
func TestServiceOfAStatefulSet(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	agent := b.agent()
	maps := []string{}
	for _, n := range []string{"0", "1"} {
		dir := filepath.Join(b.dir, "data-"+n)
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		maps = append(maps, "--map-volume=data-"+b.family+"-"+n+"="+dir)
	}
	names := []string{b.family + "-0", b.family + "-1"}
	holds := func(greeting string) {
		t.Helper()
		for i, n := range []string{"0", "1"} {
			for file, want := range map[string]string{"who": names[i] + " " + n, "greeting": greeting} {
				got, err := os.ReadFile(filepath.Join(b.dir, "data-"+n, file))
				if err != nil || strings.TrimSpace(string(got)) != want {
					t.Errorf("%s of %s is %q, %v; want %q", file, names[i], got, err, want)
				}
			}
			if got := b.want(0, "exec", names[i], "app", "/testbox", "where").out; !strings.Contains(got, names[i]) {
				t.Errorf("%s calls itself %s", names[i], got)
			}
			other := names[1-i] + ".db:8080"
			eventually(t, names[i]+" reaches "+other, func() bool {
				return strings.TrimSpace(b.podtask("exec", names[i], "app", "/testbox", "get", "http://"+other+"/env/POD").out) == names[1-i]
			})
		}
	}
	missing := b.want(125, "service", "create", b.family, setOf(b, "one"), maps[0])
	if !strings.Contains(missing.err, "--map-volume data-"+names[1]+"=PATH") {
		t.Errorf("without the storage of the second: %s", missing.err)
	}
	created := b.want(0, append([]string{"service", "create", b.family, setOf(b, "one"), "--name-as=db:8080", "--wait", "--timeout=4m"}, maps...)...)
	if strings.Contains(created.err, "one Pod") {
		t.Errorf("a service of two says %s", created.err)
	}
	holds("one")
	all := b.service().Tasks
	if len(all) != 2 || all[0].Name != names[0] || all[1].CreatedAt.Before(b.inspect(names[0]).CreatedAt) {
		t.Errorf("the copies are %+v", all)
	}

	b.podman("kill", b.inspect(names[1]).Containers[1].RuntimeID)
	eventually(t, "the second is there again", func() bool { well := b.well(); slices.Sort(well); return slices.Equal(well, names) })
	agent.kill()
	b.agent()
	b.want(0, append([]string{"service", "update", b.family, setOf(b, "two"), "--wait", "--timeout=4m"}, maps...)...)
	holds("two")

	more := b.want(125, "service", "scale", b.family+"=3")
	if !strings.Contains(more.err, "data-"+b.family+"-2") {
		t.Errorf("a third copy has no storage, and it says %s", more.err)
	}
	b.want(0, "service", "scale", b.family+"=1", "--wait", "--timeout=4m")
	if well := b.well(); !slices.Equal(well, names[:1]) {
		t.Errorf("%v is left", well)
	}
	b.want(0, "service", "scale", b.family+"=2", "--wait", "--timeout=4m")
	holds("two")
	third := filepath.Join(b.dir, "data-2")
	if err := os.Mkdir(third, 0o777); err != nil {
		t.Fatal(err)
	}
	before := b.inspect(names[0]).ID
	b.want(0, append([]string{"service", "update", b.family, setOf(b, "two"), "--count=3", "--map-volume=data-" + b.family + "-2=" + third, "--wait", "--timeout=4m"}, maps...)...)
	if got, err := os.ReadFile(filepath.Join(third, "who")); err != nil || strings.TrimSpace(string(got)) != b.family+"-2 2" || b.inspect(names[0]).ID != before {
		t.Errorf("the third copy is %q, %v; the first is %s, was %s", got, err, b.inspect(names[0]).ID, before)
	}
	b.removeService()
}
