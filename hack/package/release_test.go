package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

const testCommit = "0123456789abcdef0123456789abcdef01234567"

// release is a directory with the packages of one architecture, and the tarball of the other one.
func release(t *testing.T, b build) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range sharedDist(t) {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
		if other := strings.Replace(name, "-linux-amd64.", "-linux-arm64.", 1); other != name {
			if err := os.WriteFile(filepath.Join(dir, other), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "podtask_1.2.3.orig.tar.xz"), []byte("source"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := b.recipes(dir); err != nil {
		t.Fatal(err)
	}
	if err := b.repository(dir, ""); err != nil {
		t.Fatal(err)
	}
	t.Setenv("COMMIT", testCommit)
	if err := b.writeProvenance(dir); err != nil {
		t.Fatal(err)
	}
	if err := checksums(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// throwawayKey makes a key of gpg in a directory of its own and returns the environment that has it.
func throwawayKey(t *testing.T) []string {
	t.Helper()
	if _, err := exec.LookPath("gpg"); err != nil {
		t.Skip("there is no gpg, which signs a release: hack/install.sh release")
	}
	home, err := os.MkdirTemp("", "gpg") // the path of its agent's socket must be short
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "GNUPGHOME="+home)
	t.Cleanup(func() {
		stop := exec.Command("gpgconf", "--kill", "all")
		stop.Env = env
		_ = stop.Run()
		_ = os.RemoveAll(home)
	})
	output(t, env, "gpg", "--batch", "--quiet", "--passphrase", "", "--quick-generate-key", "podtask test <test@example.com>", "ed25519", "sign", "never")
	listing := output(t, env, "gpg", "--batch", "--list-secret-keys", "--with-colons")
	m := regexp.MustCompile(`(?m)^fpr:+([0-9A-F]{40}):`).FindStringSubmatch(listing)
	if m == nil {
		t.Fatalf("gpg has no key: %s", listing)
	}
	return append(env, "SIGNING_KEY="+m[1])
}

func output(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	c := exec.Command(name, args...)
	c.Env = env
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// apt runs a command of apt that sees nothing but a repository, and returns its output.
func apt(t *testing.T, repository, key string, args ...string) (string, error) {
	t.Helper()
	dir := filepath.Join(filepath.Dir(repository), "apt-state")
	for _, d := range []string{"etc/apt.conf.d", "etc/preferences.d", "lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"status": "", "etc/sources.list": fmt.Sprintf("deb [arch=amd64 signed-by=%s] file:%s stable main\n", key, repository)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command(args[0], slices.Concat([]string{
		"-q", "-o", "Dir::Etc=" + dir + "/etc", "-o", "Dir::State=" + dir, "-o", "Dir::State::status=" + dir + "/status", "-o", "Dir::State::lists=" + dir + "/lists",
		"-o", "Dir::Cache=" + dir + "/cache", "-o", "APT::Architecture=amd64", "-o", "APT::Architectures=amd64", "-o", "APT::Sandbox::User=", "-o", "Acquire::Languages=none",
		"-o", "APT::Update::Error-Mode=any",
	}, args[1:])...)
	c.Dir = dir
	out, err := c.CombinedOutput()
	return string(out), err
}

// apt accepts the repository that a release has signed, and the checksums are signed too. What was changed
// after that is refused, as is another key.
func TestRepositoryIsSigned(t *testing.T) {
	env := throwawayKey(t)
	if _, err := exec.LookPath("apt-get"); err != nil {
		t.Skip("there is no apt-get")
	}
	b := testBuild(t)
	dir := release(t, b)
	output(t, env, filepath.Join(b.root, "hack/dist"), "sign", dir)
	output(t, env, "gpg", "--batch", "--verify", filepath.Join(dir, "SHA256SUMS.asc"), filepath.Join(dir, "SHA256SUMS"))

	repository, key := filepath.Join(dir, "apt"), filepath.Join(dir, "podtask.asc")
	if out, err := apt(t, repository, key, "apt-get", "update"); err != nil {
		t.Fatalf("apt refuses the repository: %v\n%s", err, out)
	}
	out, err := apt(t, repository, key, "apt-cache", "show", "podtask-kubelet")
	if err != nil || !strings.Contains(out, "\nDepends: podtask (= 1.2.3)\n") || !strings.Contains(out, "\nFilename: pool/main/p/podtask/podtask-kubelet_1.2.3_amd64.deb\n") {
		t.Errorf("apt knows: %v\n%s", err, out)
	}
	if out, err := apt(t, repository, key, "apt-get", "download", "podtask"); err != nil {
		t.Errorf("apt cannot download podtask: %v\n%s", err, out)
	}

	deb := filepath.Join(repository, inPool("podtask_1.2.3_amd64.deb"))
	damage(t, deb)
	if err := os.Remove(filepath.Join(dir, "apt-state/podtask_1.2.3_amd64.deb")); err != nil {
		t.Fatal(err)
	}
	if out, err := apt(t, repository, key, "apt-get", "download", "podtask"); err == nil {
		t.Errorf("apt downloads a package that was changed:\n%s", out)
	}
	index := filepath.Join(repository, "dists/stable/InRelease")
	replaceIn(t, index, "Origin: podtask", "Origin: notpodtask")
	if err := os.RemoveAll(filepath.Join(dir, "apt-state")); err != nil {
		t.Fatal(err)
	}
	if out, err := apt(t, repository, key, "apt-get", "update"); err == nil {
		t.Errorf("apt accepts an index that was changed:\n%s", out)
	}

	// A signature by another key.
	other := throwawayKey(t)
	output(t, other, filepath.Join(b.root, "hack/dist"), "sign", dir)
	if err := os.WriteFile(key, []byte(output(t, env, "gpg", "--batch", "--armor", "--export")), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := apt(t, repository, key, "apt-get", "update"); err == nil {
		t.Errorf("apt accepts another key:\n%s", out)
	}
}

// replaceIn replaces a text in a file.
func replaceIn(t *testing.T, file, old, with string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(data, []byte(old)) {
		t.Fatalf("%s has no %q", file, old)
	}
	if err := os.WriteFile(file, bytes.Replace(data, []byte(old), []byte(with), 1), 0o644); err != nil {
		t.Fatal(err)
	}
}

// damage changes the last byte of a file.
func damage(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1] ^= 1
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// A release without a key says so before it does anything.
func TestReleaseNeedsAKey(t *testing.T) {
	t.Parallel()
	b := testBuild(t)
	for key, want := range map[string]string{"": "SIGNING_KEY is not set", "0000000000000000000000000000000000000000": "no secret key"} {
		c := exec.Command(filepath.Join(b.root, "hack/dist"), "sign", t.TempDir())
		c.Env = append(os.Environ(), "SIGNING_KEY="+key)
		out, err := c.CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) && !strings.Contains(string(out), "gpg is not installed") {
			t.Errorf("SIGNING_KEY=%s: %v: %s", key, err, out)
		}
	}
}

// Earlier packages stay in the repository; another file of the same name is refused.
func TestRepositoryKeepsEarlierReleases(t *testing.T) {
	b := testBuild(t)
	dir, earlier := release(t, b), t.TempDir()
	old := bytes.Clone(sharedDist(t)["podtask-ecs_1.2.3_amd64.deb"])
	name := filepath.Join(earlier, "podtask-ecs_1.2.2_amd64.deb")
	if err := os.WriteFile(name, old, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := b.repository(dir, earlier); err != nil {
		t.Fatal(err)
	}
	index, err := os.ReadFile(filepath.Join(dir, "apt/dists/stable/main/binary-amd64/Packages"))
	if err != nil || strings.Count(string(index), "\nFilename: ") != 4 {
		t.Errorf("the index has not four packages: %v\n%s", err, index)
	}
	if err := os.Rename(name, filepath.Join(earlier, "podtask_1.2.3_amd64.deb")); err != nil {
		t.Fatal(err)
	}
	if err := b.repository(dir, earlier); err == nil || !strings.Contains(err.Error(), "a version is released once") {
		t.Errorf("a version that is released twice: %v", err)
	}
}

// The recipe for Arch installs what the tarball has, from where the release is.
func TestRecipeForArch(t *testing.T) {
	b := testBuild(t)
	dir := release(t, b)
	work := t.TempDir()
	output(t, nil, "tar", "-xzf", filepath.Join(dir, "podtask-1.2.3-linux-amd64.tar.gz"), "-C", work)
	recipe := filepath.Join(dir, "recipes/aur/PKGBUILD")
	printed := output(t, []string{"PATH=" + os.Getenv("PATH"), "CARCH=x86_64", "srcdir=" + work, "pkgdir=" + work + "/pkg"}, "bash", "-euc",
		`. "$1"; (package); echo "$pkgver ${source_x86_64[*]} ${sha256sums_x86_64[*]}"`, "bash", recipe)
	sum := sumOf(t, dir, "podtask-1.2.3-linux-amd64.tar.gz")
	const url = "https://github.com/podtask/podtask/releases/download/v1.2.3/podtask-1.2.3-linux-amd64.tar.gz"
	if printed != "1.2.3 "+url+" "+sum+"\n" {
		t.Errorf("it is of %s", printed)
	}
	for _, path := range []string{"bin/podtask", "bin/podtask-kubelet", "lib/systemd/user/podtask.service", "lib/systemd/user-generators/podtask-user-generator", "share/licenses/podtask-bin/LICENSE"} {
		if _, err := os.Stat(filepath.Join(work, "pkg/usr", path)); err != nil {
			t.Error(err)
		}
	}
	info := read(t, dir, "recipes/aur/.SRCINFO")
	for _, line := range []string{"\tpkgver = 1.2.3\n", "\tsource_x86_64 = " + url + "\n", "\tsha256sums_x86_64 = " + sum + "\n"} {
		if !strings.Contains(info, line) {
			t.Errorf(".SRCINFO has no line %q", line)
		}
	}
}

// The recipes that build from the source have its version and checksum, and are what their tools read.
func TestRecipesOfTheSource(t *testing.T) {
	b := testBuild(t)
	dir := release(t, b)
	sum := sumOf(t, dir, "podtask_1.2.3.orig.tar.xz")
	const url = "releases/download/v1.2.3/podtask_1.2.3.orig.tar.xz"
	printed := output(t, []string{"PATH=" + os.Getenv("PATH")}, "bash", "-euc", `. "$1"; echo "${source[*]} ${sha256sums[*]}"`, "bash", filepath.Join(dir, "recipes/arch/PKGBUILD"))
	if printed != "https://github.com/podtask/podtask/"+url+" "+sum+"\n" {
		t.Errorf("the recipe for Arch is of %s", printed)
	}
	spec := filepath.Join(dir, "recipes/fedora/podtask.spec")
	if rpmspec, err := exec.LookPath("rpmspec"); err == nil {
		if got := output(t, nil, rpmspec, "-q", "--qf", "%{name} ", spec); got != "podtask podtask-ecs podtask-kubelet " {
			t.Errorf("the spec makes %s", got)
		}
	}
	if text := read(t, dir, "recipes/fedora/podtask.spec"); !strings.Contains(text, url[:len("releases/download/v1.2.3/")]) || !strings.Contains(text, "\nVersion:        1.2.3\n") {
		t.Errorf("the spec is of another version:\n%s", text)
	}
	if text := read(t, dir, "recipes/nix/podtask.nix"); !strings.Contains(text, `sha256 = "`+sum+`"`) || !strings.Contains(text, `version = "1.2.3"`) {
		t.Errorf("the expression for Nix is of another source:\n%s", text)
	}
	if nix, err := exec.LookPath("nix-instantiate"); err == nil {
		output(t, append(os.Environ(), "NIX_STATE_DIR="+t.TempDir(), "NIX_STORE_DIR="+t.TempDir()), nix, "--parse", filepath.Join(dir, "recipes/nix/podtask.nix"))
	}
}

// The formula and the image name files that the tarball has.
func TestRecipesNameWhatThereIs(t *testing.T) {
	b := testBuild(t)
	dir := release(t, b)
	formula := read(t, dir, "recipes/homebrew/podtask.rb")
	if ruby, err := exec.LookPath("ruby"); err == nil {
		output(t, nil, ruby, "-c", filepath.Join(dir, "recipes/homebrew/podtask.rb"))
	}
	for _, want := range []string{`sha256 "` + sumOf(t, dir, "podtask-1.2.3-linux-amd64.tar.gz") + `"`, `version "1.2.3"`} {
		if !strings.Contains(formula, want) {
			t.Errorf("the formula has no %s", want)
		}
	}
	work := t.TempDir()
	output(t, nil, "tar", "-xzf", filepath.Join(dir, "podtask-1.2.3-linux-amd64.tar.gz"), "-C", work, "--strip-components=1")
	named := regexp.MustCompile(`"((?:bin|lib|share)/[^"]*)"`).FindAllStringSubmatch(formula, -1)
	if len(named) < 7 {
		t.Errorf("the formula names %d files", len(named))
	}
	for _, m := range named {
		if found, err := filepath.Glob(filepath.Join(work, m[1])); err != nil || len(found) == 0 {
			t.Errorf("the formula installs %s, which the tarball does not have: %v", m[1], err)
		}
	}
	if image := read(t, dir, "recipes/container/Containerfile"); !strings.Contains(image, "\nADD podtask-1.2.3-linux-${TARGETARCH}.tar.gz /opt/\n") {
		t.Errorf("the image is made of another tarball:\n%s", image)
	}
}

// Each entry for SchemaStore leads to a schema of the repository that has its address as $id, and matches names that
// are no others' files.
func TestRecipeForSchemaStore(t *testing.T) {
	b := testBuild(t)
	dir := release(t, b)
	var entries []struct {
		Name, Description, URL string
		FileMatch              []string
	}
	if err := json.Unmarshal([]byte(read(t, dir, "recipes/schemastore/catalog.json")), &entries); err != nil || len(entries) != 3 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	const base = "https://raw.githubusercontent.com/podtask/podtask/v1.2.3/"
	for _, e := range entries {
		path, ok := strings.CutPrefix(e.URL, base)
		if !ok || e.Name == "" || e.Description == "" {
			t.Errorf("an entry is %+v", e)
		}
		var schema struct {
			ID string `json:"$id"`
		}
		if err := json.Unmarshal([]byte(read(t, b.root, path)), &schema); err != nil || schema.ID != strings.Replace(e.URL, "/v1.2.3/", "/main/", 1) {
			t.Errorf("%s: its $id is %s, %v", e.URL, schema.ID, err)
		}
		for _, pattern := range e.FileMatch {
			if !strings.HasPrefix(pattern, "*.podtask.") {
				t.Errorf("%s matches files of others", pattern)
			}
		}
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// sumOf is the checksum of a file by SHA256SUMS.
func sumOf(t *testing.T, dir, name string) string {
	t.Helper()
	for line := range strings.Lines(read(t, dir, "SHA256SUMS")) {
		if sum, ok := strings.CutSuffix(strings.TrimSpace(line), "  "+name); ok {
			return sum
		}
	}
	t.Fatalf("SHA256SUMS has no %s", name)
	return ""
}

// The line of the README installs the programs of a version from a module proxy, and they know their version.
func TestGoInstall(t *testing.T) {
	b := testBuild(t)
	goCommand := filepath.Join(b.root, "hack/go")
	var env struct{ GOMODCACHE, GOPROXY string }
	if err := json.Unmarshal([]byte(output(t, os.Environ(), goCommand, "env", "-json", "GOMODCACHE", "GOPROXY")), &env); err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?s)CGO_ENABLED=0 go install -tags "([a-z_ ]+)"\s+(github\.com/podtask/podtask/cmd/\.\.\.)@latest`).FindStringSubmatch(read(t, b.root, "README.md"))
	if m == nil {
		t.Fatal("README.md does not say how to install with Go")
	}

	const version = "v0.1.0"
	proxy, cache := t.TempDir(), t.TempDir()
	serveModule(t, b.root, proxy, version)
	bin := t.TempDir()
	c := exec.Command(goCommand, "install", "-modcacherw", "-tags", m[1], m[2]+"@latest")
	c.Dir = t.TempDir()
	// The other modules are those that this machine has, or else the usual proxy's.
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOBIN="+bin, "GOMODCACHE="+cache, "GONOSUMDB=github.com/podtask/podtask", "GOFLAGS=",
		"GOPROXY=file://"+proxy+",file://"+env.GOMODCACHE+"/cache/download,"+env.GOPROXY)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("go install: %v\n%s", err, out)
	}
	for _, part := range parts {
		for _, program := range programsOf(part) {
			if _, err := os.Stat(filepath.Join(bin, program)); err != nil {
				t.Error(err)
			}
		}
	}
	home := t.TempDir()
	if out := output(t, []string{"HOME=" + home}, filepath.Join(bin, "podtask"), "--version"); out != "podtask version "+version+"\n" {
		t.Errorf("it says %q", out)
	}
}

// serveModule writes the module in the last commit of a clone into the directory of a module proxy.
func serveModule(t *testing.T, root, proxy, version string) {
	t.Helper()
	const path = "github.com/podtask/podtask"
	dir := filepath.Join(proxy, filepath.FromSlash(path), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	if err := zip.CreateFromVCS(f, module.Version{Path: path, Version: version}, root, "HEAD", ""); err != nil {
		t.Fatalf("the commit is no module that a proxy can serve: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"list": version + "\n", version + ".mod": read(t, root, "go.mod"), version + ".info": `{"Version": "` + version + `"}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
