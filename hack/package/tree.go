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

// layout is where things are, below the root of the file system.
type layout struct {
	// prefix is /usr, /usr/local or a directory of a user.
	prefix string
	// units and generators are systemd's directories for users, and systemUnits the one for the system; without
	// generators or systemUnits there are none.
	units, systemUnits, generators string
	// zsh is the directory of its completions, licenses that of the license files.
	zsh, licenses string
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

// personal is the layout of another prefix. Of a user's home, systemd reads units from
// ~/.local/share, and runs no generators.
func personal(prefix string) layout {
	l := system(prefix)
	l.units, l.systemUnits, l.generators, l.program = prefix+"/share/systemd/user", "", "", prefix+"/bin/podtask"
	return l
}

// tree returns all files of an installation, in the order of their paths.
func (b build) tree(l layout) ([]file, error) {
	t := treeBuilder{build: b, layout: l}
	for _, program := range []string{"podtask", "podtask-compose", "podtask-ecs", "podtask-ingress", "podtask-kubelet", "podtask-netns", "podtask-user-generator"} {
		t.copy(filepath.Join(b.bin, program), l.prefix+"/bin/"+program, 0o755)
	}
	if l.generators != "" {
		t.add(file{path: l.generators + "/podtask-user-generator", target: l.prefix + "/bin/podtask-user-generator"})
	}
	t.unitFiles()
	t.completions()
	t.manual()
	t.documents()
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
	files []file
	err   error
}

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
	t.copyTree("contrib/systemd", t.units, nil)
	if t.systemUnits != "" {
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

// manual makes man pages: of each command, and of the two kinds of files.
func (t *treeBuilder) manual() {
	pages, err := filepath.Glob(filepath.Join(t.root, "docs/commands/podtask*.md"))
	if err != nil || len(pages) == 0 {
		t.err = fmt.Errorf("no pages of commands in docs/commands: %w", err)
		return
	}
	for _, page := range pages {
		t.manPage(strings.TrimSuffix(filepath.Base(page), ".md"), 1, page)
	}
	t.manPage("podtask.task", 5, filepath.Join(t.root, "docs/units.md"))
	t.manPage("podtask.toml", 5, filepath.Join(t.root, "docs/configuration.md"))
}

func (t *treeBuilder) manPage(name string, section int, from string) {
	text := manPage(name, section, t.version, t.date, t.read(from))
	t.add(file{path: fmt.Sprintf("%s/share/man/man%d/%s.%d.gz", t.prefix, section, name, section), mode: 0o644, data: compressed(text)})
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
	t.copy(filepath.Join(t.root, "LICENSE"), t.licenses+"/LICENSE", 0o644)
	t.add(file{path: t.licenses + "/THIRD-PARTY-LICENSES", mode: 0o644, data: t.thirdParty()})
}

var licenseFile = regexp.MustCompile(`(?i)^((un)?licen[sc]e|copying|notice)([.-].*)?$`)

// thirdParty returns the licenses of all modules that the programs contain.
func (t *treeBuilder) thirdParty() []byte {
	if t.err != nil {
		return nil
	}
	list := exec.Command(filepath.Join(t.root, "hack/go"), "list", "-deps", "-tags", "remote containers_image_openpgp",
		"-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}", "./cmd/...")
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
