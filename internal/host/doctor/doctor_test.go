package doctor_test

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/blang/semver/v4"

	"github.com/podtask/podtask/internal/host/doctor"
)

// patient is a host that can be broken.
type patient struct {
	files     fstest.MapFS
	env       map[string]string
	programs  []string
	online    string // what systemctl says about the network
	netavark  string // its version; empty for 1.17.0
	updates   string // what systemctl says about Podman's timer of updates
	changelog string // of the rpm
	bytes     uint64
	doctor.Host
}

const manager = "sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/cgroup.controllers"

// healthy is Debian 13 with all that tasks want.
func healthy() *patient {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	return &patient{
		files: fstest.MapFS{
			"run/user/1000":                                                {Mode: fs.ModeDir | 0o700},
			"run/user/1000/systemd/private":                                {Mode: fs.ModeSocket},
			"sys/fs/cgroup/cgroup.controllers":                             file("cpu io memory pids\n"),
			manager:                                                        file("cpu memory pids\n"),
			"etc/subuid":                                                   file("root:1:1\nann:100000:65536\n"),
			"etc/subgid":                                                   file("1000:100000:65536\n"),
			"etc/containers/policy.json":                                   file(`{"default":[]}`),
			"var/lib/systemd/linger/ann":                                   file(""),
			"proc/sys/user/max_user_namespaces":                            file("7000\n"),
			"proc/sys/net/ipv4/ip_unprivileged_port_start":                 file("1024\n"),
			"proc/sys/kernel/keys/maxkeys":                                 file("200\n"),
			"proc/sys/kernel/keys/maxbytes":                                file("20000\n"),
			"proc/key-users":                                               file("    0:    95 94/94 90/1000000 2021/25000000\n 1000:     5 5/5 4/200 62/20000\n"),
			"proc/sys/fs/inotify/max_user_instances":                       file("128\n"),
			"proc/sys/fs/inotify/max_user_watches":                         file("65536\n"),
			"proc/sys/kernel/pid_max":                                      file("4194304\n"),
			"proc/self/limits":                                             file("Limit                     Soft Limit           Hard Limit           Units     \nMax open files            1024                 524288               files     \n"),
			"sys/fs/cgroup/user.slice/user-1000.slice/pids.max":            file("10813\n"),
			"sys/fs/cgroup/user.slice/user-1000.slice/pids.current":        file("41\n"),
			"usr/lib/systemd/user/podman-user-wait-network-online.service": file(""),
		},
		env:      map[string]string{"XDG_RUNTIME_DIR": "/run/user/1000"},
		programs: []string{"podman", "pasta", "newuidmap", "newgidmap", "netavark", "aardvark-dns", "nft", "iptables"},
		online:   "active",
		bytes:    100 << 30,
		Host: doctor.Host{
			UID: 1000, User: "ann", Home: "/srv/ann", StateDir: "/srv/ann/state",
			Podman: &doctor.Podman{Version: semver.MustParse("5.4.2"), Socket: "/run/user/1000/podman/podman.sock", CgroupManager: "systemd", NetworkBackend: "netavark", Rootless: true},
		},
	}
}

func (p *patient) set(name, text string) { p.files[name] = &fstest.MapFile{Data: []byte(text)} }

// lose removes programs.
func (p *patient) lose(programs ...string) {
	p.programs = slices.DeleteFunc(p.programs, func(s string) bool { return slices.Contains(programs, s) })
}

// findings are what doctor says, of all checks.
func (p *patient) findings(t *testing.T) []doctor.Finding {
	t.Helper()
	h := p.Host
	h.Root = p.files
	h.Getenv = func(k string) string { return p.env[k] }
	h.LookPath = func(program string) (string, error) {
		if slices.Contains(p.programs, program) {
			return "/usr/bin/" + program, nil
		}
		return "", exec.ErrNotFound
	}
	h.Output = func(_ context.Context, program string, args ...string) string {
		switch {
		case strings.HasSuffix(program, "netavark"):
			return "netavark " + cmp.Or(p.netavark, "1.17.0")
		case program == "rpm":
			return p.changelog
		case slices.Contains(args, "podman-auto-update.timer"):
			return cmp.Or(p.updates, "disabled")
		}
		return p.online
	}
	h.Free = func(string) (uint64, int, error) { return p.bytes, 50, nil }
	return doctor.Examine(t.Context(), h)
}

// examine returns what is not well, by check.
func (p *patient) examine(t *testing.T) map[string]doctor.Finding {
	t.Helper()
	ill := map[string]doctor.Finding{}
	names := map[string]bool{}
	for _, f := range p.findings(t) {
		if f.Check == "" || f.Text == "" || names[f.Check] || strings.Contains(f.String(), "\n") {
			t.Errorf("a finding without a name, a text or a line of its own: %+v", f)
		}
		names[f.Check] = true
		if f.Level != doctor.OK {
			ill[f.Check] = f
		}
	}
	return ill
}

func TestHealthyHost(t *testing.T) {
	t.Parallel()
	if ill := healthy().examine(t); len(ill) > 0 {
		t.Errorf("nothing is wrong, yet %v", ill)
	}
}

// Hosts as people have them, and what they have to be told.
func TestBrokenHosts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		harm func(*patient)
		// want is "level check: part of the line", in any order.
		want []string
	}{
		{"a shell that su made", func(p *patient) {
			p.env = map[string]string{}
			p.Podman, p.PodmanError, p.ManagerError = nil, errors.New("no socket"), errors.New("no bus")
		}, []string{
			"fail runtime-dir: machinectl shell", "fail socket: no socket", "warn podman: not known",
			"warn user-manager: no bus", "warn delegation: enable-linger 1000",
		}},
		{"Podman is not installed", func(p *patient) {
			p.programs = nil
			p.Podman, p.PodmanError = nil, errors.New("podman cannot be started")
		}, []string{
			"fail podman: apt-get install podman", "fail socket: cannot be started",
			"fail idmap: apt-get install uidmap", "fail network: apt-get install passt",
		}},
		{"cgroup v1, as on a host that was upgraded", func(p *patient) {
			delete(p.files, "sys/fs/cgroup/cgroup.controllers")
			delete(p.files, manager)
			p.set("sys/fs/cgroup/memory/tasks", "")
		}, []string{"warn cgroups: systemd.unified_cgroup_hierarchy=1", "warn delegation: unified_cgroup_hierarchy"}},
		{"systemd before 252: no cpu for users", func(p *patient) { p.set(manager, "memory pids\n") },
			[]string{"warn delegation: Delegate=cpu memory pids"}},
		{"a user that useradd made without ranges", func(p *patient) { p.set("etc/subuid", "bob:100000:65536\n"); p.set("etc/subgid", "ann:5:10\n") },
			[]string{"fail subids: /etc/subuid has no range for ann, /etc/subgid has only 10 ids"}},
		{"Debian 12", func(p *patient) {
			p.Podman.Version = semver.MustParse("4.3.1")
			p.programs = append(p.programs, "slirp4netns")
			delete(p.files, "usr/lib/systemd/user/podman-user-wait-network-online.service")
		}, []string{"warn podman: Podman 4.3.1 lacks networks with pasta"}},
		{"Debian 12 without its network program", func(p *patient) { p.Podman.Version = semver.MustParse("4.3.1") },
			[]string{"warn podman: 4.3.1", "fail network: apt-get install slirp4netns"}},
		{"Podman 4.4 to 4.9 with both network programs", func(p *patient) {
			p.Podman.Version = semver.MustParse("4.9.3")
			p.programs = append(p.programs, "slirp4netns")
		}, []string{"warn podman: 4.9.3"}},
		{"Podman 5 with the network program of 4", func(p *patient) { p.lose("pasta"); p.programs = append(p.programs, "slirp4netns") },
			[]string{"warn network: slirp4netns works if containers.conf or the task selects it"}},
		{"Debian 12 without iptables", func(p *patient) {
			p.Podman.Version = semver.MustParse("4.3.1")
			p.programs = append(p.programs, "slirp4netns")
			p.set("etc/containers/containers.conf", "[network]\nfirewall_driver = \"none\"\n") // which it does not know
			p.lose("iptables")
		}, []string{"warn podman: 4.3.1", "warn bridge: missing iptables; apt-get install iptables"}},
		{"Podman without what it recommends", func(p *patient) { p.lose("netavark", "aardvark-dns", "nft", "iptables") },
			[]string{"warn bridge: missing netavark, aardvark-dns, nft; apt-get install netavark aardvark-dns nftables"}},
		{"Podman without its name server", func(p *patient) { p.lose("aardvark-dns") },
			[]string{"warn bridge: have no name server, and Podman reports errors when it removes them: missing aardvark-dns; apt-get install aardvark-dns"}},
		{"a firewall that is not installed", func(p *patient) {
			p.set("etc/containers/containers.conf", "[network]\nfirewall_driver = \"none\"\n")
			p.set("etc/containers/containers.conf.d/10.conf", "[network]\n# firewall_driver = \"none\"\nfirewall_driver=\"nftables\"\n")
			p.lose("nft")
		}, []string{"warn bridge: missing nft; apt-get install nftables"}},
		{"networks of CNI without its plugins", func(p *patient) { p.Podman.NetworkBackend = "cni"; p.lose("netavark", "aardvark-dns") },
			[]string{"warn bridge: missing CNI plugin; apt-get install containernetworking-plugins"}},
		{"Ubuntu 22.04", func(p *patient) {
			p.Podman.Version = semver.MustParse("3.4.4")
			p.programs = append(p.programs, "slirp4netns")
		},
			[]string{"fail podman: Podman 3.4.4 is too old"}},
		{"a hardened kernel", func(p *patient) { p.set("proc/sys/user/max_user_namespaces", "0\n") },
			[]string{"fail user-namespaces: sysctl -w user.max_user_namespaces"}},
		{"AppArmor without a profile for Podman", func(p *patient) { p.set("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n") },
			[]string{"warn user-namespaces: /etc/apparmor.d/podman"}},
		{"containers without policy", func(p *patient) { delete(p.files, "etc/containers/policy.json") },
			[]string{"fail policy: turns signature verification off for every registry"}},
		{"a user with 90 tasks", func(p *patient) { p.set("proc/key-users", "1000: 5 5/5 184/200 9000/20000\n") },
			[]string{"warn keys: kernel.keys.maxkeys is 200, of which 184 are used; kernel.keys.maxbytes is 20000, of which 9000 are used; for more containers: sysctl -w kernel.keys.maxkeys=20000"}},
		{"a slice with few processes", func(p *patient) { p.set("sys/fs/cgroup/user.slice/user-1000.slice/pids.max", "50\n") },
			[]string{"warn processes: TasksMax of user-1000.slice is 50, of which 41 are used"}},
		{"containers without keyrings", func(p *patient) {
			p.set("proc/key-users", "1000: 5 5/5 184/200 9000/20000\n")
			p.Podman.NoKeyring = true
		}, nil},
		{"few inotify instances", func(p *patient) { p.set("proc/sys/fs/inotify/max_user_instances", "8\n") },
			[]string{"warn inotify: fs.inotify.max_user_instances is 8"}},
		{"few open files", func(p *patient) { p.set("proc/self/limits", "Max open files            16  16  files\n") },
			[]string{"warn open-files: the hard limit on open files (ulimit -Hn) is 16"}},
		{"Podman 6 with the policy of its distribution", func(p *patient) {
			p.Podman.Version, p.netavark = semver.MustParse("6.0.2"), "2.0.0"
			delete(p.files, "etc/containers/policy.json")
			p.set("usr/share/containers/policy.json", `{"default":[]}`)
		}, nil},
		{"Podman 5 does not read /usr/share/containers", func(p *patient) {
			delete(p.files, "etc/containers/policy.json")
			p.set("usr/share/containers/policy.json", `{"default":[]}`)
		}, []string{"fail policy: there is no signature policy (/srv/ann/.config/containers/policy.json, /etc/containers/policy.json)"}},
		{"Podman 6 with a policy in the environment", func(p *patient) {
			p.Podman.Version, p.netavark = semver.MustParse("6.0.2"), "2.0.0"
			p.env["CONTAINERS_POLICY_JSON"] = "/srv/ann/policy.json"
		}, []string{"fail policy: there is no signature policy (/srv/ann/policy.json)"}},
		{"Podman 6 with the netavark of Debian", func(p *patient) { p.Podman.Version = semver.MustParse("6.0.2") },
			[]string{"warn bridge: netavark 1.17.0 is too old for Podman 6.0.2, which needs netavark 2"}},
		{"Podman 6 does not offer slirp4netns", func(p *patient) {
			p.Podman.Version, p.netavark = semver.MustParse("6.0.2"), "2.0.0"
			p.lose("pasta")
			p.programs = append(p.programs, "slirp4netns")
		}, []string{"fail network: apt-get install passt"}},
		{"Podman 6 with mirrors for rootless users", func(p *patient) {
			p.Podman.Version, p.netavark = semver.MustParse("6.0.2"), "2.0.0"
			p.set("etc/containers/registries.rootless.conf.d/mirror.conf", "")
		}, []string{"warn registries: podtask does not read /etc/containers/registries.rootless.conf.d"}},
		{"a policy with a slip of the pen", func(p *patient) { p.set("srv/ann/.config/containers/policy.json", `{"default":`) },
			[]string{"fail policy: /srv/ann/.config/containers/policy.json is not valid JSON"}},
		{"a full disk", func(p *patient) { p.bytes = 5 << 20 }, []string{"fail disk: only 5 MiB"}},
		{"a disk that is nearly full", func(p *patient) { p.bytes = 1 << 30 }, []string{"warn disk: 1024 MiB"}},
		{"a server without logins", func(p *patient) { delete(p.files, "var/lib/systemd/linger/ann"); p.online = "inactive" },
			[]string{"warn linger: loginctl enable-linger", "warn network-online: 90 seconds"}},
		{"a user of a domain", func(p *patient) {
			p.User = `CORP\ann`
			p.set("etc/subuid", "CORP\\ann:100000:65536\n")
			p.set(`var/lib/systemd/linger/CORP\\ann`, "") // as systemd-logind 257 writes it
		}, nil},
		{"a user of a domain without logins", func(p *patient) { p.User, p.env = `CORP\ann`, nil; p.set("etc/subuid", "1000:100000:65536\n") },
			[]string{"fail runtime-dir: enable-linger 1000", "warn delegation: enable-linger 1000", "warn linger: loginctl enable-linger"}},
		{"cgroupfs", func(p *patient) { p.Podman.CgroupManager = "cgroupfs" }, []string{"warn cgroups: cgroup_manager"}},
		{"root's Podman", func(p *patient) { p.Podman.Rootless = false }, []string{"warn socket: ordinary user"}},
		{"an open runtime directory", func(p *patient) { p.files["run/user/1000"].Mode = fs.ModeDir | 0o755 }, []string{"warn runtime-dir: chmod 700"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := healthy()
			tt.harm(p)
			ill := p.examine(t)
			for _, want := range tt.want {
				head, part, _ := strings.Cut(want, ": ")
				level, check, _ := strings.Cut(head, " ")
				f, found := ill[check]
				if !found || string(f.Level) != level || !strings.Contains(f.String(), part) {
					t.Errorf("want %q, got %s %q", want, f.Level, f)
				}
				delete(ill, check)
			}
			for _, f := range ill {
				t.Errorf("this is not what is wrong: %s %q", f.Level, f)
			}
		})
	}
}

// What containers.conf leaves out is not missed, nor what another backend would want.
func TestNetworksThatNeedLess(t *testing.T) {
	t.Parallel()
	p := healthy()
	p.set("srv/ann/.config/containers/containers.conf", "[network]\nfirewall_driver = 'none'\n")
	p.lose("nft", "iptables")
	if ill := p.examine(t); len(ill) > 0 {
		t.Errorf("without a firewall: %v", ill)
	}
	p = healthy()
	p.Podman.NetworkBackend = "cni"
	p.lose("netavark", "aardvark-dns", "nft")
	for _, plugin := range []string{"bridge", "firewall", "host-local", "portmap"} {
		p.set("usr/lib/cni/"+plugin, "")
	}
	if ill := p.examine(t); len(ill) > 0 {
		t.Errorf("with CNI: %v", ill)
	}
}

func TestSubordinateIDsFromElsewhere(t *testing.T) {
	t.Parallel()
	p := healthy()
	p.set("etc/subuid", "")
	p.set("etc/nsswitch.conf", "passwd: files sss\nsubid: sss\n")
	if ill := p.examine(t); len(ill) > 0 {
		t.Errorf("%v", ill)
	}
}

func TestWorst(t *testing.T) {
	t.Parallel()
	of := func(levels ...doctor.Level) (f []doctor.Finding) {
		for _, l := range levels {
			f = append(f, doctor.Finding{Level: l})
		}
		return f
	}
	for want, findings := range map[doctor.Level][]doctor.Finding{
		doctor.OK:   of(doctor.OK),
		doctor.Warn: of(doctor.OK, doctor.Warn, doctor.OK),
		doctor.Fail: of(doctor.Fail, doctor.Warn),
	} {
		if got := doctor.Worst(findings); got != want {
			t.Errorf("the worst of %v is %s", findings, got)
		}
	}
	if n := len(doctor.Failures(of(doctor.Fail, doctor.Warn, doctor.Fail))); n != 2 {
		t.Errorf("%d failures, want 2", n)
	}
}

// Files of the host are read as they are: whatever they hold, a finding comes of it.
func FuzzExamine(f *testing.F) {
	f.Add("etc/subuid", "ann:1:99999999999999999999\n:::\n")
	f.Add("etc/nsswitch.conf", "subid:")
	f.Add("etc/containers/policy.json", "[]")
	f.Fuzz(func(t *testing.T, name, text string) {
		p := healthy()
		if !fs.ValidPath(name) || name == "." {
			return
		}
		for known := range p.files {
			if strings.HasPrefix(known, name+"/") || strings.HasPrefix(name, known+"/") {
				return
			}
		}
		p.set(name, strings.ReplaceAll(text, "\x00", ""))
		p.examine(t)
	})
}
