package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const (
	module = "github.com/podtask/podtask"
	// buildTags are those of the product, and of tests that need one.
	buildTags = "remote containers_image_openpgp e2e"
)

// pkg is a package as "go list" describes it.
type pkg struct {
	ImportPath   string
	Dir          string
	Doc          string
	Standard     bool
	GoFiles      []string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// name is the package's path within the module.
func (p pkg) name() string { return within(p.ImportPath) }

func within(importPath string) string {
	return strings.TrimPrefix(strings.TrimPrefix(importPath, module), "/")
}

func ours(importPath string) bool {
	return importPath == module || strings.HasPrefix(importPath, module+"/")
}

// root returns the directory of the module.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// goList runs "go list" and decodes what it prints.
func goList(args ...string) ([]pkg, error) {
	cmd := exec.Command("go", append([]string{
		"list", "-e", "-tags", buildTags,
		"-json=ImportPath,Dir,Doc,Standard,GoFiles,Imports,TestImports,XTestImports",
	}, args...)...)
	cmd.Dir = filepath.Join("..", "..", "..")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.String())
	}
	var pkgs []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs, nil
		} else if err != nil {
			return nil, err
		}
		pkgs = append(pkgs, p)
	}
}

// list is goList with at least one result.
func list(t *testing.T, args ...string) []pkg {
	t.Helper()
	pkgs, err := goList(args...)
	if err != nil || len(pkgs) == 0 {
		t.Fatalf("%d packages, %v", len(pkgs), err)
	}
	return pkgs
}

// paths are the import paths of packages of this module.
func paths(names []string) (all []string) {
	for _, name := range names {
		all = append(all, module+"/"+name)
	}
	return all
}

var listed = sync.OnceValues(func() ([]pkg, error) { return goList("./...") })

// packages returns all packages of the module.
func packages(t *testing.T) []pkg {
	t.Helper()
	pkgs, err := listed()
	if err != nil {
		t.Fatal(err)
	}
	if len(pkgs) < 5 {
		t.Fatalf("only %d packages are seen", len(pkgs))
	}
	return pkgs
}

// trackedFiles returns the files under version control, and where git does not
// answer, all files, as paths from the root.
func trackedFiles(t *testing.T) []string {
	t.Helper()
	cmd := exec.Command("git", "ls-files", "-z")
	cmd.Dir = root(t)
	if out, err := cmd.Output(); err == nil {
		return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	}
	var files []string
	err := filepath.WalkDir(root(t), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Name() == ".git" {
			return fs.SkipDir
		}
		if d.Type().IsRegular() {
			rel, err := filepath.Rel(root(t), path)
			files = append(files, rel)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// syntax parses a Go file.
func syntax(t *testing.T, fset *token.FileSet, path string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return file
}
