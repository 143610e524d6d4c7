//go:build e2e && bed_vm

package vm

import (
	"encoding/json"
	"strings"
	"testing"
)

// finding is what doctor says of one thing.
type finding struct{ Check, Level, Text, Fix string }

// examined is what doctor finds, by check, with changes to its environment.
func examined(t *testing.T, env ...string) map[string]finding {
	t.Helper()
	out, errs, code := command(t, "env", append(env, bin(), "doctor", "--format", "json")...)
	var all []finding
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatalf("doctor, code %d: %v in %s%s", code, err, out, errs)
	}
	found, failed := map[string]finding{}, 0
	for _, f := range all {
		found[f.Check] = f
		if f.Level == "fail" {
			failed = 1
		}
	}
	if code != failed {
		t.Errorf("doctor ended with code %d, want %d: %s", code, failed, out)
	}
	return found
}

// A host is broken for real, doctor says what it is and nothing else, run refuses in
// its words, and everything works again afterwards.
func TestDoctorOnBrokenHosts(t *testing.T) {
	path := define(t, "doctor", "", "", box("app", "print hello", 0))
	pair := define(t, "doctors", "", "", box("app", "print hello", 0), box("side", "sleep forever", 0))
	healthy := examined(t)
	for name, host := range map[string]struct {
		// harm and heal are scripts for root.
		harm, heal string
		env        []string
		want       map[string]string // the levels that change
		says       string            // a part of what the first to fail says
		refuses    string            // the check whose words run repeats
	}{
		"a shell that su made": {
			env:  []string{"-u", "XDG_RUNTIME_DIR", "-u", "DBUS_SESSION_BUS_ADDRESS"},
			want: map[string]string{"podman": "warn", "socket": "fail", "runtime-dir": "fail", "user-manager": "warn", "delegation": "warn"},
			says: "XDG_RUNTIME_DIR", refuses: "runtime-dir",
		},
		"the user does not linger": {
			harm: "mv /var/lib/systemd/linger/* /var/lib/systemd/", heal: "mv /var/lib/systemd/podtask* /var/lib/systemd/linger/",
			want: map[string]string{"linger": "warn"}, says: "no task starts at boot",
		},
		"images have no policy": {
			harm: "mv /etc/containers/policy.json /srv/", heal: "mv /srv/policy.json /etc/containers/",
			want: map[string]string{"policy": "fail"}, says: "cannot pull images", refuses: "policy",
		},
		"no subordinate ids": {
			harm: "mv /etc/subuid /srv/ && touch /etc/subuid", heal: "mv /srv/subuid /etc/",
			want: map[string]string{"subids": "fail"}, says: "/etc/subuid has no range for",
		},
		"a hardened kernel": {
			harm: "sysctl -n user.max_user_namespaces >/srv/most && sysctl -q -w user.max_user_namespaces=0",
			heal: `sysctl -q -w user.max_user_namespaces="$(cat /srv/most)"`,
			want: map[string]string{"user-namespaces": "fail"}, says: "no user namespaces",
		},
		"no program connects pods": {
			harm: "mkdir -p /srv/away && for p in pasta slirp4netns; do [ ! -e /usr/bin/$p ] || mv /usr/bin/$p /srv/away; done",
			heal: "mv /srv/away/* /usr/bin/",
			want: map[string]string{"network": "fail"}, says: "pods have no network", refuses: "network",
		},
		"nothing makes networks of containers": {
			harm: "mv /usr/lib/podman/netavark /srv/", heal: "mv /srv/netavark /usr/lib/podman/",
			want: map[string]string{"bridge": "warn"}, says: "cannot run in bridge mode: missing netavark", refuses: "bridge",
		},
	} {
		t.Run(name, func(t *testing.T) {
			heal := func() {
				if host.heal != "" {
					must(t, "sudo", "-n", "sh", "-ec", host.heal)
				}
			}
			if host.harm != "" {
				must(t, "sudo", "-n", "sh", "-ec", host.harm)
			}
			t.Cleanup(heal)
			found := examined(t, host.env...)
			said := ""
			for check, f := range found {
				want, ill := host.want[check]
				if !ill {
					want = healthy[check].Level
				}
				if f.Level != want {
					t.Errorf("%s is %s, want %s: %s", check, f.Level, want, f.Text)
				}
				if ill {
					said += f.Text + "; " + f.Fix + "\n"
					if f.Fix == "" && check != "podman" {
						t.Errorf("%s has no fix: %s", check, f.Text)
					}
				}
			}
			if !strings.Contains(said, host.says) {
				t.Errorf("doctor does not say %q: %s", host.says, said)
			}
			if f, refuses := found[host.refuses]; refuses {
				out, errs, code := command(t, "env", append(host.env, bin(), "run", "--rm", pair)...)
				if code != 125 || !strings.Contains(errs, f.Text) || !strings.Contains(errs, f.Fix) {
					t.Errorf("run, code %d, does not say %q: %s%s", code, f.Text, out, errs)
				}
			}
		})
	}
	if out := podtask(t, "run", "--rm", path); !strings.Contains(out, "hello") {
		t.Errorf("on the repaired host the task printed %q", out)
	}
}
