package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/podtask/podtask/internal/atomicfile"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/pkg/convert"
	"github.com/podtask/podtask/pkg/taskunit"
	"github.com/urfave/cli/v2"
)

// convertDefinition is `podtask generate --from`.
func convertDefinition(p *program, c *cli.Context) error {
	from := c.String("from")
	name := c.String("name")
	if name == "" {
		name = strings.TrimSuffix(filepath.Base(from), filepath.Ext(from))
	}
	if !connect.ValidTaskName(name) {
		return usagef("generate", "--name %q: a name has letters, digits, dots, dashes and underscores, and begins with a letter or a digit", name)
	}
	r, err := convertSource(p, c, from, name)
	if err != nil {
		return err
	}
	for _, l := range r.Lost {
		fmt.Fprintln(p.stderr, "Lost: "+l)
	}
	files := []struct {
		name string
		data []byte
	}{{name + ".json", r.Definition}, {name + taskunit.Extension, []byte(r.Unit)}}
	dir := cmp.Or(c.String("output"), ".")
	for _, f := range files {
		path := filepath.Join(dir, f.name)
		if c.Bool("dry-run") {
			fmt.Fprintf(p.stdout, "---%s---\n%s\n", f.name, f.data)
			continue
		}
		if _, err := os.Lstat(path); err == nil && !c.Bool("replace") {
			return fmt.Errorf("%s is there already: --replace replaces it", path)
		}
	}
	if c.Bool("dry-run") {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, f := range files {
		path := filepath.Join(dir, f.name)
		// Variables may hold secrets.
		if err := atomicfile.Write(path, f.data, 0o600); err != nil {
			return err
		}
		fmt.Fprintln(p.stdout, path)
	}
	return nil
}

// convertSource tells what the source is by its name; what is no file is a task.
func convertSource(p *program, c *cli.Context, from, name string) (convert.Result, error) {
	path, err := filepath.Abs(from)
	if err != nil {
		return convert.Result{}, err
	}
	src, err := readSmall(path)
	switch ext := filepath.Ext(from); {
	case errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(from, "/."):
		return convertTask(p, c, from, name)
	case err != nil:
		return convert.Result{}, fmt.Errorf("read what is to be converted: %w", err)
	case ext == ".yaml" || ext == ".yml":
		return convert.Compose(path, name, src)
	case ext == ".container":
		return convert.Quadlet(name, withVolumes(taskunit.Read(path, string(src))))
	case ext == ".pod":
		files, err := membersOf(path)
		if err != nil {
			return convert.Result{}, err
		}
		return convert.Quadlet(name, withVolumes(append(files, taskunit.Read(path, string(src)))...))
	}
	return convert.Result{}, usagef("generate", "--from %s: it is a Compose file (.yaml), a .pod, a .container or a task", from)
}

// membersOf reads the .container files beside a .pod that name it.
func membersOf(pod string) ([]taskunit.File, error) {
	paths, err := filepath.Glob(filepath.Join(filepath.Dir(pod), "*.container"))
	if err != nil {
		return nil, err
	}
	var out []taskunit.File
	for _, path := range paths {
		text, err := readSmall(path)
		if err != nil {
			return nil, err
		}
		f := taskunit.Read(path, string(text))
		for _, a := range f.Assignments() {
			if a.Section == "Container" && a.Key == "Pod" && a.Value == filepath.Base(pod) {
				out = append(out, f)
				break
			}
		}
	}
	return out, nil
}

// withVolumes puts the .volume files that the files name, and that lie beside them, to
// these. One that is not there is Quadlet's to miss.
func withVolumes(files ...taskunit.File) []taskunit.File {
	read := map[string]bool{}
	out := files
	for _, f := range files {
		for _, a := range f.Assignments() {
			source, _, _ := strings.Cut(a.Value, ":")
			path := filepath.Join(filepath.Dir(f.Path), source)
			if a.Key != "Volume" || filepath.Ext(source) != ".volume" || read[path] {
				continue
			}
			read[path] = true
			if text, err := readSmall(path); err == nil {
				out = append(out, taskunit.Read(path, string(text)))
			}
		}
	}
	return out
}

func convertTask(p *program, c *cli.Context, ref, name string) (convert.Result, error) {
	s, err := p.open(c)
	if err != nil {
		return convert.Result{}, err
	}
	defer s.Agent.Close()
	st, err := s.Agent.Tasks.Find(ref)
	if err != nil {
		return convert.Result{}, err
	}
	return convert.Task(name, st.Task)
}
