package archtest

import (
	"slices"
	"strings"
	"testing"
)

// rule lists the packages of this module that a package may import. A name that ends in "/" stands
// for the package of that name and all below it. Packages of one group may import each other.
type rule struct {
	pkg  string
	may  []string
	also []string // its tests, besides
	// only, if not nil, are the packages of the group that the others may import.
	only []string
}

// belowCLI is what the commands are made of.
var belowCLI = []string{"pkg/", "internal/aws/", "internal/netnshelper", "internal/config", "internal/connect/", "internal/define/", "internal/engine/", "internal/host/", "internal/ingress/", "internal/serve/", "internal/state/", "internal/unit/"}

// leaves are small packages without imports of this module, which every group may use.
var leaves = []string{"internal/atomicfile", "internal/term"}

// direction has a rule for each group, from the lowest to the highest, and for packages that must
// stay smaller or more independent than their group. The first rule that matches a package holds.
var direction = []rule{
	{pkg: "internal/atomicfile"},
	{pkg: "internal/term"},
	{pkg: "internal/netnshelper", may: []string{"pkg/netns"}}, // initialized before most other packages

	// What others may import: the model of tasks, and what our user named.
	{pkg: "pkg/", may: []string{"pkg/"}},

	// Facts and calls below the engine.
	{pkg: "internal/state/", may: []string{"pkg/transient"}},
	{pkg: "internal/logs/", may: []string{"pkg/taskdef/logdriver"}, also: []string{"internal/testing/logstest"}},
	{pkg: "internal/host/", may: []string{"pkg/"}},
	{pkg: "internal/unitfile/taskunit", may: []string{"pkg/taskdef/suggest", "pkg/taskdef/unrendered"}, also: []string{"internal/unitfile/unitdir"}}, // small: a systemd generator links it
	{pkg: "internal/unitfile/unitdir", may: []string{"internal/unitfile/taskunit"}},
	{pkg: "internal/unitfile/generator", may: []string{"internal/unitfile/taskunit", "internal/unitfile/unitdir"}}, // small: no Podman, no YAML

	// The ingress proxy: a program without access to Podman, and the documents by which the agent talks to it.
	{pkg: "internal/ingress/proxy", may: []string{"pkg/", "internal/forward", "internal/ingress", "internal/ingress/routefile"}},
	{pkg: "internal/ingress/program", may: []string{"pkg/", "internal/forward", "internal/ingress", "internal/ingress/"}},
	{pkg: "internal/ingress/", may: []string{"pkg/"}},

	// From a document to a task.
	{pkg: "internal/define", may: []string{"pkg/", "internal/config", "internal/define/", "internal/host/ulimit", "internal/state/"}},
	{pkg: "internal/define/", may: []string{"pkg/", "internal/state/", "internal/unitfile/taskunit"}},
	{pkg: "internal/config", may: []string{"pkg/", "internal/define/pod", "internal/host/"}},

	// From a task to Podman and back.
	{pkg: "internal/engine/", may: []string{"pkg/", "internal/config", "internal/host/", "internal/ingress", "internal/ingress/routefile", "internal/logs/", "internal/state/"}, also: []string{"internal/testing/enginehost", "internal/testing/enginetest", "internal/testing/logstest"}},

	// Servers and clients. What both sides need is in serve/ownerapi: a client may become the owner of a task.
	{pkg: "internal/serve/ownerapi", may: []string{"pkg/", "internal/define", "internal/define/pod", "internal/engine/", "internal/state/"}, also: []string{"internal/config", "internal/logs/logfiles"}},
	{pkg: "internal/serve/", may: []string{"pkg/", "internal/ecsstatus", "internal/config", "internal/define/", "internal/engine/", "internal/host/", "internal/ingress", "internal/state/"}},
	{pkg: "internal/aws/adapter", may: []string{"pkg/", "internal/aws/", "internal/define/", "internal/engine/", "internal/host/libpod", "internal/serve", "internal/serve/ownerapi", "internal/state/"}, also: []string{"internal/config", "internal/host/ulimit"}},
	{pkg: "internal/ecsstatus", may: []string{"internal/state/"}}, // the agent reads it, and links no client of AWS
	{pkg: "internal/aws/instance/wire"},
	{pkg: "internal/aws/instance/awscall", may: []string{"internal/aws/instance/wire"}, also: []string{"internal/aws/sigv4"}},
	{pkg: "internal/aws/instance/payload", may: []string{"internal/aws/instance/wire", "internal/engine/facts/arn"}, also: []string{"pkg/taskdef"}},
	{pkg: "internal/aws/instance/program", may: []string{"pkg/", "internal/aws/instance/", "internal/config", "internal/state/"}, also: []string{"internal/testing/ecsplane"}},
	{pkg: "internal/aws/instance/", may: []string{"pkg/", "internal/engine/facts/arn", "internal/state/"}, also: []string{"internal/testing/ecscluster", "internal/testing/ecsplane"}}, // a client of the agent
	{pkg: "internal/aws/datachannel"},
	{pkg: "internal/aws/sigv4"},
	{pkg: "internal/aws/", may: []string{"pkg/", "internal/define/catalog", "internal/engine/facts/arn", "internal/state/"}}, // over interfaces that it declares
	{pkg: "internal/connect/sshhost"},
	{pkg: "internal/connect", may: []string{"pkg/", "internal/engine/", "internal/serve/ownerapi", "internal/state/"}, also: []string{"internal/serve", "internal/testing/enginetest"}},
	{pkg: "internal/unit/", may: []string{"pkg/", "internal/cli/console", "internal/connect", "internal/engine/"}},

	// Kubernetes.
	{pkg: "internal/kube/ephemeral", may: []string{"pkg/", "internal/define", "internal/engine/", "internal/host/"}},
	{pkg: "internal/kube/kubefiles"},
	{pkg: "internal/kube/kubeserve", may: []string{"pkg/api/connlimit"}},
	{pkg: "internal/kube/kubelet", may: []string{"internal/netnshelper", "internal/config", "internal/define", "internal/engine/", "internal/kube/", "internal/state/"}},
	{pkg: "internal/kube/", may: []string{"pkg/", "internal/engine/", "internal/host/"}, also: []string{"internal/define"}},

	// The command line, and the programs.
	{pkg: "internal/cli/console", may: []string{"pkg/", "internal/cli/helptext", "internal/engine/act/imagestore", "internal/engine/act/observe"}, also: []string{"internal/host/libpod"}},
	{pkg: "internal/cli/helptext"},
	{pkg: "internal/cli/lint"},
	{pkg: "internal/cli/timeline"},
	{pkg: "internal/cli/top", may: []string{"pkg/", "internal/cli/console", "internal/cli/timeline"}},
	{pkg: "internal/cli/hostview", may: []string{"pkg/", "internal/cli/top", "internal/cli/webui", "internal/connect/sshhost"}},
	{pkg: "internal/cli/webui", may: []string{"pkg/", "internal/cli/console", "internal/cli/timeline", "internal/cli/top"}},
	// The only rule for internal/cli itself: no group of commands imports another one.
	{pkg: "internal/cli", may: slices.Concat(belowCLI, []string{"internal/cli/"})},
	{pkg: "internal/cli/", may: belowCLI, only: []string{"internal/cli/command", "internal/cli/console", "internal/cli/helptext", "internal/cli/hostview", "internal/cli/lint", "internal/cli/timeline", "internal/cli/top", "internal/cli/webui"}},
	{pkg: "cmd/podtask", may: []string{"internal/cli"}},
	{pkg: "cmd/podtask-compose", may: []string{"internal/define/composefile", "internal/define/convert"}},
	{pkg: "cmd/podtask-ingress", may: []string{"internal/ingress/program"}},
	{pkg: "cmd/podtask-ecs", may: []string{"internal/aws/instance/program"}}, // small: no Podman
	{pkg: "cmd/podtask-kubelet", may: []string{"internal/kube/kubelet"}},
	{pkg: "cmd/podtask-netns", may: []string{"pkg/netns"}}, // small: it runs at each start
	{pkg: "cmd/podtask-user-generator", may: []string{"internal/unitfile/generator"}},

	// Programs that are no part of the product.
	{pkg: "examples/"},
	{pkg: "hack/", may: []string{"internal/testing/registrytest", "internal/host/quota"}, also: []string{"pkg/images", "internal/host/libpod"}},
	{pkg: "internal/testing/", may: []string{"pkg/", "internal/", "test/testbed"}},
	{pkg: "test/", may: []string{"pkg/", "internal/", "cmd/"}},
}

// testSupport may be imported by every package's tests.
var testSupport = []string{"internal/testing/certtest", "internal/testing/freeport", "internal/testing/guide", "internal/testing/mototest", "internal/testing/schemafile", "internal/testing/teamfiles", "internal/state/statetest", "internal/testing/registrytest", "internal/testing/faults", "internal/testing/leaktest", "internal/testing/hostile", "internal/testing/nonsense", "internal/testing/rudeclient", "test/testbed"}

func matches(pattern, name string) bool {
	if strings.HasSuffix(pattern, "/") {
		return strings.HasPrefix(name+"/", pattern)
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
	may := slices.Concat(r.may, leaves)
	switch {
	case r.only != nil:
		may = append(may, r.only...)
	case strings.HasSuffix(r.pkg, "/"):
		may = append(may, r.pkg)
	}
	for _, imp := range p.Imports {
		if name := within(imp); ours(imp) && !matchesAny(may, name) {
			bad = append(bad, name)
		}
	}
	for _, imp := range slices.Concat(p.TestImports, p.XTestImports) {
		name := within(imp)
		own := name == p.name() || strings.HasPrefix(name, p.name()+"/")
		if ours(imp) && !own && !matchesAny(slices.Concat(may, r.also, testSupport), name) {
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
		only:    []string{"internal/host/libpod", "test/"},
		why:     "what Podman's versions do differently is known in one place",
	},
	{
		library: "github.com/containers/image/v5/docker",
		only:    []string{"pkg/images", "test/"},
		why:     "registries are spoken to in one place",
	},
	{
		library: "github.com/aws/aws-sdk-go-v2/",
		only:    []string{"internal/host/secretsource/awsvalues", "internal/logs/logsend/awslogs", "pkg/taskdef", "internal/aws/instance/awscall", "internal/aws/instance/wire", "internal/aws/awsapi", "internal/aws/sigv4", "hack/speed", "test/"}, // the last five in tests and benchmarks
		why:     "what calls AWS is known in one place",
	},
	{
		library: "github.com/gorilla/websocket",
		only:    []string{"internal/aws/ecsexec", "internal/aws/instance/awscall", "internal/testing/ecsplane", "test/"},
		why:     "web sockets are limited in one place: those that are served, and those that are opened",
	},
	{
		library: "github.com/xtaci/smux",
		only:    []string{"internal/aws/portforward", "internal/connect/sshhost", "test/"},
		why:     "one package has the streams of session-manager-plugin, another one those of hosts by ssh",
	},
	{
		library: "github.com/virtual-kubelet/",
		only:    []string{"internal/kube/kubenode", "internal/kube/kubeserve", "test/"},
		why:     "the rest of podtask knows no cluster",
	},
	{
		library: "k8s.io/client-go/",
		only:    []string{"internal/kube/kubenode", "internal/kube/kubelet", "internal/kube/kubeserve", "test/"},
		why:     "it is larger than podtask",
	},
	{
		library: "github.com/caddyserver/",
		only:    []string{"internal/ingress/certs"},
		why:     "it would cost each command of podtask a part of its start",
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
