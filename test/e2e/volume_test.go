//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/podtask/podtask/internal/testing/registrytest"
)

func mountAt(volume, path string) obj { return obj{"sourceVolume": volume, "containerPath": path} }

// lines are what a container of the task printed.
func (b *box) lines(ref, container string) string {
	b.t.Helper()
	return strings.TrimSpace(b.want(0, "logs", ref, container).out)
}

// wantLines fails the test unless the container printed exactly this.
func (b *box) wantLines(ref, container string, want ...string) {
	b.t.Helper()
	if got := b.lines(ref, container); got != strings.Join(want, "\n") {
		b.t.Errorf("%s printed\n%s\nwant\n%s", container, got, strings.Join(want, "\n"))
	}
}

func (b *box) hasVolume(name string) bool {
	return exec.Command("podman", "volume", "exists", name).Run() == nil
}

// Rows 2, 26, 33 and 46 of the ECS agent's integration tests.
func TestVolumesOfATaskAreSharedAndRemovedAndHostPathsStay(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	there, made := filepath.Join(b.dir, "there"), filepath.Join(b.dir, "not", "yet")
	if err := os.WriteFile(there, []byte("from the host"), 0o644); err != nil {
		t.Fatal(err)
	}
	d := def{
		More: obj{"volumes": []obj{
			{"name": "scratch"}, {"name": "file", "host": obj{"sourcePath": there}}, {"name": "dir", "host": obj{"sourcePath": made}},
		}},
		Containers: []ctr{
			{Name: "writer", Essential: optional, Command: words("cat /file -- write /scratch/f hello -- write /dir/f hello"), More: obj{"mountPoints": []obj{
				mountAt("scratch", "/scratch"), mountAt("file", "/file"), mountAt("dir", "/dir"),
			}}},
			{
				Name: "reader", DependsOn: []on{{"writer", "SUCCESS"}, {"editor", "SUCCESS"}}, Command: words("cat /scratch/f -- cannot write /scratch/g no -- mount /scratch -- exit 42"),
				More: obj{"volumesFrom": []obj{{"sourceContainer": "writer", "readOnly": true}}},
			},
			{
				Name: "editor", Essential: optional, DependsOn: []on{{"writer", "SUCCESS"}}, Command: words("write /scratch/h yes -- cat /scratch/h"),
				More: obj{"volumesFrom": []obj{{"sourceContainer": "writer"}}},
			},
		},
	}
	b.want(42, "run", "--quiet", "--name", b.family, b.write(d))
	b.wantLines(b.family, "writer", "from the host")
	if got := b.lines(b.family, "reader"); !strings.HasPrefix(got, "hello\ncannot write\n/scratch ") || !strings.HasSuffix(got, " ro") {
		t.Errorf("the reader printed %s", got)
	}
	id := b.inspect(b.family).ID
	volume := "podtask-" + b.family[:min(len(b.family), 40)] + "-" + id[:12] + "-0-scratch"
	if labels := b.podman("volume", "inspect", "--format", "{{json .Labels}}", volume); !strings.Contains(labels, id) {
		t.Errorf("volume %s has the labels %s", volume, labels)
	}
	b.want(0, "rm", b.family)
	if b.hasVolume(volume) {
		t.Error("the task's volume is left")
	}
	if text, err := os.ReadFile(filepath.Join(made, "f")); err != nil || string(text) != "hello" {
		t.Errorf("on the host there is %q, %v", text, err)
	}
}

// Rows 34 and 35.
func TestSharedVolumesAreMadeOrMustExistAndAreKept(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	made, foreign := "pt-made-"+b.family, "pt-foreign-"+b.family
	t.Cleanup(func() { _ = exec.Command("podman", "volume", "rm", "--force", made, foreign).Run() })
	use := func(command string) string {
		return b.write(def{
			More: obj{"volumes": []obj{
				{"name": made, "dockerVolumeConfiguration": obj{"scope": "shared", "autoprovision": true, "driver": "local", "labels": obj{"who": "tests"}}},
				{"name": foreign, "dockerVolumeConfiguration": obj{"scope": "shared"}},
			}},
			Containers: []ctr{{Name: "app", Command: words(command), More: obj{"mountPoints": []obj{mountAt(made, "/made"), mountAt(foreign, "/foreign")}}}},
		})
	}
	r := b.want(125, "run", "--name", b.family+"-0", use("exit 0"))
	if !strings.Contains(r.err, "ResourceInitializationError") || !strings.Contains(r.err, foreign) || !strings.Contains(r.err, "podman volume create") {
		t.Errorf("without the volume: %s", r.err)
	}
	b.podman("volume", "create", foreign)
	b.want(0, "run", "--rm", "--quiet", use("write /made/f kept -- write /foreign/f kept"))
	if got := b.podman("volume", "inspect", "--format", "{{.Labels.who}}", made); got != "tests" {
		t.Errorf("the label is %q", got)
	}
	b.want(0, "run", "--quiet", "--name", b.family, use("cat /made/f -- cat /foreign/f"))
	b.wantLines(b.family, "app", "kept", "kept")
	b.want(0, "rm", b.family)
	if !b.hasVolume(made) || !b.hasVolume(foreign) {
		t.Error("a shared volume was removed")
	}
}

// A container takes over the volumes of another's image too, also by way of a third, and they are
// removed with the task.
func TestVolumesOfAnImageAreTakenOver(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	img, err := registrytest.Image(v1.Config{Entrypoint: []string{"/testbox"}, Volumes: map[string]struct{}{"/data": {}}},
		registrytest.File{Path: "/tmp/", Mode: 0o1777}, registrytest.File{Path: "/testbox", Data: bed.testbox},
		registrytest.File{Path: "/data/from", Data: []byte("the image")})
	if err != nil {
		t.Fatal(err)
	}
	image, _ := b.push("app:1", img)
	from := func(name string, readOnly bool) obj {
		return obj{"volumesFrom": []obj{{"sourceContainer": name, "readOnly": readOnly}}}
	}
	b.want(0, "run", "--quiet", "--name", b.family, b.define(
		ctr{Name: "reader", Command: words("cat /data/from -- cat /data/f -- cannot write /data/g no"), DependsOn: []on{{"writer", "SUCCESS"}}, More: from("between", true)},
		ctr{Name: "between", Essential: optional, Command: words("exit 0"), More: from("writer", false)},
		ctr{Name: "writer", Essential: optional, Image: image, Command: words("write /data/f hello")},
	))
	b.wantLines(b.family, "reader", "the image", "hello", "cannot write")
	volume := b.podman("container", "inspect", "--format", "{{range .Mounts}}{{.Name}}{{end}}", b.inspect(b.family).Containers[2].RuntimeID)
	if !b.hasVolume(volume) {
		t.Errorf("the image's volume is %q", volume)
	}
	b.want(0, "rm", b.family)
	if b.hasVolume(volume) {
		t.Error("the volume of the image is left")
	}
}
