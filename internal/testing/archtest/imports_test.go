package archtest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// group is a directory whose packages serve one purpose. A package belongs to the group with the
// longest name that its path begins with.
type group struct {
	name, purpose string
}

// floors are the groups of the product from the highest to the lowest. There is one rule: a group imports
// only groups on lower floors. The table of groups in ARCHITECTURE.md is generated from it.
var floors = [][]group{
	{{"cmd", "the programs: a main function each"}},
	{{"internal/parts", "the list of the parts that are linked; none with the build tag `podtask_core`"}},
	{{"internal/cli", "the command line: one package for each group of commands; each command has an options struct that names what it uses"}},
	{{"internal/unit", "units: the process of a systemd service that runs a task, its replacement and its rollback"}},
	{
		{"internal/connect", "the client's side: finds the agent or the owner of a task, or becomes its owner; in `sshhost`, both ends of a command on another host"},
		{"internal/aws", "clients of AWS: the ECS API of the agent, and an instance of an ECS cluster"},
	},
	{
		{"internal/serve", "the API of the agent and of owners, over HTTP"},
		{"internal/kube", "the node of a Kubernetes cluster, a client of the agent"},
	},
	{{"internal/notice", "notices: what people are told, decided from the event log, and how it reaches them"}},
	{{"internal/engine", "composition root: the components that run tasks for one user on one host"}},
	{{"internal/engine/run", "what runs for long: owners of tasks, the fleet, services, schedules, cleanup"}},
	{{"internal/engine/act", "effects: admission, images, secrets, limits, probes, the metadata endpoint, deliveries of logs"}},
	{{"internal/engine/decide", "the pure driver of a task or service, and the goroutine that executes its decisions"}},
	{{"internal/engine/network", "names of services in tasks: addresses, routes, hosts files"}},
	{{"internal/engine/facts", "what a task has on this host: its record, its names, its specification for Podman, the connection"}},
	{{"internal/define", "a document and changes to it → a task, its options, and a report of what was lost, refused or needed. All doors use it"}},
	{
		{"internal/config", "files, environment and flags → one value, each setting with its source"},
		{"internal/ingress", "the ingress proxy, a program without access to Podman: routes, certificates, requests; and its documents"},
		{"internal/ecsstatus", "the file in which an instance of ECS says what it waits for"},
	},
	{
		{"internal/host", "Podman (`libpod`), quotas, GPUs, sources of secrets, checks of the host"},
		{"internal/state", "files and locks: records, the ledger, the event log"},
		{"internal/logs", "log files and log drivers"},
		{"internal/forward", "connections forwarded to changing targets, by weight"},
		{"internal/unitfile", "`.task` files → systemd services"},
		{"internal/netnshelper", "the program's other main: sockets in a network namespace"},
	},
	{{"pkg", "what others may import: the model of tasks (`taskdef`, `lifecycle`, `fault`, `service`, `admission`, `ports`), the API's types and client (`api`), and `images`, `netns`, `cgroups`"}},
	{
		{"internal/atomicfile", "files written whole"},
		{"internal/term", "text from elsewhere made safe to print"},
		{"internal/signalname", "names of signals"},
		{"internal/lazy", "regular expressions and tables that are made at their first use"},
		{"internal/sleep", "a pause that ends with a context"},
		{"internal/buildversion", "versions of programs"},
		{"internal/uuid", "random identifiers"},
		{"internal/userfile", "files that a user names, read without waiting for pipes and devices"},
	},
}

// narrow lists packages that must stay smaller or more independent than their floor: of the groups below,
// they import only these. A name that ends in "/" stands for the package of that name and all below it.
var narrow = []struct {
	pkg string
	may []string
	why string
}{
	{"internal/state/", []string{"pkg/transient"}, "it stores bytes and knows nothing of their meaning"},
	{"internal/unitfile/", []string{"pkg/taskdef/suggest", "pkg/taskdef/unrendered"}, "a systemd generator links it: no Podman, no YAML"},
	{"internal/ingress/", []string{"pkg/", "internal/forward", "internal/forward/kept"}, "what the network can attack has no access to Podman"},
	{"internal/netnshelper", []string{"pkg/netns"}, "it is initialized before most other packages"},
	{"internal/aws/adapter", nil, ""}, // joins the interfaces of the rows below to the engine
	{"internal/aws/", []string{"pkg/", "internal/define/catalog", "internal/ecsstatus", "internal/engine/facts/arn", "internal/state/", "internal/config"}, "clients of AWS drive the agent over interfaces that they declare"},
	{"cmd/podtask", []string{"internal/cli", "internal/parts"}, "a main function calls its program"},
	{"cmd/podtask-compose", []string{"internal/define/"}, "without Podman"},
	{"cmd/podtask-ingress", []string{"internal/ingress/program"}, "without Podman"},
	{"cmd/podtask-ecs", []string{"internal/aws/instance/program"}, "without Podman"},
	{"cmd/podtask-kubelet", []string{"internal/kube/kubelet"}, "a main function calls its program"},
	{"cmd/podtask-netns", []string{"pkg/netns"}, "it runs at each start"},
	{"cmd/podtask-user-generator", []string{"internal/unitfile/generator"}, "it runs at each start of a session"},
}

// cliShared are the packages that commands are made of. Every other package of internal/cli is a group of
// commands, and imports none of the others: only internal/cli does.
var cliShared = []string{"command", "console", "helptext", "hostview", "lint", "part", "reason", "timeline", "top", "usage", "webui"}

// support is what only tests and other programs import.
var support = []string{"internal/testing/", "test/", "hack/", "examples/"}

func matches(pattern, name string) bool {
	if strings.HasSuffix(pattern, "/") {
		return strings.HasPrefix(name+"/", pattern)
	}
	return pattern == name
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) })
}

// groupOf returns the group of a package and its height: 0 is the lowest floor. Without a group, the height is -1.
func groupOf(name string) (in string, height int) {
	height = -1
	for i, floor := range floors {
		for _, g := range floor {
			if matches(g.name+"/", name) && len(g.name) > len(in) {
				in, height = g.name, len(floors)-1-i
			}
		}
	}
	return in, height
}

// isCommandGroup reports whether a package has commands, and is not what commands are made of.
func isCommandGroup(name string) bool {
	in, ok := strings.CutPrefix(name, "internal/cli/")
	first, _, _ := strings.Cut(in, "/")
	return ok && !strings.Contains(name, "/testdata") && !slices.Contains(cliShared, first)
}

// whyNot returns why the package from must not import the package imp of this module, or "".
func whyNot(from, imp string) string {
	group, height := groupOf(from)
	into, depth := groupOf(imp)
	switch {
	case matchesAny(support, from):
		return ""
	case matchesAny(support, imp):
		return "the product imports no support of tests"
	case height < 0:
		return from + " is in no group: add it to a floor"
	case into != group && depth >= height:
		return fmt.Sprintf("%s is not on a lower floor than %s", into, group)
	case isCommandGroup(from) && isCommandGroup(imp) && !strings.HasPrefix(from+"/", imp+"/") && !strings.HasPrefix(imp, from+"/"):
		return "no group of commands imports another one"
	case into == group || depth == 0:
		return ""
	}
	for _, n := range narrow {
		if matches(n.pkg, from) {
			if n.why != "" && !matchesAny(n.may, imp) {
				return n.why
			}
			break
		}
	}
	return ""
}

// whyNotInTest is whyNot for tests: they may import support, and all that their floor may import. Tests of what runs
// for long use the composed engine, and those of the command line all parts.
func whyNotInTest(from, imp string) string {
	_, height := groupOf(from)
	_, depth := groupOf(imp)
	if matchesAny(support, imp) || depth < height || imp == "internal/engine" && matches("internal/engine/run/", from) || imp == "internal/parts" && from == "internal/cli" {
		return ""
	}
	return whyNot(from, imp)
}

func TestGroupsImportOnlyGroupsBelow(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		if _, height := groupOf(p.name()); height < 0 && !matchesAny(support, p.name()) {
			t.Errorf("%s is in no group: add it to a floor", p.name())
		}
		for _, imp := range p.Imports {
			if why := whyNot(p.name(), within(imp)); ours(imp) && why != "" {
				t.Errorf("%s imports %s: %s", p.name(), within(imp), why)
			}
		}
		for _, imp := range slices.Concat(p.TestImports, p.XTestImports) {
			if why := whyNotInTest(p.name(), within(imp)); ours(imp) && why != "" {
				t.Errorf("a test of %s imports %s: %s", p.name(), within(imp), why)
			}
		}
	}
}

func TestImportCheckNoticesViolations(t *testing.T) {
	t.Parallel()
	tests := []struct {
		from, imp string
		bad, test bool // in the package, in its tests
	}{
		{"internal/engine/run/owner", "internal/engine/act/effects", false, false},
		{"internal/engine/act/effects", "internal/engine/run/owner", true, true},
		{"internal/engine/run/owner", "internal/engine", true, false},
		{"internal/engine/act/admit", "internal/engine", true, true},
		{"internal/engine/run/owner", "internal/engine/run/cleanup", false, false},
		{"internal/host/libpod", "internal/state", true, true}, // the same floor
		{"pkg/taskdef", "internal/term", false, false},
		{"pkg/taskdef", "internal/testing/hostile", true, false},
		{"internal/nothing", "pkg/taskdef", true, true},                 // in no group
		{"internal/ingress/proxy", "internal/host/libpod", true, false}, // narrow
		{"internal/aws/awsapi", "internal/serve", true, false},
		{"internal/aws/adapter", "internal/serve", false, false},
		{"internal/cli/task", "internal/cli/service", true, true},
		{"internal/cli/task", "internal/cli/command", false, false},
		{"internal/cli", "internal/cli/task", false, false},
		{"test/testbed", "internal/cli", false, false},
	}
	for _, tt := range tests {
		if bad := whyNot(tt.from, tt.imp) != ""; bad != tt.bad {
			t.Errorf("%s imports %s: bad is %v, want %v", tt.from, tt.imp, bad, tt.bad)
		}
		if bad := whyNotInTest(tt.from, tt.imp) != ""; bad != tt.test {
			t.Errorf("a test of %s imports %s: bad is %v, want %v", tt.from, tt.imp, bad, tt.test)
		}
	}
}

// Rows that no package needs, and groups without a package, would mislead a reader.
func TestFloorsAndRowsHavePackages(t *testing.T) {
	t.Parallel()
	groups, rows := map[string]bool{}, map[string]bool{}
	for _, p := range packages(t) {
		in, _ := groupOf(p.name())
		groups[in] = true
		for _, n := range narrow {
			rows[n.pkg] = rows[n.pkg] || matches(n.pkg, p.name())
		}
	}
	for _, floor := range floors {
		for _, g := range floor {
			if !groups[g.name] {
				t.Errorf("the group %s has no package", g.name)
			}
		}
	}
	for _, n := range narrow {
		if !rows[n.pkg] {
			t.Errorf("no package is %s", n.pkg)
		}
	}
}

// groupTable renders floors for ARCHITECTURE.md.
func groupTable() string {
	var b strings.Builder
	b.WriteString("| floor | group | purpose |\n|---|---|---|\n")
	for i, floor := range floors {
		for _, g := range floor {
			fmt.Fprintf(&b, "| %d | `%s/` | %s |\n", len(floors)-1-i, g.name, g.purpose)
		}
	}
	return b.String()
}

// TestGroupsAreInTheArchitecture holds the table of ARCHITECTURE.md against floors; UPDATE_GOLDEN=1 writes it.
func TestGroupsAreInTheArchitecture(t *testing.T) {
	t.Parallel()
	const begin, end = "<!-- groups: from internal/testing/archtest -->\n", "<!-- end of groups -->\n"
	path := filepath.Join(root(t), "ARCHITECTURE.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	old, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("ARCHITECTURE.md has no table of groups between %q and %q", begin, end)
	}
	switch want := groupTable(); {
	case old == want:
	case os.Getenv("UPDATE_GOLDEN") == "":
		t.Errorf("the table of groups in ARCHITECTURE.md differs: UPDATE_GOLDEN=1 go test ./internal/testing/archtest writes it")
	default:
		if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
