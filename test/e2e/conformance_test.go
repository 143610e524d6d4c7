//go:build e2e && conformance

package e2e

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/podtask/podtask/internal/testing/controlplane"
	"github.com/podtask/podtask/internal/testing/registrytest"
	"github.com/podtask/podtask/test/testbed"
)

// batch is a part of Kubernetes' own end-to-end tests: those that match an expression, but for those
// that match another one.
type batch struct{ name, focus, skip string }

// batches are those that decide about a node. Other tests are about the network between Pods, which
// nodes of podtask do not have, or about the control plane.
var batches = []batch{
	{"node", `\[sig-node\].*\[Conformance\]`, `\[Serial\]|\[Disruptive\]`},
	{"storage", `\[sig-storage\].*\[Conformance\]`, `\[Serial\]|\[Disruptive\]|PersistentVolume|CSI|VolumeAttachment|StorageClass|VolumeAttributesClass`},
	{"apps", `\[sig-apps\].*\[Conformance\]`, `\[Serial\]|\[Disruptive\]`},
	{"serial", `\[sig-apps\] (Daemon set|ControllerRevision).*\[Conformance\]|EmptyDir wrapper volumes.*\[Conformance\]`, `\[Disruptive\]`},
	{"cli", `\[sig-cli\].*\[Conformance\]`, `\[Serial\]|\[Disruptive\]`},
	{"auth", `\[sig-auth\].*\[Conformance\]`, `\[Serial\]|\[Disruptive\]`},
	// Without those for which a node has to be outside of a user namespace, and those of features that a node has to
	// declare, which these do not: resizes of whole Pods and of init containers that end, and restarts of all containers.
	{"nodeconformance", `\[NodeConformance\]`, `\[Conformance\]|\[Serial\]|\[Disruptive\]|\[sig-network\]|\[Feature:|\[Alpha\]|\[Environment:NotInUserNS\]|\[FeatureGate:NodeDeclaredFeatures\]`},
}

// selection is what a run of some minutes has: the tests about how Pods and their containers begin, change,
// are looked into and end.
var selection = batch{
	"selection",
	`\[sig-node\] (Pods|InitContainer|Ephemeral Containers|Variable Expansion|Container Runtime|Kubelet|Docker Containers|Downward API|Sysctls|NodeLease|ConfigMap|Secrets)\b.*\[Conformance\]` +
		`|\[sig-cli\].*Kubectl (run pod|logs|replace|patch|describe).*\[Conformance\]|\[sig-apps\] (Job|ReplicaSet|Deployment)\b.*\[Conformance\]`,
	`\[Serial\]|\[Disruptive\]`,
}

// TestConformance has Kubernetes' own end-to-end tests decide about two nodes. Each of them passes, unless
// testdata/conformance.tsv says why it is left out.
//
// CONFORMANCE_FOCUS is an expression for the tests to run instead of the batches; then no test is left
// out. With CONFORMANCE_SELECTION=1 only the tests of selection run. CONFORMANCE_PROCS says how many run at a time.
// CONFORMANCE_KILLS is a duration: that often a part of the nodes is ended by kill -9 while the tests run, and started again.
// A test then has three attempts, because one that reads a log or runs a command loses its connection.
func TestConformance(t *testing.T) {
	tools := os.Getenv("PODTASK_CONFORMANCE")
	importStandIns(t, tools)
	serveKitten(t)
	plane := newPlane(t)
	t.Setenv("PODTASK_LIMITS", "best-effort") // the bed has no cgroup controllers
	var nodes []*node
	for _, name := range []string{"edge1", "edge2"} {
		nodes = append(nodes, newNode(t, plane, name, suiteFlags...))
	}
	go approveAll(t.Context(), plane)
	kubectl := filepath.Join(t.TempDir(), "kubectl")
	script := fmt.Sprintf("#!/bin/sh\nexec %s kubectl \"$@\"\n", os.Getenv("PODTASK_CONTROLPLANE"))
	if err := os.WriteFile(kubectl, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	suite := conformance{tools: tools, plane: plane, kubectl: kubectl, left: leftOutTests(t)}
	if text := os.Getenv("CONFORMANCE_KILLS"); text != "" {
		pause, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		suite.kills = &killer{nodes: nodes, pause: pause}
		defer func() { t.Logf("killed: %v", suite.kills.count) }()
	}
	if focus := os.Getenv("CONFORMANCE_FOCUS"); focus != "" {
		suite.left = nil
		suite.run(t, batch{name: "focus", focus: focus})
		return
	}
	wanted := batches
	if os.Getenv("CONFORMANCE_SELECTION") != "" {
		wanted = []batch{selection}
	}
	for _, b := range wanted {
		t.Run(b.name, func(t *testing.T) { suite.run(t, b) })
	}
}

// suiteFlags are those of the nodes. Of this address the API server may call any path; of one of the loopback it may not.
var suiteFlags = []string{"--node-ip", "10.0.2.15", "--sync-frequency", "10s"}

// killer ends parts of the nodes by kill -9 and starts them again.
type killer struct {
	nodes []*node
	pause time.Duration // between two kills
	next  int
	count map[string]int
}

// kill ends the next part: podtask-kubelet of a node, its agent, and Podman's service, which all of them share and systemd starts.
func (k *killer) kill() {
	n := k.nodes[k.next/3%len(k.nodes)]
	var what string
	switch k.next % 3 {
	case 0:
		what = "podtask-kubelet of " + n.name
		n.kubelet.kill()
		n.startKubelet(suiteFlags...)
	case 1:
		what = "agent of " + n.name
		n.agent.kill()
		n.agent = n.box.agent()
	case 2:
		what = "Podman's service"
		if pid := servicePID(); pid != 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended by itself
		}
	}
	k.next++
	if k.count == nil {
		k.count = make(map[string]int)
	}
	k.count[what]++
}

// whileKilling runs cmd and kills meanwhile, unless k is nil.
func (k *killer) whileKilling(cmd *exec.Cmd) error {
	if k == nil {
		return cmd.Run()
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	again := time.NewTicker(k.pause)
	defer again.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-again.C:
			k.kill()
		}
	}
}

// conformance runs tests of Kubernetes.
type conformance struct {
	tools   string // the directory of e2e.test and ginkgo
	plane   *controlplane.Plane
	kubectl string
	// left are the tests that are left out, with the reasons.
	left  map[string]leftOut
	kills *killer // nil: none
}

// leftOut explains why a test is left out.
type leftOut struct {
	// missing: podtask does not have what is tested, so the test counts as failed. Else it does not
	// apply to a node of podtask, or to this bed.
	missing bool
	reason  string
}

// leftOutTests reads the table of the tests that are left out: missing or inapplicable, the name and the
// reason, with tabs between them.
func leftOutTests(t *testing.T) map[string]leftOut {
	t.Helper()
	text, err := os.ReadFile("testdata/conformance.tsv")
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]leftOut)
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 3 || f[0] != "missing" && f[0] != "inapplicable" || f[2] == "" {
			t.Errorf("testdata/conformance.tsv: %q is not missing or inapplicable, a name and a reason, with tabs", line)
			continue
		}
		out[f[1]] = leftOut{f[0] == "missing", f[2]}
	}
	return out
}

// run runs a batch; each test is a part of t.
func (c conformance) run(t *testing.T, b batch) {
	report := filepath.Join(os.Getenv("HOME"), "conformance", b.name)
	if err := errors.Join(os.RemoveAll(report), os.MkdirAll(report, 0o700)); err != nil {
		t.Fatal(err)
	}
	var skip []string
	if b.skip != "" {
		skip = append(skip, b.skip)
	}
	for _, name := range slices.Sorted(maps.Keys(c.left)) {
		skip = append(skip, regexp.QuoteMeta(name))
	}
	args := []string{
		"--procs=" + cmp.Or(os.Getenv("CONFORMANCE_PROCS"), "4"), "--no-color", "--timeout=2h", "--keep-going",
		"--junit-report=junit.xml", "--output-dir=" + report, "--focus=" + b.focus,
	}
	if len(skip) > 0 {
		args = append(args, "--skip="+strings.Join(skip, "|"))
	}
	if c.kills != nil {
		args = append(args, "--flake-attempts=3")
	}
	args = append(args, filepath.Join(c.tools, "e2e.test"), "--",
		"--provider=skeleton", "--kubeconfig="+c.plane.Admin, "--kubectl-path="+c.kubectl, "--dump-logs-on-failure=false",
		"--disable-log-dump=true", "--allowed-not-ready-nodes=0", "--report-dir="+report)
	log, err := os.Create(filepath.Join(report, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.CommandContext(t.Context(), filepath.Join(c.tools, "ginkgo"), args...)
	cmd.Stdout, cmd.Stderr, cmd.Dir, cmd.Env = log, log, report, append(os.Environ(), "KUBECONFIG="+c.plane.Admin)
	begin := time.Now()
	failed := c.kills.whileKilling(cmd) // the report says more
	results, err := readJUnit(filepath.Join(report, "junit.xml"))
	if err != nil {
		text, _ := os.ReadFile(log.Name())
		t.Fatalf("%v, %v\n%s", failed, err, lastLines(string(text), 40))
	}
	count := make(map[string]int)
	for _, r := range results {
		left, is := c.left[r.Name]
		switch {
		case is && left.missing && b.has(r.Name):
			count["missing"]++
		case is && b.has(r.Name):
			count["inapplicable"]++
		case r.state() != "skipped":
			count[r.state()]++
			t.Run(r.Name, r.judge)
		}
	}
	if count["passed"]+count["failed"] == 0 {
		t.Errorf("no test of the suite has run: %v", failed)
	}
	t.Logf("%s: %d passed, %d failed, %d test what is missing, %d do not apply; in %s; the log is in %s",
		b.name, count["passed"], count["failed"], count["missing"], count["inapplicable"], time.Since(begin).Round(time.Second), report)
}

// has reports whether a test belongs to the batch.
func (b batch) has(name string) bool {
	return regexp.MustCompile(b.focus).MatchString(name) && (b.skip == "" || !regexp.MustCompile(b.skip).MatchString(name))
}

// junitCase is the result of one test.
type junitCase struct {
	Name    string     `xml:"name,attr"`
	Failure *junitText `xml:"failure"`
	Error   *junitText `xml:"error"`
	Skipped *junitText `xml:"skipped"`
}

type junitText struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

func (r junitCase) state() string {
	switch {
	case r.Failure != nil || r.Error != nil:
		return "failed"
	case r.Skipped != nil:
		return "skipped"
	}
	return "passed"
}

func (r junitCase) judge(t *testing.T) {
	why := r.Failure
	if why == nil {
		why = r.Error
	}
	if why != nil {
		t.Errorf("%s\n%s", why.Message, lastLines(why.Text, 20))
	}
}

// labels matches the labels at the end of a name, which are no part of it.
var labels = regexp.MustCompile(` \[sig-[a-z-]+(, [^]]*)?\]$`)

// readJUnit reads the results of all tests, in the order of their names.
func readJUnit(name string) ([]junitCase, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var report struct {
		Suites []struct {
			Cases []junitCase `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(text, &report); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var out []junitCase
	for _, s := range report.Suites {
		for _, c := range s.Cases {
			var is bool // else it is a step before or after the tests
			if c.Name, is = strings.CutPrefix(c.Name, "[It] "); is {
				c.Name = labels.ReplaceAllString(c.Name, "")
				out = append(out, c)
			}
		}
	}
	slices.SortFunc(out, func(a, b junitCase) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// approveAll approves the certificates that nodes request, until ctx ends.
func approveAll(ctx context.Context, plane *controlplane.Plane) {
	const pending = `{range .items[?(@.spec.signerName=="kubernetes.io/kubelet-serving")]}{.metadata.name}{" "}{.status.conditions[*].type}{"\n"}{end}`
	for {
		out, _ := plane.Kubectl(ctx, "", "get", "csr", "-o", "jsonpath="+pending) // tried again
		for line := range strings.Lines(out) {
			if f := strings.Fields(line); len(f) == 1 {
				_, _ = plane.Kubectl(ctx, "", "certificate", "approve", f[0])
			}
		}
		select {
		case <-time.After(2 * time.Second):
		case <-ctx.Done():
			return
		}
	}
}

// standIn is an image in place of one of Kubernetes' test images, which would need a registry. It has
// busybox and bash, unless it is bare, and the programs of the test images.
type standIn struct {
	bare     bool
	programs map[string]string // paths in the image; the name of the program in the directory of tools
	setUID   bool              // of the programs
	copies   []string          // files of the directory of tools
	files    map[string]string
	changes  []string // as of podman import
}

// standIns are the images by the last part of their names.
var standIns = map[string]standIn{
	"busybox":           {changes: []string{`CMD ["sh"]`}},
	"nonroot":           {changes: []string{"USER 1234"}},
	"glibc-dns-testing": {changes: []string{`CMD ["sh"]`}},
	"agnhost": {
		programs: map[string]string{"agnhost": "agnhost", "agnhost-2": "agnhost"},
		copies:   []string{"localhost.crt", "localhost.key"},
		files: map[string]string{
			"etc/passwd": passwd + "user-defined-in-image:x:1000:1000::/home/user-defined-in-image:/bin/sh\n",
			"etc/group":  group + "user-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\n",
		},
		changes: []string{`ENTRYPOINT ["/agnhost"]`, `CMD ["pause"]`},
	},
	"nginx": {
		files:   map[string]string{"usr/share/nginx/html/index.html": "<h1>Welcome to nginx!</h1>\n"},
		changes: []string{`CMD ["httpd","-f","-p","80","-h","/usr/share/nginx/html"]`},
	},
	"pause": {bare: true, programs: map[string]string{"agnhost": "agnhost"}, changes: []string{`ENTRYPOINT ["/agnhost","pause"]`}},
	"nautilus": {
		programs: map[string]string{"agnhost": "agnhost"},
		files:    map[string]string{"data.json": `{"image":"nautilus.jpg"}`},
		changes:  []string{`ENTRYPOINT ["/agnhost"]`, `CMD ["test-webserver"]`},
	},
	"nonewprivs": {programs: map[string]string{"usr/local/bin/nnp": "nonewprivs"}, setUID: true, changes: []string{`CMD ["nnp"]`}},
}

// serveKitten gives the nodes a registry with a stand-in for an image that the suite has pulled whatever the
// host has.
func serveKitten(t *testing.T) {
	t.Helper()
	const repository = "e2e-test-images/kitten"
	image, err := registrytest.Image(v1.Config{},
		registrytest.File{Path: "/data.json", Mode: 0o644, Data: []byte(`{"image":"kitten.jpg"}`)},
		registrytest.File{Path: "/etc/os-release", Mode: 0o644, Data: []byte("NAME=\"Stand-in for Alpine Linux\"\n")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bed.mirror.Push(repository+":1.8", image); err != nil {
		t.Fatal(err)
	}
	conf := fmt.Sprintf("[[registry]]\nprefix = %q\nlocation = %q\ninsecure = true\n", "registry.k8s.io/"+repository, bed.mirror.Ref(repository))
	remove, err := testbed.Configure("registries.conf.d/podtask-conformance.conf", []byte(conf))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(testbed.RemoveImages("registry.k8s.io/"+repository), remove()); err != nil {
			t.Error(err)
		}
	})
}

const (
	passwd = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n"
	group  = "root:x:0:\nnogroup:x:65534:\n"
)

// importStandIns gives Podman the images of the suite for which there are stand-ins.
func importStandIns(t *testing.T, tools string) {
	t.Helper()
	out, err := exec.Command(filepath.Join(tools, "e2e.test"), "--list-images").Output()
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	for ref := range strings.FieldsSeq(string(out)) {
		name, _, _ := strings.Cut(path.Base(ref), ":")
		image, is := standIns[name]
		if !is {
			continue
		}
		args := []string{"import", "--quiet"}
		for _, c := range image.changes {
			args = append(args, "--change", c)
		}
		cmd := exec.Command("podman", append(args, "-", ref)...)
		input, output := io.Pipe()
		var said bytes.Buffer
		cmd.Stdin, cmd.Stderr = input, &said
		go func() { output.CloseWithError(image.write(tools, output)) }()
		if err := cmd.Run(); err != nil {
			t.Fatalf("podman import %s: %v %s", ref, err, &said)
		}
		made++
		t.Cleanup(func() {
			if out, err := exec.Command("podman", "rmi", "--force", ref).CombinedOutput(); err != nil {
				t.Errorf("podman rmi %s: %v %s", ref, err, out)
			}
		})
	}
	if made < len(standIns) {
		t.Errorf("the suite names %d of %d images:\n%s", made, len(standIns), out)
	}
}

// write writes the root file system of an image.
func (i standIn) write(tools string, to io.Writer) error {
	w := tar.NewWriter(to)
	files := make(map[string]string)
	if !i.bare {
		if err := i.writeBusybox(tools, w); err != nil {
			return err
		}
		files["etc/passwd"], files["etc/group"] = passwd, group
	}
	maps.Copy(files, i.files)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := addFile(w, name, 0o644, []byte(files[name])); err != nil {
			return err
		}
	}
	for _, name := range i.copies {
		text, err := os.ReadFile(filepath.Join(tools, name))
		if err != nil {
			return err
		}
		if err := addFile(w, name, 0o644, text); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(i.programs)) {
		text, err := os.ReadFile(filepath.Join(tools, i.programs[name]))
		if err != nil {
			return err
		}
		mode := int64(0o755)
		if i.setUID {
			mode = 0o6755
		}
		if err := addFile(w, name, mode, text); err != nil {
			return err
		}
	}
	return w.Close()
}

func (i standIn) writeBusybox(tools string, w *tar.Writer) error {
	for _, dir := range []string{"bin", "sbin", "usr/bin", "usr/sbin", "usr/local/bin", "etc", "home", "root", "var/run", "proc", "sys", "dev", "uploads", "tmp"} {
		mode := int64(0o755)
		if dir == "tmp" {
			mode = 0o1777
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: mode}); err != nil {
			return err
		}
	}
	busybox := filepath.Join(tools, "busybox")
	text, err := os.ReadFile(busybox)
	if err != nil {
		return err
	}
	if err := addFile(w, "bin/busybox", 0o755, text); err != nil {
		return err
	}
	if text, err = os.ReadFile(filepath.Join(tools, "bash-static")); err != nil {
		return err
	}
	if err := addFile(w, "bin/bash", 0o755, text); err != nil {
		return err
	}
	names, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(string(names)) {
		if name == "busybox" || name == "bash" {
			continue
		}
		for _, dir := range []string{"bin", "usr/bin"} {
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: dir + "/" + name, Linkname: "/bin/busybox", Mode: 0o777}); err != nil {
				return err
			}
		}
	}
	return nil
}

func addFile(w *tar.Writer, name string, mode int64, text []byte) error {
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(text))}); err != nil {
		return err
	}
	_, err := w.Write(text)
	return err
}
