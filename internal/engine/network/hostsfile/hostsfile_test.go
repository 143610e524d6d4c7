package hostsfile

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// aPod is the task of a Pod with an alias of two names.
func aPod() lifecycle.State {
	c := taskdef.Container{Name: "a", Extensions: taskdef.ContainerExtensions{Kube: taskdef.Kube{HostsFile: true}}}
	c.Net.Hostname = "web-0"
	c.Net.ExtraHosts = []taskdef.Host{{Name: "foo", Address: "192.0.2.9"}, {Name: "bar", Address: "192.0.2.9"}, {Name: "other", Address: "192.0.2.8"}}
	return lifecycle.State{ID: "t1", Task: taskdef.Task{Network: taskdef.NetworkAWSVPC, Containers: []taskdef.Container{c, {Name: "own"}}}}
}

func TestTheFileIsThatOfAKubelet(t *testing.T) {
	t.Parallel()
	s := aPod()
	s.Sandbox.Addresses = []netip.Addr{netip.MustParseAddr("10.0.2.15"), netip.MustParseAddr("fd00::1")}
	got, err := content(s, fstest.MapFS{})
	want := own + "10.0.2.15\tweb-0\nfd00::1\tweb-0\n\n# Entries added by HostAliases.\n192.0.2.9\tfoo\tbar\n192.0.2.8\tother\n"
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
	s.Task.Network = taskdef.NetworkHost
	got, err = content(s, fstest.MapFS{"etc/hosts": {Data: []byte("192.0.2.1\tnode\n")}})
	want = "# Kubernetes-managed hosts file (host network).\n192.0.2.1\tnode\n\n# Entries added by HostAliases.\n192.0.2.9\tfoo\tbar\n192.0.2.8\tother\n"
	if err != nil || string(got) != want {
		t.Errorf("with the network of the host: %v\n%s", err, got)
	}
}

// TestTheAddressComesLater: the container that mounts the file sees the address, and one that has a file
// of its own is left alone.
func TestTheAddressComesLater(t *testing.T) {
	t.Parallel()
	d, s := In(filepath.Join(t.TempDir(), "state")), aPod()
	var spec, other libpod.ContainerSpec
	if err := d.Mount(&other, s, 1); err != nil || len(other.Binds) != 0 {
		t.Errorf("%+v, %v", other.Binds, err)
	}
	if err := d.Complete(s, 1); err != nil {
		t.Error(err)
	}
	if err := d.Mount(&spec, s, 0); err != nil || len(spec.Binds) != 1 || spec.Binds[0].Path != "/etc/hosts" {
		t.Fatalf("%+v, %v", spec.Binds, err)
	}
	mounted, err := os.Open(spec.Binds[0].HostPath)
	if err != nil {
		t.Fatal(err)
	}
	defer mounted.Close()
	s.Sandbox.Addresses = []netip.Addr{netip.MustParseAddr("10.0.2.15")}
	if err := d.Complete(s, 0); err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 4096)
	n, _ := mounted.ReadAt(text, 0)
	if !strings.Contains(string(text[:n]), "10.0.2.15\tweb-0") {
		t.Errorf("the file that is mounted has\n%s", text[:n])
	}
	names := filepath.Join(filepath.Dir(string(d)), "names")
	if err := errors.Join(os.MkdirAll(names, 0o700), os.WriteFile(filepath.Join(names, s.ID+".json"), []byte(`{"names": ["db db.shop"]}`), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := d.Complete(s, 0); err != nil {
		t.Fatal(err)
	}
	n, _ = mounted.ReadAt(text, 0)
	if got := string(text[:n]); !strings.HasSuffix(got, "\n169.254.176.1\tdb db.shop\n") || !strings.Contains(got, "10.0.2.15\tweb-0") {
		t.Errorf("with the names of Services the file has\n%s", got)
	}
	if err := d.Remove(s.ID); err != nil {
		t.Error(err)
	}
	if err := d.Remove(s.ID); err != nil {
		t.Errorf("the second time: %v", err)
	}
}
