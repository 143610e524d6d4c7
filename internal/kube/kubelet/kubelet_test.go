package kubelet

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/state"
)

func TestEachFlagCanBeConfigured(t *testing.T) {
	t.Parallel()
	o := newOptions(new(bytes.Buffer), func(string) string { return "" })
	keys := config.KubeletKeys()
	o.flags.VisitAll(func(f *flag.Flag) {
		if has := slices.Contains(keys, f.Name); has == slices.Contains([]string{"debug", "version", "socket"}, f.Name) {
			t.Errorf("the flag %s is a key of [kubelet]: %t", f.Name, has)
		}
	})
	for _, k := range keys {
		if o.flags.Lookup(k) == nil {
			t.Errorf("there is no flag %s", k)
		}
	}
}

func TestFlagsGoBeforeTheConfiguration(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	write := func(text string) {
		if err := os.MkdirAll(filepath.Join(home, "podtask"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(home, "podtask", "podtask.toml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parsed := func(args ...string) (*options, error) {
		o := newOptions(new(bytes.Buffer), func(key string) string {
			return map[string]string{"XDG_CONFIG_HOME": home, "KUBECONFIG": "/from/environment"}[key]
		})
		if err := o.flags.Parse(args); err != nil {
			t.Fatal(err)
		}
		return o, o.applyConfig()
	}
	write("[kubelet]\nkubeconfig = \"/from/file\"\nnode-name = \"edge\"\nmax-pods = 7\nport = 0\n")
	o, err := parsed("--max-pods=8")
	if err != nil || o.kubeconfig != "/from/environment" || o.name != "edge" || o.work.pods != 8 || o.endpoint.port != 0 {
		t.Errorf("%+v, %v", o, err)
	}
	write("[kubelet]\nmax-pods = \"many\"\nport = \"x\"\n")
	_, err = parsed()
	for _, want := range []string{"podtask.toml:2: kubelet.max-pods", "podtask.toml:3: kubelet.port"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %s in %v", want, err)
		}
	}
}

func TestAllProblemsAreReported(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	o := newOptions(&out, func(key string) string { return map[string]string{"HOME": t.TempDir()}[key] })
	code := o.run(context.Background(), []string{"--node-labels", "a b", "--register-with-taints", "x:Y", "--max-pods", "0", "--eviction-hard", "cpu<1", "--node-ip", "here"},
		new(bytes.Buffer), &out)
	for _, want := range []string{"--node-labels", "--register-with-taints", "--max-pods 0", "--eviction-hard", "--node-ip", "--kubeconfig is missing"} {
		if code != 125 || !strings.Contains(out.String(), want) {
			t.Errorf("code %d, no %s in %s", code, want, &out)
		}
	}
}

// Files of Secrets must not reach a disk.
func TestFilesOfPodsAreInTheRuntimeDirectory(t *testing.T) {
	t.Parallel()
	for env, want := range map[string]string{"/run/user/7": "/run/user/7/podtask/kubelet/edge/pods", "": "", "relative": ""} {
		o := newOptions(new(bytes.Buffer), func(key string) string {
			return map[string]string{"XDG_RUNTIME_DIR": env, "HOME": "/home/u"}[key]
		})
		dir, err := o.podFiles("edge")
		if dir != want || (err == nil) != (want != "") || err != nil && !strings.Contains(err.Error(), "XDG_RUNTIME_DIR") {
			t.Errorf("XDG_RUNTIME_DIR=%q: %q, %v", env, dir, err)
		}
	}
}

// Two processes that run the same node would remove the files of each other's Pods.
func TestNodeIsRunOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "edge", "pods")
	release, err := takeNode(dir, "edge")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := takeNode(dir, "edge"); !errors.Is(err, state.ErrLocked) || !strings.Contains(err.Error(), "--node-name") {
		t.Errorf("the second one says %v", err)
	}
	release()
	if release, err = takeNode(dir, "edge"); err != nil {
		t.Fatal(err)
	}
	release()
}
