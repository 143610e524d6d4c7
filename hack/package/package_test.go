package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sassoftware/go-rpmutils"
)

// testBuild packages this test binary as podtask.
func testBuild(t *testing.T) build {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	for _, part := range parts {
		for _, program := range programsOf(part) {
			if err := os.Symlink(self, filepath.Join(bin, program)); err != nil {
				t.Fatal(err)
			}
		}
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return build{root: root, bin: bin, version: "v1.2.3", arch: "amd64", date: time.Unix(1_700_000_000, 0).UTC()}
}

func distOf(t *testing.T, b build) map[string][]byte {
	t.Helper()
	dir := t.TempDir()
	if err := b.dist(dir); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	made := map[string][]byte{}
	for _, e := range entries {
		if made[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return made
}

var (
	distOnce sync.Once
	dist     map[string][]byte
)

// sharedDist returns the directory of the packages of testBuild, which are built once.
func sharedDist(t *testing.T) map[string][]byte {
	t.Helper()
	distOnce.Do(func() { dist = distOf(t, testBuild(t)) })
	return dist
}

func TestPackagesAreTheSameEachTime(t *testing.T) {
	b := testBuild(t)
	first, second := sharedDist(t), distOf(t, b)
	for _, name := range []string{"podtask_1.2.3_amd64.deb", "podtask-1.2.3-1.x86_64.rpm", "podtask-1.2.3-linux-amd64.tar.gz", "podtask-1.2.3-amd64.cdx.json", "SHA256SUMS",
		"podtask-ecs_1.2.3_amd64.deb", "podtask-ecs-1.2.3-1.x86_64.rpm", "podtask-kubelet_1.2.3_amd64.deb", "podtask-kubelet-1.2.3-1.x86_64.rpm",
	} {
		if first[name] == nil {
			t.Errorf("%s was not made", name)
		} else if !bytes.Equal(first[name], second[name]) {
			t.Errorf("%s differs in a second build", name)
		}
	}
	if n := strings.Count(string(first["SHA256SUMS"]), "\n"); n != len(first)-1 {
		t.Errorf("SHA256SUMS has %d lines for %d files", n, len(first)-1)
	}
	checkRPM(t, first["podtask-1.2.3-1.x86_64.rpm"])
	checkParts(t, first)
	checkTarball(t, first["podtask-1.2.3-linux-amd64.tar.gz"])
	if sbom := string(first["podtask-1.2.3-amd64.cdx.json"]); !strings.Contains(sbom, "pkg:golang/github.com/goreleaser/nfpm/v2@") {
		t.Error("the SBOM does not name the modules of the program")
	}
}

func checkRPM(t *testing.T, data []byte) {
	t.Helper()
	rpm, err := rpmutils.ReadRpm(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	infos, err := rpm.Header.GetFiles()
	if err != nil {
		t.Fatal(err)
	}
	modes := map[string]int{}
	for _, f := range infos {
		modes[f.Name()] = f.Mode() & 0o777
		if f.UserName() != "root" || f.Mtime() != 1_700_000_000 {
			t.Errorf("%s belongs to %s and is of %d", f.Name(), f.UserName(), f.Mtime())
		}
	}
	for path, mode := range map[string]int{
		"/usr/bin/podtask": 0o755, "/usr/bin/podtask-user-generator": 0o755,
		"/usr/bin/podtask-netns": 0o755, "/usr/bin/podtask-compose": 0o755,
		"/usr/bin/podtask-ingress": 0o755, "/usr/lib/systemd/user/podtask-ingress.service": 0o644, "/usr/lib/systemd/system/podtask-ingress@.service": 0o644,
		"/usr/lib/systemd/user/podtask.service": 0o644, "/usr/share/man/man1/podtask-run.1.gz": 0o644,
		"/usr/share/man/man5/podtask.task.5.gz": 0o644, "/usr/share/man/man5/podtask.toml.5.gz": 0o644,
		"/usr/share/zsh/site-functions/_podtask": 0o644, "/usr/share/licenses/podtask/LICENSE": 0o644,
		"/usr/share/licenses/podtask/THIRD-PARTY-LICENSES": 0o644, "/usr/share/doc/podtask/podtask.cdx.json": 0o644,
	} {
		if modes[path] != mode {
			t.Errorf("rpm: %s has mode %o, not %o", path, modes[path], mode)
		}
	}
	if _, ok := modes["/usr/lib/systemd/user-generators/podtask-user-generator"]; !ok {
		t.Error("rpm: the generator is not where systemd runs it")
	}
	requires, err := rpm.Header.GetStrings(rpmutils.REQUIRENAME)
	if err != nil || !slices.Contains(requires, "podman") {
		t.Errorf("rpm: it requires %v, %v", requires, err)
	}
}

// checkParts: the programs that few want are in packages of their own, and what moved there from podtask replaces it.
func checkParts(t *testing.T, made map[string][]byte) {
	t.Helper()
	control := map[string]string{}
	owner := map[string]string{}
	for _, part := range parts {
		text, err := controlOf(made[part+"_1.2.3_amd64.deb"])
		if err != nil {
			t.Fatal(err)
		}
		control[part] = text
		rpm, err := rpmutils.ReadRpm(bytes.NewReader(made[part+"-1.2.3-1.x86_64.rpm"]))
		if err != nil {
			t.Fatal(err)
		}
		infos, err := rpm.Header.GetFiles()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range infos {
			if other, ok := owner[f.Name()]; ok {
				t.Errorf("%s is in %s and in %s", f.Name(), other, part)
			}
			owner[f.Name()] = part
		}
		if part == "podtask" {
			continue
		}
		if requires, err := rpm.Header.GetStrings(rpmutils.REQUIRENAME); err != nil || !slices.Contains(requires, "podtask") {
			t.Errorf("the rpm of %s requires %v, %v", part, requires, err)
		}
		for path, want := range map[string]string{"/usr/bin/" + part: part, "/usr/lib/systemd/user/" + part + ".service": part, "/usr/share/man/man1/" + part + ".1.gz": "podtask"} {
			if owner[path] != want {
				t.Errorf("%s is in %q, not in %s", path, owner[path], want)
			}
		}
		for name, want := range map[string]string{
			"Depends": "podtask (= 1.2.3)", "Breaks": "podtask (<< 1.2.3)", "Replaces": "podtask (<< 1.2.3)", "Source": "podtask",
		} {
			if got, _ := field(text, name); got != want {
				t.Errorf("%s: %s is %q, not %q", part, name, got, want)
			}
		}
	}
	if got, _ := field(control["podtask"], "Suggests"); !strings.HasPrefix(got, "podtask-kubelet, podtask-ecs, ") {
		t.Errorf("podtask suggests %s", got)
	}
	if owner["/usr/bin/podtask-ingress"] != "podtask" {
		t.Error("podtask lacks the proxy that `service create --ingress` needs")
	}
}

func checkTarball(t *testing.T, data []byte) {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names[h.Name] = h.Linkname
	}
	const top = "podtask-1.2.3-linux-amd64"
	if _, ok := names[top+"/bin/podtask"]; !ok || names[top+"/lib/systemd/user-generators/podtask-user-generator"] != "../../../bin/podtask-user-generator" {
		t.Errorf("the tarball has %v", names)
	}
}

func TestVersionsOfPackages(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3": "1.2.3", "v1.2.3-rc.1": "1.2.3~rc.1", "v1.2.3-4-gabcdef": "1.2.3+4.gabcdef", "v1.2.3-dirty": "1.2.3+dirty",
		"v1.2.3-4-gabcdef-dirty": "1.2.3+4.gabcdef.dirty", "v0.0.0-20260102030405-abcdef012345": "0.0.0~20260102030405.abcdef012345",
	} {
		if got := (build{version: version}).packageVersion(); got != want {
			t.Errorf("%s is %s, not %s", version, got, want)
		}
	}
}

// An installation in a home is complete, says what it lacks, and can be removed.
func TestInstallWithoutRoot(t *testing.T) {
	b := testBuild(t)
	for name, dir := range map[string]string{"GOPATH": "go", "GOCACHE": ".cache/go-build"} { // of the real home
		if os.Getenv(name) == "" {
			t.Setenv(name, filepath.Join(os.Getenv("HOME"), dir))
		}
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_DATA_HOME", "")
	prefix := filepath.Join(home, ".local")
	var said strings.Builder
	for range 2 { // the second time, the files are there
		said.Reset()
		if err := b.install(prefix, "", &said); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"systemd runs no generator", "podtask generate", "PATH has no " + prefix + "/bin"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, said.String())
		}
	}
	unit, err := os.ReadFile(filepath.Join(prefix, "share/systemd/user/podtask.service"))
	if err != nil || !strings.Contains(string(unit), "\nExecStart="+prefix+"/bin/podtask agent\n") {
		t.Errorf("the unit does not start %s/bin/podtask: %v\n%s", prefix, err, unit)
	}
	if info, err := os.Stat(filepath.Join(prefix, "bin/podtask")); err != nil || info.Mode() != 0o755 {
		t.Errorf("the program: %v, %v", info, err)
	}
	mine := filepath.Join(prefix, "bin/mine")
	if err := os.WriteFile(mine, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := b.uninstall(prefix, ""); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(prefix + "/*")
	if err != nil || !slices.Equal(left, []string{prefix + "/bin"}) {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if err := b.install("/opt/my tasks", t.TempDir(), io.Discard); err == nil {
		t.Error("a prefix with a space is accepted, from which systemd cannot start a program")
	}
}

// A table of keys is a list in a man page, and markup of the web is gone.
func TestManPage(t *testing.T) {
	p := page{name: "podtask-x", section: 1, version: "v1", date: time.Unix(0, 0).UTC(), docs: "/usr/share/doc/podtask", others: []string{
		"podtask(1)", "podtask-x(1)", "podtask-x-y(1)", "podtask.task(5)",
	}}
	text := "<!-- x -->\n\n# podtask x: do it\n\n## Usage\n\n    podtask x\n\nSee docs/units.md and systemd.unit(5).\n\n## Commands\n\n" +
		"* [podtask x y](podtask-x-y.md): do `-it` as well\n* [podtask x z](podtask-x-z.md): no page\n\n## Flags\n\n* `-f, --flag NAME ...`: see [units](units.md), &lt;NAME>\n\n" +
		"| key | values | what |\n|---|---|---|\n| `Key=` + | a, b | the meaning |\n"
	got := string(p.manPage([]byte(text)))
	for _, want := range []string{`.TH PODTASK-X 1 "1970-01-01" "podtask v1" "podtask"`, ".SH NAME\npodtask-x \\- do it", "see units, <NAME>", "the meaning (a, b)", "Key=",
		"See /usr/share/doc/podtask/docs/units.md and", ".PD 0\n.TP 14\n\\fBpodtask x y\\fP\ndo \\-it as well\n.TP 14\n\\fBpodtask x z\\fP\nno page\n.PD\n",
		".SH SEE ALSO\npodtask(1), podtask-x-y(1), systemd.unit(5), podtask.task(5)\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
	if strings.Contains(got, "(units.md)") || strings.Contains(got, "<!--") || strings.Contains(got, "|") {
		t.Errorf("markup is left:\n%s", got)
	}
}
