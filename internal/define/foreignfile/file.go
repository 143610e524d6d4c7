// Package foreignfile finds and reads the files of other tools, which package foreign converts.
package foreignfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/podtask/podtask/internal/define/foreign"
	"github.com/podtask/podtask/internal/define/foreign/toolfile"
	"github.com/podtask/podtask/internal/userfile"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// maxForeign limits how much of a file is read: plans of Terraform are large. The reader has its own bounds.
const maxForeign = 17 << 20

// foreignExtensions lists the extensions of files that foreign.Read may know.
var foreignExtensions = []string{"", ".json", ".yaml", ".yml", ".template", ".tfstate"}

// File is a file that another tool keeps.
type File struct {
	Name   string // in messages
	Base   string // in its directory
	Dir    string // empty for standard input
	Source []byte
}

// Find returns the file of another tool that a name on the command line means, - being the standard input; nil if it is none.
func Find(from string, stdin io.Reader) (*File, error) {
	f := File{Name: from, Base: filepath.Base(from), Dir: filepath.Dir(from)}
	if from == "-" {
		src, err := userfile.ReadFrom(stdin, "the standard input", maxForeign-1)
		if err != nil {
			return nil, fmt.Errorf("read standard input: %w", err)
		}
		if foreign.Kind("stdin", src) == "" {
			_, err := foreign.Read(toolfile.Request{File: "stdin", Source: src})
			return nil, err
		}
		return &File{Name: "stdin", Base: "stdin", Source: src}, nil
	}
	info, err := os.Stat(from)
	switch {
	case err != nil:
		return nil, nil // convert reports it, or it is a task
	case info.IsDir():
		for _, name := range []string{"manifest.json", "ecspresso.yml", "ecspresso.yaml", "manifest.yml"} {
			if _, err := os.Stat(filepath.Join(from, name)); err == nil {
				f.Dir, f.Base, f.Name = from, name, filepath.Join(from, name)
				break
			}
		}
		if found, _ := filepath.Glob(filepath.Join(from, "*.tf")); f.Name == from && len(found) > 0 {
			return nil, fmt.Errorf("%s has Terraform source, which import does not read: `terraform plan -out=plan && terraform show -json plan > plan.json`, and import plan.json", from)
		}
		if f.Name == from {
			return nil, fmt.Errorf("%s is a directory without manifest.json of CDK, ecspresso.yml or manifest.yml of Copilot: give a file", from)
		}
	case terraformSource(from):
		return nil, fmt.Errorf("%s is Terraform source, which import does not read: `terraform plan -out=plan && terraform show -json plan > plan.json`, and import plan.json", from)
	case filepath.Ext(from) == ".jsonnet" || filepath.Ext(from) == ".libsonnet":
		return nil, fmt.Errorf("%s is Jsonnet, which import does not run: `ecspresso render` or `jsonnet` writes it as JSON", from)
	case !slices.Contains(foreignExtensions, filepath.Ext(from)):
		return nil, nil
	}
	stream := !info.IsDir() && !info.Mode().IsRegular()
	if stream {
		f.Source, err = userfile.Read(from, maxForeign-1)
	} else {
		f.Source, err = ReadBelow(f.Dir, f.Base)
	}
	if err != nil {
		return nil, err
	}
	kind := foreign.Kind(f.Name, f.Source)
	if kind == "" && stream { // it cannot be read again
		_, err := foreign.Read(toolfile.Request{File: f.Name, Source: f.Source})
		return nil, err
	}
	if kind == "" && filepath.Ext(f.Base) != ".yaml" && filepath.Ext(f.Base) != ".yml" && filepath.Ext(from) != "" {
		_, err := foreign.Read(toolfile.Request{File: f.Name, Source: f.Source})
		return nil, err
	}
	if kind == "" {
		return nil, nil
	}
	return &f, nil
}

// terraformSource reports whether a file is in Terraform's or OpenTofu's own language.
func terraformSource(name string) bool {
	return slices.ContainsFunc([]string{".tf", ".tofu", ".tf.json", ".tofu.json", ".tfvars", ".hcl"}, func(ext string) bool { return strings.HasSuffix(name, ext) })
}

// ReadBelow reads a file of a directory. No symbolic link leads out of the directory.
func ReadBelow(dir, name string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a named pipe would block
	if err != nil {
		if inPath, ok := errors.AsType[*fs.PathError](err); ok {
			err = inPath.Err
		}
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() {
		return nil, errors.New("it is not a file")
	}
	return io.ReadAll(io.LimitReader(f, maxForeign))
}

// Open returns the function by which package foreign reads the files that a file names; nil for the standard input.
func (f File) Open() func(name string) ([]byte, error) {
	if f.Dir == "" {
		return nil
	}
	return func(name string) ([]byte, error) { return ReadBelow(f.Dir, name) }
}

// JSON returns a definition or manifests as one value of JSON, as requests to the agent have it: several manifests are a List.
func JSON(text []byte) ([]byte, error) {
	docs, err := doctree.Tagged(text, doctree.Limits{Size: maxForeign, Values: 200_000, Depth: 60}, nil)
	if err != nil {
		return nil, err
	}
	if len(docs) == 1 {
		return docs[0].JSON(), nil
	}
	items := make([]json.RawMessage, len(docs))
	for i, d := range docs {
		items[i] = d.JSON()
	}
	return json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
}

// Text returns the text of the definition or the manifests of a workload, and the extension of its file.
func Text(r toolfile.Result) (text []byte, ext string) {
	if r.Definition != nil {
		return append(r.Definition.JSON(), '\n'), ".json"
	}
	var out bytes.Buffer
	for i, d := range r.Documents {
		if i > 0 {
			out.WriteString("---\n")
		}
		out.Write(d.JSON())
		out.WriteByte('\n')
	}
	return out.Bytes(), ".yaml"
}
