package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// file is one file of an installation; with a target it is a symbolic link.
type file struct {
	path   string
	mode   fs.FileMode
	data   []byte
	target string
}

// The parts are the packages that users install. Debian and rpm have one for each; everything else has all
// of them together. podtask-ingress is a part of podtask: `service create --ingress` needs it.
var parts = []string{"podtask", "podtask-ecs", "podtask-kubelet"}

// programsOf are the programs of a part.
func programsOf(part string) []string {
	if part == "podtask" {
		return []string{"podtask", "podtask-compose", "podtask-ingress", "podtask-netns", "podtask-user-generator"}
	}
	return []string{part}
}

// layout is where things are, below the root of the file system.
type layout struct {
	// prefix is /usr, /usr/local or a directory of a user.
	prefix string
	// units and generators are systemd's directories for users, and systemUnits the one for the system; without
	// generators or systemUnits there are none.
	units, systemUnits, generators string
	// zsh is the directory of its completions, licenses that of the license files of podtask; another part has
	// the same with its own name.
	zsh, licenses string
	// debian adds the documents that Debian's policy demands.
	debian bool
	// program is how units start podtask.
	program string
}

// system is the layout of a prefix that systemd searches.
func system(prefix string) layout {
	return layout{
		prefix: prefix, units: prefix + "/lib/systemd/user", systemUnits: prefix + "/lib/systemd/system", generators: prefix + "/lib/systemd/user-generators",
		zsh: prefix + "/share/zsh/site-functions", licenses: prefix + "/share/doc/podtask", program: "podtask",
	}
}

// debLayout and rpmLayout are those of packages.
func debLayout() layout {
	l := system("/usr")
	l.zsh, l.debian = "/usr/share/zsh/vendor-completions", true
	return l
}

func rpmLayout() layout {
	l := system("/usr")
	l.licenses = "/usr/share/licenses/podtask"
	return l
}

// personal is the layout of another prefix. Of a user's home, systemd reads units from
// ~/.local/share, and runs no generators.
func personal(prefix string) layout {
	l := system(prefix)
	l.units, l.systemUnits, l.generators, l.program = prefix+"/share/systemd/user", "", "", prefix+"/bin/podtask"
	return l
}

// tree returns all files of an installation, in the order of their paths.
func (b build) tree(l layout) ([]file, error) { return b.files(l, parts) }

// packageTree returns the files of the package of a part, with the list of its modules.
func (b build) packageTree(part string, l layout) ([]file, error) {
	tree, err := b.files(l, []string{part})
	if err != nil {
		return nil, err
	}
	sbom, err := b.sbom([]string{part})
	if err != nil {
		return nil, err
	}
	return append(tree, file{path: l.prefix + "/share/doc/" + part + "/" + part + ".cdx.json", mode: 0o644, data: sbom}), nil
}

// files returns the files of some parts of an installation.
func (b build) files(l layout, of []string) ([]file, error) {
	t := treeBuilder{build: b, layout: l, parts: of}
	for _, part := range of {
		for _, program := range programsOf(part) {
			t.copy(filepath.Join(b.bin, program), l.prefix+"/bin/"+program, 0o755)
		}
	}
	t.unitFiles()
	if t.has("podtask") {
		if l.generators != "" {
			t.add(file{path: l.generators + "/podtask-user-generator", target: "../../../bin/podtask-user-generator"})
		}
		t.completions()
		t.manual()
		t.documents()
	}
	t.licenseFiles()
	if l.debian {
		t.debianFiles()
	}
	if t.err != nil {
		return nil, t.err
	}
	slices.SortFunc(t.files, func(a, b file) int { return strings.Compare(a.path, b.path) })
	return t.files, nil
}

// treeBuilder collects files; after an error it does nothing.
type treeBuilder struct {
	build
	layout
	parts []string
	files []file
	err   error
}

func (t *treeBuilder) has(part string) bool { return slices.Contains(t.parts, part) }

func (t *treeBuilder) add(f file) { t.files = append(t.files, f) }

func (t *treeBuilder) read(from string) []byte {
	if t.err != nil {
		return nil
	}
	data, err := os.ReadFile(from)
	t.err = err
	return data
}

func (t *treeBuilder) copy(from, to string, mode fs.FileMode) {
	t.add(file{path: to, mode: mode, data: t.read(from)})
}

// copyTree copies the files below a directory of the clone.
func (t *treeBuilder) copyTree(from, to string, skip func(string) bool) {
	root := filepath.Join(t.root, from)
	err := filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		if skip == nil || !skip(rel) {
			t.copy(p, path.Join(to, filepath.ToSlash(rel)), 0o644)
		}
		return nil
	})
	if t.err == nil {
		t.err = err
	}
}

// execLine starts a program by its bare name, which systemd searches in its own path only.
var execLine = regexp.MustCompile(`(?m)^(Exec\w+=)podtask\b`)

func (t *treeBuilder) unitFiles() {
	n := len(t.files)
	t.copyTree("contrib/systemd", t.units, func(rel string) bool {
		part := strings.TrimSuffix(rel, ".service")
		if !slices.Contains(parts, part) {
			part = "podtask"
		}
		return !t.has(part)
	})
	if t.systemUnits != "" && t.has("podtask") {
		t.copyTree("contrib/systemd-system", t.systemUnits, nil)
	}
	for i := range t.files[n:] {
		f := &t.files[n+i]
		f.data = execLine.ReplaceAll(f.data, []byte("${1}"+strings.ReplaceAll(t.program, "$", "$$")))
	}
}

func (t *treeBuilder) completions() {
	from := filepath.Join(t.root, "internal/cli/completion/podtask.")
	t.copy(from+"bash", t.prefix+"/share/bash-completion/completions/podtask", 0o644)
	t.copy(from+"fish", t.prefix+"/share/fish/vendor_completions.d/podtask.fish", 0o644)
	t.copy(from+"zsh", t.zsh+"/_podtask", 0o644)
}

// manual makes man pages: of each command, of the programs that podtask executes, and of the two kinds of files.
func (t *treeBuilder) manual() {
	var pages []string
	for _, dir := range []string{"docs/commands", "hack/package/pages"} {
		found, err := filepath.Glob(filepath.Join(t.root, dir, "podtask*.md"))
		if err != nil || len(found) == 0 {
			t.err = fmt.Errorf("no pages of commands in %s: %w", dir, err)
			return
		}
		pages = append(pages, found...)
	}
	p := page{version: t.version, date: t.date, docs: t.prefix + "/share/doc/podtask", others: []string{"podtask.task(5)", "podtask.toml(5)"}}
	for _, from := range pages {
		p.others = append(p.others, strings.TrimSuffix(filepath.Base(from), ".md")+"(1)")
	}
	for _, from := range pages {
		p.name, p.section = strings.TrimSuffix(filepath.Base(from), ".md"), 1
		text := t.read(from)
		if p.name == "podtask" {
			text = append(text, t.read(filepath.Join(t.root, "hack/package/pages/examples.md"))...)
		}
		t.manPage(p, text)
	}
	for name, from := range map[string]string{"podtask.task": "docs/units.md", "podtask.toml": "docs/configuration.md"} {
		p.name, p.section = name, 5
		t.manPage(p, t.read(filepath.Join(t.root, from)))
	}
}

func (t *treeBuilder) manPage(p page, text []byte) {
	t.add(file{path: fmt.Sprintf("%s/share/man/man%d/%s.%d.gz", t.prefix, p.section, p.name, p.section), mode: 0o644, data: compressed(p.manPage(text))})
}

// compressed is gzip without a name and a time.
func compressed(data []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	_, _ = w.Write(data) // into memory
	_ = w.Close()
	return b.Bytes()
}

func (t *treeBuilder) documents() {
	doc := t.prefix + "/share/doc/podtask"
	for _, name := range []string{"README.md", "CHANGELOG.md", "SECURITY.md"} {
		t.copy(filepath.Join(t.root, name), doc+"/"+name, 0o644)
	}
	t.copyTree("docs", doc+"/docs", func(rel string) bool { return strings.HasPrefix(rel, "dev/") || strings.HasPrefix(rel, "commands/") })
	t.copyTree("examples", doc+"/examples", func(rel string) bool { return strings.HasPrefix(rel, "images/") })
	for _, name := range []string{"prometheus", "grafana"} {
		t.copyTree("contrib/"+name, doc+"/"+name, nil)
	}
}

// licenseFiles are podtask's license and those of the modules in the programs.
func (t *treeBuilder) licenseFiles() {
	dir := path.Join(path.Dir(t.licenses), t.parts[0])
	if !t.debian { // which has it in common-licenses
		t.copy(filepath.Join(t.root, "LICENSE"), dir+"/LICENSE", 0o644)
	}
	t.add(file{path: dir + "/THIRD-PARTY-LICENSES", mode: 0o644, data: t.thirdParty()})
}

var licenseFile = regexp.MustCompile(`(?i)^((un)?licen[sc]e|copying|notice)([.-].*)?$`)

// thirdParty returns the licenses of all modules that the programs of the parts contain.
func (t *treeBuilder) thirdParty() []byte {
	if t.err != nil {
		return nil
	}
	list := exec.Command(filepath.Join(t.root, "hack/go"), "list", "-deps", "-tags", "remote containers_image_openpgp",
		"-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}")
	for _, part := range t.parts {
		for _, program := range programsOf(part) {
			list.Args = append(list.Args, "./cmd/"+program)
		}
	}
	list.Dir, list.Stderr = t.root, os.Stderr
	list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+t.arch)
	out, err := list.Output()
	if err != nil {
		t.err = fmt.Errorf("list the modules: %w", err)
		return nil
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(lines)
	var b bytes.Buffer
	for _, line := range slices.Compact(lines) {
		name, dir, ok := strings.Cut(line, "\t")
		if !ok {
			continue
		}
		if dir == "" { // of a vendored module, of which Go tells no directory
			modulePath, _, _ := strings.Cut(name, " ")
			dir = filepath.Join(t.root, "vendor", modulePath)
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.err = err
			return nil
		}
		found := false
		for _, e := range entries {
			if e.Type().IsRegular() && licenseFile.MatchString(e.Name()) {
				found = true
				fmt.Fprintf(&b, "==== %s: %s ====\n\n%s\n\n", name, e.Name(), bytes.TrimSpace(t.read(filepath.Join(dir, e.Name()))))
			}
		}
		if !found {
			t.err = fmt.Errorf("module %s has no license file", name)
		}
	}
	return b.Bytes()
}
