package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func kubeletOf(t *testing.T, texts ...string) (map[string]ProgramValue, string, error) {
	t.Helper()
	home := t.TempDir()
	dir := filepath.Join(home, "podtask")
	if err := os.MkdirAll(filepath.Join(dir, "podtask.toml.d"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i, text := range texts {
		name := filepath.Join(dir, "podtask.toml")
		if i > 0 {
			name = filepath.Join(dir, "podtask.toml.d", string(rune('a'+i))+".toml")
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	src := Source{Root: home, Getenv: func(key string) string { return map[string]string{"XDG_CONFIG_HOME": home}[key] }}
	if _, err := Load(src); err != nil {
		return nil, dir, err // every program reads the same files
	}
	table, err := Kubelet(src)
	return table, dir, err
}

func TestTheTableKubelet(t *testing.T) {
	t.Parallel()
	got, dir, err := kubeletOf(t, "pull = \"always\"\n[kubelet]\nnode-name = \"edge\"\nport = 10250\n\n[[reference]]\nmatch = \"a\"\nsource = \"env:A\"\n", "kubelet.port = 0\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got["node-name"] != (ProgramValue{"edge", filepath.Join(dir, "podtask.toml") + ":3"}) || got["port"].Text != "0" {
		t.Errorf("read %v", got)
	}
	for text, want := range map[string]string{
		"[kubelet]\nnode_name = \"edge\"\n": "podtask.toml:2: kubelet.node_name: unknown key; did you mean \"node-name\"?",
		"[kubelet]\nport = [1]\n":           "podtask.toml:2: kubelet.port: must be a string, a number or a boolean",
		"[[kubelet]]\nport = 1\n":           "podtask.toml:1: kubelet: write it as [kubelet]",
		"kubelet = 1\n":                     "podtask.toml:1: kubelet: write it as [kubelet]",
	} {
		if _, _, err := kubeletOf(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: no %s in %v", text, want, err)
		}
	}
}

func TestTheTableIngress(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	dir := filepath.Join(home, "podtask")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(text string) (map[string]ProgramValue, error) {
		if err := os.WriteFile(filepath.Join(dir, "podtask.toml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return Ingress(Source{Root: home, Getenv: func(key string) string { return map[string]string{"XDG_CONFIG_HOME": home}[key] }})
	}
	got, err := write("[kubelet]\nport = 1\n[ingress]\nhttps = \":8443\"\nmax-connections = 10\n")
	if err != nil || len(got) != 2 || got["https"].Text != ":8443" || got["max-connections"].Text != "10" {
		t.Errorf("read %v, %v", got, err)
	}
	if _, err := write("[ingress]\nhttp2 = \":8443\"\n"); err == nil || !strings.Contains(err.Error(), "ingress.http2: unknown key; did you mean") {
		t.Errorf("an unknown key: %v", err)
	}
}
