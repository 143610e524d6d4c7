package stack

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/engine/run/stacks"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/taskdef"
)

// sendHere returns what another host gets of a command line with a file, and the arguments there.
func sendHere(t *testing.T, verb string, flags []string, file string) (args []string, input []byte, err error) {
	t.Helper()
	count := 2
	p := &command.Program{
		Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}, Getenv: func(string) string { return "" }, Environ: func() []string { return nil },
		ServiceSettings: func(words []string) (*int, api.ServiceSettings, error) {
			s := api.ServiceSettings{}
			if slices.Contains(words, "--listen=8080=web:80") {
				s.Listeners = &[]api.Listener{{Address: ":8080", ContainerName: "web", ContainerPort: 80}}
			}
			return &count, s, nil
		},
	}
	return newSender(p, "stack "+verb)(context.Background(), flags, []string{file})
}

// A stack that is sent has the files that its definitions read at each start, and is read there as here.
func TestWhatIsSentOfAStack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"web.env": "A=1\n", "token": "hunter2\n",
		"web.json": `{"family": "web", "volumes": [{"name": "v", "host": {"sourcePath": "conf"}}], "containerDefinitions": [{"name": "web", "image": "localhost/web:1",
			"mountPoints": [{"sourceVolume": "v", "containerPath": "/v"}],
			"environmentFiles": [{"type": "s3", "value": "web.env"}, {"type": "s3", "value": "gone.env"}],
			"secrets": [{"name": "T", "valueFrom": "file:token"}], "x-podtask": {"secretFiles": [{"path": "/t", "valueFrom": "file:token"}]}}]}`,
		"stack.yaml": "name: shop\nmembers:\n  web: {file: web.json, count: 2, listen: '8080=web:80'}\n  x: {image: localhost/x, after: [web]}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "stack.yaml")
	args, input, err := sendHere(t, "up", []string{"--preview=pr-1", "--ttl=1h"}, file)
	if err != nil || len(args) != 1 || args[0] != "-" {
		t.Fatalf("%q, %v", args, err)
	}
	store, err := stacks.Open(t.TempDir(), state.OS{})
	if err != nil {
		t.Fatal(err)
	}
	up := readingVerbs()[0]
	c, err := command.ParseWords("stack up", up.Flags, []string{"--preview=pr-1", "--ttl=1h", "--map-volume=other=/x"})
	if err != nil {
		t.Fatal(err)
	}
	k := call{c: c, options: options{in: bytes.NewReader(input), sent: true, store: store}}
	w, err := k.written(t.Context(), []string{"-"})
	if err != nil {
		t.Fatal(err)
	}
	if w.Name != "shop-pr-1" || w.Preview == nil || len(w.Members) != 2 || w.Members[0].Copies != 2 || len(*w.Members[0].Settings.Listeners) != 1 || w.Members[1].After[0].Is != "healthy" {
		t.Errorf("%+v", w)
	}
	if len(w.Files) != 1 || string(w.Files[0].Data) != "A=1\n" || len(w.Secrets) != 2 {
		t.Errorf("files %v, secrets %v", w.Files, w.Secrets)
	}
	text := string(w.Members[0].Text)
	for _, want := range []string{filepath.Join(store.Files("shop-pr-1"), w.Files[0].Name), "podman:podtask-stack-shop-pr-1.token-", "gone.env"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
	m := w.Members[0]
	m.task = taskdef.Task{
		Volumes: []taskdef.Volume{
			{Name: "v", Kind: taskdef.VolumeBind, HostPath: filepath.Join(m.Dir, "conf")},
			{Name: "other", Kind: taskdef.VolumeBind, HostPath: filepath.Join(m.Dir, "x")}, {Name: "etc", Kind: taskdef.VolumeBind, HostPath: "/etc"},
		},
		Containers: []taskdef.Container{{EnvironmentFiles: []taskdef.EnvironmentFile{{Path: filepath.Join(m.Dir, "gone.env")}}}},
	}
	left := k.stays(m)
	if len(left) != 2 || !strings.Contains(left[0].Error(), "stack.yaml:3: web: "+m.Dir+"/conf is of the machine") || !strings.Contains(left[1].Error(), "gone.env") {
		t.Errorf("%v", left)
	}
	if args, _, err := sendHere(t, "ps", nil, file); err != nil || args[0] != "shop" {
		t.Errorf("the name of a file: %q, %v", args, err)
	}
	if args, _, err := sendHere(t, "rollback", nil, "shop"); err != nil || args[0] != "shop" {
		t.Errorf("a name: %q, %v", args, err)
	}
	if _, _, err := sendHere(t, "plan", []string{"--lock=true"}, file); err == nil || !strings.Contains(err.Error(), "--lock writes a file of this machine") {
		t.Errorf("--lock: %v", err)
	}
}

// What no podtask sends is an error, and makes nothing.
func TestWhatIsReceivedOfAStack(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "[]", `{"Name": "shop", "Members": [null]}`, `{"Name": "../shop"}`, `{"Name": "shop", "Members": [{"Text": "!"}]}`, `{"Name": "shop", "Members": [{}]`} {
		k := call{options: options{in: strings.NewReader(text), sent: true}}
		if w, err := k.written(t.Context(), []string{"-"}); err == nil {
			t.Errorf("%q is read as %+v", text, w)
		}
	}
}

// What another podtask sends is input as any other: bounded, and refused where it is not whole.
func TestAStackThatIsSentIsChecked(t *testing.T) {
	t.Parallel()
	for want, in := range map[string]io.Reader{
		"has more than 67108864 bytes":   io.LimitReader(endless{}, maxSent+2),
		"cannot be read":                 strings.NewReader("{"),
		"a member that is nothing":       strings.NewReader(`{"Name": "shop", "Source": ["stack.yaml"], "Members": [null]}`),
		"names no file":                  strings.NewReader(`{"Name": "shop"}`),
		"the name of a stack is 1 to 63": strings.NewReader(`{"Name": "../shop", "Source": ["stack.yaml"]}`),
	} {
		if _, err := (call{options: options{in: in}}).received(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, not %q", err, want)
		}
	}
}

// endless has as many blanks as are asked for.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}
