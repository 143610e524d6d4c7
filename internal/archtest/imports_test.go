package archtest

import (
	"slices"
	"strings"
	"testing"
)

// rule lists the packages of this module that a package may import. A name that ends in "/" stands
// for all packages below.
type rule struct {
	pkg  string
	may  []string
	also []string // its tests, besides
}

// The direction of imports. The packages that may import nothing are leaves,
// useful alone; only cmd/podtask joins them all.
var direction = []rule{
	{pkg: "pkg/taskdef", may: []string{"pkg/refs", "internal/doctree", "internal/suggest", "pkg/logroute"}},
	{pkg: "pkg/state"},
	{pkg: "pkg/state/statetest", may: []string{"pkg/state"}},
	{pkg: "pkg/catalog", may: []string{"pkg/state"}},
	{pkg: "pkg/libpod"},
	{pkg: "pkg/images", may: []string{"internal/flight"}},
	{pkg: "pkg/secrets"},
	{pkg: "pkg/cgroups"},
	{pkg: "pkg/netns"},
	{pkg: "pkg/quota"},
	{pkg: "pkg/doctor", may: []string{"pkg/cgroups", "pkg/quota"}},
	{pkg: "pkg/timeline"},
	{pkg: "pkg/logroute"},
	{pkg: "pkg/logsend/awslogs", may: []string{"pkg/logroute"}, also: []string{"internal/logstest"}},
	{pkg: "pkg/logsend", may: []string{"pkg/logroute"}},
	{pkg: "pkg/logsend/forward", may: []string{"pkg/logroute", "pkg/logsend"}},
	{pkg: "pkg/logsend/gelf", may: []string{"pkg/logroute", "pkg/logsend"}},
	{pkg: "pkg/logsend/splunk", may: []string{"pkg/logroute", "pkg/logsend"}},
	{pkg: "pkg/logsend/syslog", may: []string{"pkg/logroute", "pkg/logsend"}},
	{pkg: "internal/logstest", may: []string{"pkg/logsend/forward"}},
	{pkg: "pkg/taskunit", may: []string{"internal/suggest"}, also: []string{"pkg/unitdir"}},
	{pkg: "pkg/convert", may: []string{"internal/envfile", "pkg/taskdef", "pkg/taskunit"}, also: []string{"internal/composefile"}},
	{pkg: "pkg/unitdir", may: []string{"pkg/taskunit"}},
	{pkg: "pkg/ports", may: []string{"pkg/taskdef"}},
	{pkg: "pkg/admission", may: []string{"pkg/taskdef", "pkg/ports"}},
	{pkg: "pkg/lifecycle", may: []string{"pkg/taskdef", "pkg/admission"}},
	{pkg: "pkg/service", may: []string{"pkg/taskdef", "pkg/admission"}},
	{pkg: "pkg/config", may: []string{"internal/gpu", "pkg/pod", "pkg/refs", "pkg/secrets", "internal/suggest", "pkg/admission", "pkg/awsvalues", "pkg/lifecycle", "pkg/taskdef"}},
	{pkg: "pkg/awsvalues"},
	{pkg: "pkg/pod", may: []string{"pkg/refs", "internal/doctree", "internal/suggest", "pkg/lifecycle", "pkg/taskdef"}},
	{pkg: "internal/arn"},
	{pkg: "internal/sigv4"},
	{pkg: "internal/awskey", may: []string{"internal/atomicfile", "internal/sigv4"}},
	{pkg: "internal/awsapi", may: []string{"internal/arn", "internal/doctree", "internal/limitlisten", "internal/sigv4", "pkg/catalog", "pkg/lifecycle", "pkg/service", "pkg/state", "pkg/taskdef"}},
	{pkg: "internal/datachannel"},
	{pkg: "internal/ecsexec", may: []string{"internal/datachannel", "internal/limitlisten"}},
	{pkg: "internal/doctree"},
	{pkg: "internal/suggest"},
	{pkg: "internal/term"},
	{pkg: "internal/begin", may: []string{"pkg/netns"}},
	{pkg: "internal/helptext"},
	{pkg: "internal/lint"},
	{pkg: "internal/atomicfile"},
	{pkg: "internal/console", may: []string{"internal/helptext", "internal/imagestore", "internal/observe", "internal/term", "pkg/api", "pkg/lifecycle"}, also: []string{"pkg/libpod"}},
	{pkg: "internal/webui", may: []string{"internal/console", "internal/limitlisten", "internal/term", "internal/top", "pkg/api", "pkg/lifecycle"}, also: []string{"pkg/timeline"}},
	{pkg: "internal/top", may: []string{"internal/console", "internal/term", "pkg/api", "pkg/lifecycle", "pkg/timeline"}},
	{
		pkg:  "internal/connect",
		may:  []string{"internal/arn", "internal/awsapi", "internal/datachannel", "internal/ecsexec", "internal/ledger", "pkg/admission", "pkg/libpod", "internal/adjust", "pkg/refs", "internal/agent", "internal/console", "internal/envfile", "internal/fleet", "internal/imagestore", "internal/logdelivery", "internal/messages", "internal/observe", "internal/owner", "internal/preflight", "internal/record", "internal/services", "internal/tasksecrets", "internal/term", "pkg/api", "pkg/catalog", "pkg/cgroups", "pkg/config", "pkg/images", "pkg/lifecycle", "pkg/pod", "pkg/service", "pkg/state", "pkg/taskdef"},
		also: []string{"internal/logfiles"},
	},
	{pkg: "internal/controlplane"}, // test support: processes of a program that is built elsewhere
	{pkg: "internal/rollback", may: []string{"internal/atomicfile", "pkg/lifecycle", "pkg/taskdef"}},
	{pkg: "internal/supervise", may: []string{"internal/connect", "internal/console", "internal/owner", "internal/rollback", "internal/term", "pkg/api", "pkg/lifecycle", "pkg/taskdef"}},
	{pkg: "pkg/metadata", may: []string{"internal/limitlisten", "pkg/lifecycle", "pkg/taskdef"}},
	{pkg: "pkg/api", may: []string{"internal/limitlisten", "pkg/lifecycle", "pkg/service", "pkg/taskdef"}},
	// One package for each idea of the agent, from the lowest to the composition root.
	{pkg: "internal/conn", may: []string{"internal/atomicfile", "pkg/cgroups", "pkg/libpod"}},
	{pkg: "internal/record", may: []string{"pkg/lifecycle", "pkg/state", "pkg/taskdef"}},
	{pkg: "internal/ledger", may: []string{"internal/record", "pkg/admission", "pkg/lifecycle", "pkg/state"}},
	{pkg: "internal/failpoint", may: []string{"pkg/lifecycle"}},
	{pkg: "internal/imagestore", may: []string{"internal/conn", "internal/failpoint", "internal/flight", "internal/record", "pkg/config", "pkg/images", "pkg/libpod", "pkg/lifecycle", "pkg/secrets", "pkg/state", "pkg/taskdef"}, also: []string{"internal/effects", "internal/enginetest"}},
	{pkg: "internal/queue", may: []string{"internal/ledger", "internal/podspec", "internal/record", "pkg/admission", "pkg/cgroups", "pkg/config", "pkg/libpod", "pkg/lifecycle", "pkg/netns", "pkg/ports", "pkg/quota", "pkg/taskdef"}},
	{pkg: "internal/podspec", may: []string{"internal/arn", "pkg/cgroups", "pkg/libpod", "pkg/lifecycle", "pkg/logroute", "pkg/metadata", "pkg/ports", "pkg/secrets", "pkg/taskdef"}},
	{pkg: "internal/limits", may: []string{"internal/conn", "internal/podspec", "pkg/cgroups", "pkg/lifecycle"}},
	{pkg: "internal/tasksecrets", may: []string{"internal/podspec", "internal/record", "pkg/lifecycle", "pkg/secrets", "pkg/taskdef"}},
	{pkg: "internal/endpoint", may: []string{"internal/arn", "internal/podspec", "internal/record", "pkg/config", "pkg/libpod", "pkg/lifecycle", "pkg/metadata", "pkg/taskdef"}},
	{pkg: "internal/prober", may: []string{"internal/podspec", "pkg/libpod", "pkg/lifecycle", "pkg/netns", "pkg/taskdef"}},
	{pkg: "internal/logfiles", may: []string{"internal/atomicfile", "pkg/logroute"}},
	{pkg: "internal/logdelivery", may: []string{"internal/failpoint", "internal/logfiles", "internal/podspec", "internal/record", "pkg/config", "pkg/libpod", "pkg/lifecycle", "pkg/logroute", "pkg/logsend", "pkg/logsend/", "pkg/metadata", "pkg/netns", "pkg/state", "pkg/taskdef"}, also: []string{"internal/logstest"}},
	{pkg: "internal/messages", may: []string{"pkg/libpod", "pkg/lifecycle"}, also: []string{"pkg/taskdef"}},
	{pkg: "internal/effects", may: []string{"internal/endpoint", "internal/failpoint", "internal/imagestore", "internal/ledger", "internal/limits", "internal/logfiles", "internal/messages", "internal/podspec", "internal/prober", "internal/queue", "internal/tasksecrets", "pkg/config", "pkg/images", "pkg/libpod", "pkg/lifecycle", "pkg/netns", "pkg/ports", "pkg/secrets", "pkg/state", "pkg/taskdef"}},
	{pkg: "internal/preflight", may: []string{"internal/conn", "internal/ledger", "internal/limits", "internal/podspec", "internal/queue", "internal/tasksecrets", "pkg/cgroups", "pkg/doctor", "pkg/libpod", "pkg/lifecycle", "pkg/netns", "pkg/ports", "pkg/taskdef"}},
	{pkg: "internal/observe", may: []string{"internal/limits", "internal/logfiles", "pkg/logroute", "internal/podspec", "internal/record", "pkg/cgroups", "pkg/libpod", "pkg/lifecycle", "pkg/netns", "pkg/taskdef"}},
	{pkg: "internal/owner", may: []string{"internal/leftover", "internal/logdelivery", "internal/driver", "internal/effects", "internal/endpoint", "internal/failpoint", "internal/ledger", "internal/limits", "internal/loop", "internal/podspec", "internal/record", "pkg/libpod", "pkg/lifecycle", "pkg/state"}},
	{pkg: "internal/create", may: []string{"internal/endpoint", "internal/ledger", "internal/owner", "internal/preflight", "internal/record", "internal/tasksecrets", "pkg/lifecycle", "pkg/taskdef"}},
	{pkg: "internal/leftover", may: []string{"pkg/cgroups", "pkg/libpod"}},
	{pkg: "internal/cleanup", may: []string{"internal/effects", "internal/leftover", "internal/owner", "internal/podspec", "internal/record", "pkg/libpod", "pkg/lifecycle", "pkg/state"}},
	{pkg: "internal/fleet", may: []string{"internal/owner", "internal/record", "pkg/lifecycle", "pkg/state"}},
	{pkg: "internal/services", may: []string{"internal/create", "internal/driver", "internal/fleet", "internal/forward", "internal/ledger", "internal/loop", "internal/preflight", "internal/record", "pkg/lifecycle", "pkg/netns", "pkg/service", "pkg/state", "pkg/taskdef"}},
	{pkg: "pkg/refs"},
	{pkg: "internal/adjust", may: []string{"pkg/taskdef"}},
	{pkg: "internal/envfile", may: []string{"pkg/taskdef"}},
	{pkg: "internal/agent", may: []string{"pkg/awsvalues", "pkg/metadata", "pkg/secrets", "internal/cleanup", "internal/leftover", "internal/conn", "internal/create", "internal/effects", "internal/endpoint", "internal/failpoint", "internal/fleet", "internal/gpu", "internal/imagestore", "internal/ledger", "internal/limits", "internal/logdelivery", "internal/logfiles", "internal/observe", "internal/owner", "internal/preflight", "internal/prober", "internal/queue", "internal/record", "internal/services", "internal/tasksecrets", "pkg/config", "pkg/images", "pkg/libpod", "pkg/lifecycle", "pkg/netns", "pkg/state"}, also: []string{"internal/enginetest", "internal/podspec", "pkg/cgroups", "pkg/service", "pkg/taskdef"}},
	{pkg: "internal/driver", may: []string{"pkg/lifecycle", "pkg/service"}, also: []string{"pkg/taskdef"}},
	{pkg: "internal/loop", may: []string{"internal/driver"}},
	{pkg: "internal/sim", may: []string{"internal/driver", "pkg/lifecycle", "pkg/taskdef", "pkg/state", "pkg/state/statetest", "pkg/libpod", "pkg/images", "pkg/cgroups", "pkg/netns"}},
	{pkg: "internal/enginetest", may: []string{"pkg/libpod", "pkg/images", "test/testbed"}},
	{pkg: "internal/enginesim", may: []string{"internal/agent", "internal/conn", "internal/driver", "internal/endpoint", "internal/enginetest", "pkg/config", "pkg/images", "pkg/libpod", "pkg/lifecycle", "pkg/state", "pkg/state/statetest", "pkg/taskdef"}},
	{pkg: "internal/archtest"},
	{pkg: "internal/flight"},
	{pkg: "internal/gpu"},
	{pkg: "internal/forward"},
	{pkg: "internal/limitlisten"},
	{pkg: "internal/mutants"}, // it runs the tests of others, as text
	{pkg: "internal/registrytest", may: []string{"internal/faults"}, also: []string{"pkg/images"}},
	{pkg: "internal/faults"},
	{pkg: "internal/guide"},
	{pkg: "internal/leaktest", may: []string{"test/testbed"}},
	{pkg: "internal/nonsense"},
	{pkg: "internal/rudeclient"},
	{pkg: "internal/kubeserve", may: []string{"internal/limitlisten"}},
	{pkg: "internal/podaccess", may: []string{"internal/agent", "internal/conn", "internal/kubeserve", "internal/observe", "internal/podspec", "pkg/cgroups", "pkg/libpod", "pkg/lifecycle", "pkg/netns", "pkg/taskdef"}},
	{pkg: "internal/kubefiles"},
	{pkg: "internal/kubenode", may: []string{"internal/kubefiles", "pkg/api"}},
	{pkg: "cmd/podtask-kubelet", may: []string{"internal/agent", "internal/begin", "internal/kubenode", "internal/kubeserve", "internal/podaccess", "pkg/config", "pkg/state"}},
	{pkg: "internal/composefile"},
	{pkg: "cmd/podtask-compose", may: []string{"internal/composefile", "pkg/convert"}},
	{pkg: "cmd/podtask-netns", may: []string{"pkg/netns"}},                            // small: it runs at each start
	{pkg: "cmd/podtask-user-generator", may: []string{"pkg/taskunit", "pkg/unitdir"}}, // small: no Podman, no YAML
	{pkg: "internal/metrics", may: []string{"internal/agent", "internal/logdelivery", "internal/record", "pkg/cgroups", "pkg/lifecycle", "pkg/service", "pkg/taskdef"}},
	{pkg: "cmd/podtask", may: []string{"internal/arn", "internal/awsapi", "internal/awskey", "internal/begin", "internal/sigv4", "internal/adjust", "internal/preflight", "pkg/", "internal/limitlisten", "internal/metrics", "internal/agent", "internal/suggest", "internal/term", "internal/top", "internal/webui", "internal/atomicfile", "internal/connect", "internal/console", "internal/helptext", "internal/lint", "internal/rollback", "internal/cleanup", "internal/envfile", "internal/failpoint", "internal/fleet", "internal/imagestore", "internal/logdelivery", "internal/limits", "internal/observe", "internal/owner", "internal/podspec", "internal/record", "internal/services", "internal/supervise", "internal/conn"}, also: []string{"internal/composefile"}},
	// Programs that are no part of the product stand alone.
	{pkg: "examples/"},
	{pkg: "hack/", may: []string{"internal/registrytest"}, also: []string{"pkg/images", "pkg/libpod"}},
	{pkg: "test/", may: []string{"pkg/", "internal/", "cmd/", "test/testbed"}},
}

// testSupport may be imported by every package's tests.
var testSupport = []string{"internal/guide", "pkg/state/statetest", "internal/registrytest", "internal/faults", "internal/leaktest", "internal/nonsense", "internal/rudeclient", "test/testbed"}

func matches(pattern, name string) bool {
	if strings.HasSuffix(pattern, "/") {
		return strings.HasPrefix(name, pattern)
	}
	return pattern == name
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) })
}

// badImports returns what p imports of this module against the rules. Known is false
// when no rule is about p.
func badImports(p pkg, rules []rule) (bad []string, known bool) {
	i := slices.IndexFunc(rules, func(r rule) bool { return matches(r.pkg, p.name()) })
	if i < 0 {
		return nil, false
	}
	r := rules[i]
	for _, imp := range p.Imports {
		if name := within(imp); ours(imp) && !matchesAny(r.may, name) {
			bad = append(bad, name)
		}
	}
	for _, imp := range slices.Concat(p.TestImports, p.XTestImports) {
		name := within(imp)
		own := name == p.name() || strings.HasPrefix(name, p.name()+"/")
		if ours(imp) && !own && !matchesAny(slices.Concat(r.may, r.also, testSupport), name) {
			bad = append(bad, name+" (in a test)")
		}
	}
	return bad, true
}

func TestImportDirection(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		bad, known := badImports(p, direction)
		if !known {
			t.Errorf("%s has no row in the table of import directions: add one", p.name())
		}
		for _, b := range bad {
			t.Errorf("%s imports %s: the table does not allow it", p.name(), b)
		}
	}
}

func TestImportCheckNoticesViolations(t *testing.T) {
	t.Parallel()
	rules := []rule{{pkg: "pkg/a", may: []string{"pkg/b"}, also: []string{"pkg/c"}}}
	path := func(names ...string) []string {
		for i, n := range names {
			names[i] = module + "/" + n
		}
		return names
	}
	tests := []struct {
		name string
		in   pkg
		want string
	}{
		{"allowed", pkg{Imports: append(path("pkg/b"), "fmt")}, ""},
		{"not allowed", pkg{Imports: path("pkg/b", "pkg/c")}, "pkg/c"},
		{"allowed in tests", pkg{TestImports: path("pkg/c", "pkg/a/atest")}, ""},
		{"not allowed in tests either", pkg{XTestImports: path("pkg/a", "pkg/d")}, "pkg/d (in a test)"},
	}
	for _, tt := range tests {
		tt.in.ImportPath = module + "/pkg/a"
		if bad, known := badImports(tt.in, rules); !known || strings.Join(bad, " ") != tt.want {
			t.Errorf("%s: got %v, want %q", tt.name, bad, tt.want)
		}
	}
	if _, known := badImports(pkg{ImportPath: module + "/pkg/new"}, rules); known {
		t.Error("a package without a row is not noticed")
	}
}

// wrappers are the packages through which alone a foreign library is reached.
var wrappers = []struct {
	library string // import path, or a prefix with "/" at its end
	except  []string
	only    []string
	why     string
}{
	{
		library: "github.com/containers/podman/v5/",
		except:  []string{"github.com/containers/podman/v5/pkg/systemd/parser"}, // standard library only
		only:    []string{"pkg/libpod", "test/"},
		why:     "what Podman's versions do differently is known in one place",
	},
	{
		library: "github.com/containers/image/v5/docker",
		only:    []string{"pkg/images", "test/"},
		why:     "registries are spoken to in one place",
	},
	{
		library: "github.com/aws/aws-sdk-go-v2/",
		only:    []string{"pkg/awsvalues", "pkg/logsend/awslogs", "pkg/taskdef", "internal/awsapi", "internal/sigv4", "test/"}, // the last three in tests
		why:     "what calls AWS is known in one place",
	},
	{
		library: "github.com/gorilla/websocket",
		only:    []string{"internal/ecsexec", "test/"},
		why:     "web sockets are limited in one place",
	},
	{
		library: "github.com/virtual-kubelet/",
		only:    []string{"internal/kubenode", "internal/kubeserve", "test/"},
		why:     "the rest of podtask knows no cluster",
	},
	{
		library: "k8s.io/client-go/",
		only:    []string{"internal/kubenode", "internal/kubeserve", "cmd/podtask-kubelet", "test/"},
		why:     "it is larger than podtask",
	},
	{
		library: "github.com/coreos/go-systemd/v22/dbus",
		only:    []string{"pkg/cgroups", "test/"},
		why:     "units are made in one place",
	},
	{
		library: "github.com/godbus/dbus/",
		only:    []string{"pkg/cgroups", "test/"},
		why:     "units are made in one place",
	},
}

func TestForeignLibrariesAreReachedThroughTheirWrapper(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		for _, imp := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			for _, w := range wrappers {
				if matches(w.library, imp) && !slices.Contains(w.except, imp) && !matchesAny(w.only, p.name()) {
					t.Errorf("%s imports %s, which only %s may: %s", p.name(), imp, strings.Join(w.only, ", "), w.why)
				}
			}
		}
	}
}
