package gpu

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestCheckName(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{
		"nvidia.com/gpu": true, "nvidia.com/gpu=0": true, "amd.com/gpu=GPU-1:2": true,
		"": false, "gpu": false, "nvidia.com/": false, "nvidia.com/gpu=": false, "nvidia com/gpu": false, "/gpu": false, "aa/bb/cc": false,
		"a/b": false, "a/b=c": false, "a": false, "=": false, "/": false, "nvidia.com/gpu=a=b": false,
	} {
		if err := CheckName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// device is one of a specification, with device nodes.
func device(name string, nodes ...string) string {
	var all []string
	for _, n := range nodes {
		all = append(all, `{"path": "`+n+`"}`)
	}
	return `{"name": "` + name + `", "containerEdits": {"env": ["A=` + name + `"], "deviceNodes": [` + strings.Join(all, ",") + `]}}`
}

func write(t *testing.T, dir, file, kind string, devices ...string) {
	t.Helper()
	text := `{"cdiVersion": "0.5.0", "kind": "` + kind + `", "devices": [` + strings.Join(devices, ",") + `]}`
	if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// As nvidia-ctk writes it with both strategies for names.
	write(t, dir, "nvidia.json", "nvidia.com/gpu", device("GPU-b", "/dev/nvidia10"), device("10", "/dev/nvidia10"), device("2", "/dev/nvidia2"),
		device("GPU-a", "/dev/nvidia2"), device("all", "/dev/nvidia2", "/dev/nvidia10"), device("both", "/dev/nvidia2", "/dev/nvidia10"))
	// Parts of one GPU share its node; devices may have none.
	write(t, dir, "mig.json", "example.com/mig", device("0:0", "/dev/nvidia0", "/dev/cap1"), device("0:1", "/dev/nvidia0", "/dev/cap2"))
	write(t, dir, "plain.json", "example.com/plain", device("x"), device("y"))
	for _, c := range []struct {
		names string
		want  []string
		err   string
	}{
		{"nvidia.com/gpu", []string{"nvidia.com/gpu=2", "nvidia.com/gpu=10"}, ""},
		{"nvidia.com/gpu=GPU-a nvidia.com/gpu=GPU-a", []string{"nvidia.com/gpu=GPU-a"}, ""},
		{"example.com/mig example.com/plain", []string{"example.com/mig=0:0", "example.com/mig=0:1", "example.com/plain=x", "example.com/plain=y"}, ""},
		{"nvidia.com/gpu=7 example.com/plain", []string{"example.com/plain=x", "example.com/plain=y"}, "describes nvidia.com/gpu=7"},
		{"amd.com/gpu", nil, "no file in " + dir},
	} {
		got, err := Find([]string{dir, filepath.Join(dir, "none")}, strings.Fields(c.names))
		if !slices.Equal(got, c.want) || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, %v; want %v and %q", c.names, got, err, c.want, c.err)
		}
	}
}

// A file that cannot be read is named, and the others count.
func TestFindSaysWhatItCannotRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "good.json", "example.com/gpu", device("0", "/dev/a"))
	if err := os.WriteFile(filepath.Join(dir, "bad.json"), []byte(`{"cdiVersion": "0.5.0", "kind": `), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Find([]string{dir}, []string{"example.com/gpu"})
	if !slices.Equal(got, []string{"example.com/gpu=0"}) || err == nil || !strings.Contains(err.Error(), "bad.json") {
		t.Errorf("found %v, %v", got, err)
	}
}

func FuzzCheckName(f *testing.F) {
	f.Add("nvidia.com/gpu=0")
	f.Add("a/b=c")
	f.Fuzz(func(t *testing.T, name string) {
		if CheckName(name) == nil && !strings.Contains(name, "/") {
			t.Errorf("%q passes", name)
		}
	})
}
