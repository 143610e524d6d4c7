package doctor_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// All that doctor says of five hosts, to be read as their users read it.
func TestBrokenHostsAsTheyAreTold(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(*patient){
		"su": func(p *patient) { // a shell started with su, without lingering
			p.env = map[string]string{}
			delete(p.files, "var/lib/systemd/linger/ann")
			p.Podman, p.PodmanError, p.ManagerError = nil, errors.New("no socket is known"), errors.New("no systemd user manager: nothing leads to one; log in with ssh")
		},
		"debian-12-minimal": func(p *patient) { // installed without what packages recommend
			p.Podman.Version = semver.MustParse("4.3.1")
			p.programs = []string{"podman", "newuidmap", "newgidmap", "netavark"}
			delete(p.files, "usr/lib/systemd/user/podman-user-wait-network-online.service")
			delete(p.files, "etc/containers/policy.json")
		},
		"upgraded": func(p *patient) { // it has carried cgroup v1 along, and Podman 3
			delete(p.files, "sys/fs/cgroup/cgroup.controllers")
			delete(p.files, manager)
			p.set("sys/fs/cgroup/memory/tasks", "")
			p.Podman.Version, p.Podman.CgroupManager = semver.MustParse("3.4.4"), "cgroupfs"
			p.programs = append(p.programs, "slirp4netns")
		},
		"systemd-249": func(p *patient) { // delegates memory and pids only
			p.set(manager, "memory pids\n")
			p.Podman.Version = semver.MustParse("4.9.3")
			p.programs = append(p.programs, "slirp4netns")
			p.online = "inactive"
		},
		"hardened": func(p *patient) { // no user namespaces, no ranges, a full disk
			p.set("proc/sys/user/max_user_namespaces", "0\n")
			p.set("etc/subuid", "")
			p.set("etc/subgid", "ann:100000:1000\n")
			p.set("sys/fs/selinux/enforce", "1\n")
			p.bytes = 50 << 20
			p.Podman, p.PodmanError = nil, errors.New("the service ends at once")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := healthy()
			harm(p)
			var got strings.Builder
			for _, f := range p.findings(t) {
				fmt.Fprintf(&got, "%-4s %s\n", f.Level, f)
			}
			path := filepath.Join("testdata", name+".golden.txt")
			if *update {
				if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil || got.String() != string(want) {
				t.Errorf("%v; run with -update and look at the difference. Doctor says\n%s", err, &got)
			}
		})
	}
}
