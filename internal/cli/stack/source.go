package stack

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/define/convert/compose"
	"github.com/podtask/podtask/internal/define/foreign"
	"github.com/podtask/podtask/internal/define/foreign/toolfile"
	"github.com/podtask/podtask/internal/define/foreignfile"
	"github.com/podtask/podtask/internal/define/stackfile"
	"github.com/podtask/podtask/internal/engine/decide/stack"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/taskdef"
)

// defaultFiles lists those that a command without an argument reads, and that a directory is read by.
var defaultFiles = []string{"stack.yaml", "stack.yml", "compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml"}

// sourceFile is a file of a stack.
type sourceFile struct {
	path string
	kind string // compose, stack, or what package foreign calls it
	text []byte
	// file is set if package foreign reads it.
	file *foreignfile.File
}

const (
	ofCompose = "compose"
	ofStack   = "stack"
	ofKube    = "Kubernetes manifests"
)

// sources finds the files that arguments mean; without an argument, those of this directory.
func sources(args []string) (all []sourceFile, err error) {
	if len(args) == 0 {
		name, err := fileOf(".")
		if err != nil {
			return nil, err
		}
		args = []string{name}
	}
	var errs []error
	for _, arg := range args {
		found, err := sourcesOf(arg)
		errs = append(errs, err)
		all = append(all, found...)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for _, s := range all {
		if (s.kind == ofCompose || s.kind == ofStack) && len(all) > 1 {
			return nil, fmt.Errorf("%s is a whole stack by itself: give it alone, or name the other files in a stack file (docs/stacks.md)", s.path)
		}
	}
	return all, nil
}

// fileOf returns the stack or Compose file of a directory.
func fileOf(dir string) (string, error) {
	for _, name := range defaultFiles {
		if path := filepath.Join(dir, name); isFile(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("there is no %s here: name the FILE of the stack", strings.Join(defaultFiles, ", "))
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}

// sourcesOf finds the files that an argument means: it, or the manifests of a directory.
func sourcesOf(arg string) ([]sourceFile, error) {
	info, err := os.Stat(arg)
	if err != nil {
		return nil, fmt.Errorf("read the stack: %w", err)
	}
	if !info.IsDir() {
		s, err := sourceOf(arg)
		return []sourceFile{s}, err
	}
	if name, err := fileOf(arg); err == nil {
		s, err := sourceOf(name)
		return []sourceFile{s}, err
	}
	for _, tool := range []struct{ file, command string }{{"kustomization.yaml", "kustomize build"}, {"kustomization.yml", "kustomize build"}, {"Chart.yaml", "helm template"}} {
		if isFile(filepath.Join(arg, tool.file)) {
			return nil, fmt.Errorf("%s has a %s: `%s %s > all.yaml`, and give all.yaml", arg, tool.file, tool.command, arg)
		}
	}
	entries, err := os.ReadDir(arg)
	if err != nil {
		return nil, fmt.Errorf("read the stack: %w", err)
	}
	if manifests, err := manifestsOf(arg, entries); err != nil || len(manifests) > 0 {
		return manifests, err
	}
	found, err := foreignfile.Find(arg, nil)
	if err != nil {
		return nil, err
	}
	return []sourceFile{{path: arg, kind: foreign.Kind(found.Name, found.Source), file: found}}, nil
}

// manifestsOf finds the manifests in a directory. A file that cannot be read may be one of them, so that it is an error: a change
// without it would remove its services.
func manifestsOf(dir string, entries []os.DirEntry) (all []sourceFile, err error) {
	var errs []error
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) || !isFile(path) {
			continue
		}
		s, err := sourceOf(path)
		if err == nil && s.file == nil {
			err = readable(s)
		}
		if err != nil {
			errs = append(errs, err)
		} else if s.kind == ofKube {
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	return all, errors.Join(errs...)
}

// readable returns an error for a file that nothing was recognized in because it is no YAML.
func readable(s sourceFile) error {
	d := yaml.NewDecoder(bytes.NewReader(s.text))
	for {
		var doc yaml.Node
		if err := d.Decode(&doc); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s is beside manifests and cannot be read: %w; repair it, or give the files by their names", s.path, err)
		}
	}
}

// sourceOf recognizes a file.
func sourceOf(path string) (s sourceFile, err error) {
	s.path = path
	found, err := foreignfile.Find(path, nil)
	if err != nil {
		return s, err
	}
	if found != nil {
		s.kind, s.file = foreign.Kind(found.Name, found.Source), found
		return s, nil
	}
	if s.text, err = command.ReadSmall(path); err != nil {
		return s, fmt.Errorf("read the stack: %w", err)
	}
	s.kind = ofCompose
	if stackfile.Is(s.text) {
		s.kind = ofStack
	}
	return s, nil
}

// readForeign reads all workloads of a file, with the manifests beside it.
func (k call) readForeign(w *wanted, s sourceFile, beside []sourceFile, service string) ([]*member, error) {
	params, err := command.ParseParams(command.Path(k.c), k.c.StringSlice("param"))
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(s.file.Dir)
	if err != nil {
		return nil, err
	}
	q := toolfile.Request{File: s.file.Name, Dir: dir, Base: s.file.Base, Source: s.file.Source, Open: s.file.Open(), Params: params, Getenv: k.getenv, Service: service, Now: time.Now()}
	for _, b := range beside {
		q.Beside = append(q.Beside, toolfile.File{Name: b.file.Name, Source: b.file.Source})
	}
	results, err := foreign.ReadAll(q, w.Name, compose.StackTag)
	if err != nil {
		return nil, err
	}
	var all []*member
	for _, r := range results {
		for _, l := range r.Lost {
			w.lose(l)
		}
		m := fromForeign(w, dir, r)
		if len(r.Schedules) == 0 {
			all = append(all, m)
		}
		for _, s := range r.Schedules {
			one := *m
			one.Name += strings.TrimPrefix(s.Name, r.Name)
			if err := one.schedule(s.Flags); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", m.Place, one.Name, err)
			}
			all = append(all, &one)
		}
	}
	return all, nil
}

func placeOf(r toolfile.Result) string { return fmt.Sprintf("%s:%d", r.Stack.File, r.Stack.Line) }

func (w *wanted) lose(p taskdef.Problem) {
	if !slices.Contains(w.Lost, p) {
		w.Lost = append(w.Lost, p)
	}
}

// fromForeign makes a member of a workload of another tool's file.
func fromForeign(w *wanted, dir string, r toolfile.Result) *member {
	m := &member{Member: stack.Member{Name: r.Stack.Member, Kind: stack.Service}, Place: placeOf(r), Dir: dir, Copies: 1}
	m.Text, _ = foreignfile.Text(r)
	m.locate = func(p taskdef.Problem) taskdef.Problem { return r.Locate(p, m.Text) }
	if r.Stack.Job {
		m.Kind = stack.Job
		m.Notes = append(m.Notes, "it runs to its end, as the file says")
	}
	for _, word := range r.Stack.After {
		name, is, _ := strings.Cut(word, "=")
		m.waitFor(name, stack.Condition(is), m.Place)
	}
	for _, claim := range r.Stack.Claims {
		v := compose.StackVolume{Name: w.Name + "_" + claim}
		m.References = append(m.References, api.Reference{Match: "volume:" + claim, Source: "podman:" + v.Name})
		if !slices.ContainsFunc(w.Volumes, func(have compose.StackVolume) bool { return have.Name == v.Name }) {
			w.Volumes = append(w.Volumes, v)
		}
	}
	if r.Service != nil {
		m.words = r.Service.Flags
	}
	if r.Service != nil || r.Schedules != nil {
		m.Answered = append([]string{"/kind"}, r.Answered...)
	}
	return m
}

// waitFor adds a dependency. One without a condition is what the other member becomes, which is known when all are.
func (m *member) waitFor(name string, is stack.Condition, place string) {
	if slices.ContainsFunc(m.After, func(d stack.Dependency) bool { return d.Name == name }) {
		return
	}
	m.After = append(m.After, stack.Dependency{Name: name, Is: is})
	if m.AfterAt == nil {
		m.AfterAt = map[string]string{}
	}
	m.AfterAt[name] = place
}

// readStackFile reads podtask's own file.
func (k call) readStackFile(w *wanted, s sourceFile) error {
	f, problems := stackfile.Parse(s.path, s.text)
	var errs []error
	for _, p := range problems {
		errs = append(errs, errors.New(p.String()))
	}
	if len(errs) > 0 {
		return errors.Join(append(errs, orderProblems(s.path, f.Members)...)...)
	}
	if n := len(f.Members); n > stack.MaxMembers {
		return fmt.Errorf("%s: a stack has up to %d services and jobs, not %d", s.path, stack.MaxMembers, n)
	}
	for _, one := range f.Members {
		m, err := k.ofStackFile(w, s.path, one)
		if err != nil {
			errs = append(errs, placed(fmt.Sprintf("%s:%d", s.path, one.Line), one.Name, err)...)
			continue
		}
		m.Place = fmt.Sprintf("%s:%d", s.path, one.Line)
		for _, d := range one.After {
			m.waitFor(d.Name, stack.Condition(d.Is), fmt.Sprintf("%s:%d", s.path, cmp.Or(d.Line, one.Line)))
		}
		w.Members = append(w.Members, m)
	}
	if len(errs) > 0 {
		errs = append(errs, orderProblems(s.path, f.Members)...)
	}
	return errors.Join(errs...)
}

// orderProblems returns what is wrong with the order of a stack file that has other problems too, so that all are told at once.
func orderProblems(path string, members []stackfile.Member) (errs []error) {
	var all []stack.Member
	lines := map[[2]string]int{}
	for _, one := range members {
		m := stack.Member{Name: one.Name, Object: one.Name, Kind: stack.Service}
		if one.Job {
			m.Kind = stack.Job
		} else if len(one.Times) > 0 {
			m.Kind = stack.Schedule
		}
		lines[[2]string{one.Name, ""}] = one.Line
		for _, d := range one.After {
			m.After = append(m.After, stack.Dependency{Name: d.Name, Is: stack.Condition(d.Is)})
			lines[[2]string{one.Name, d.Name}] = cmp.Or(d.Line, one.Line)
		}
		all = append(all, m)
	}
	for _, p := range stack.Problems(all) {
		errs = append(errs, fmt.Errorf("%s:%d: %s", path, lines[[2]string{p.Member, p.After}], p.Text))
	}
	return errs
}

// ofStackFile makes a member that a stack file describes.
func (k call) ofStackFile(w *wanted, file string, one stackfile.Member) (*member, error) {
	dir := filepath.Dir(file)
	m, err := k.definitionOf(w, file, one)
	if err != nil {
		return nil, err
	}
	m.Name = one.Name
	if one.Job {
		m.Kind, m.Notes = stack.Job, nil
	}
	if err := m.scheduleOf(one); err != nil {
		return nil, err
	}
	for _, word := range one.Settings {
		if rest, is := strings.CutPrefix(word, "--map-volume="); is {
			if name, to, _ := strings.Cut(rest, "="); strings.HasPrefix(to, ".") {
				word = "--map-volume=" + name + "=" + filepath.Join(dir, to)
			}
		}
		m.words = append(m.words, word)
	}
	return m, nil
}

// definitionOf makes a member of what a stack file says about its definition: a container, or a file.
func (k call) definitionOf(w *wanted, file string, one stackfile.Member) (*member, error) {
	dir, path := filepath.Dir(file), one.From
	if one.Inline != nil {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		r, err := foreign.Inline(toolfile.Request{File: file, Dir: abs}, one.Inline, w.Name, one.Name, compose.StackTag)
		if err != nil {
			return nil, err
		}
		return fromForeign(w, abs, r), nil
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	src, err := sourceOf(path)
	switch {
	case err != nil:
		return nil, err
	case src.file == nil:
		return nil, fmt.Errorf("%s has no task definition: a member is of a definition, of a manifest, or of a file that `podtask import` reads", path)
	}
	found, err := k.readForeign(w, src, nil, one.Service)
	if err != nil {
		return nil, err
	}
	if len(found) != 1 {
		var names []string
		for _, m := range found {
			names = append(names, m.Name)
		}
		return nil, fmt.Errorf("%s has %d services: choose one with service: %s", path, len(found), strings.Join(names, ", "))
	}
	return found[0], nil
}

// projectName names the stack of files.
func (k call) projectName(files []sourceFile) (string, error) {
	if name := k.c.String("name"); name != "" {
		return name, stack.CheckName(name)
	}
	from := files[0]
	path, err := filepath.Abs(from.path)
	if err != nil {
		return "", err
	}
	name := ""
	if from.kind == ofCompose {
		vars, _, err := k.compose.Variables(filepath.Dir(path))
		if err != nil {
			return "", err
		}
		name = vars["COMPOSE_PROJECT_NAME"]
	}
	if name == "" {
		var project struct {
			Name string `yaml:"name"`
		}
		if yaml.Unmarshal(from.text, &project) == nil && !strings.Contains(project.Name, "$") {
			name = project.Name
		}
	}
	if name == "" {
		dir := filepath.Dir(path)
		if !isFile(path) {
			dir = path
		}
		name = strings.TrimLeft(notInName.ReplaceAllString(strings.ToLower(filepath.Base(dir)), ""), "_-")
	}
	if err := stack.CheckName(name); err != nil {
		return "", fmt.Errorf("%s: %w: give another one with --name", from.path, err)
	}
	return name, nil
}

// readAll reads the files of a stack.
func (k call) readAll(ctx context.Context, files []sourceFile, w *wanted) error {
	var errs []error
	var manifests []sourceFile
	for _, f := range files {
		w.Source = append(w.Source, f.path)
		if f.kind == ofKube {
			manifests = append(manifests, f)
		}
	}
	for _, f := range files {
		var beside []sourceFile
		var found []*member
		var err error
		switch {
		case f.kind == ofCompose:
			err = k.readCompose(ctx, f.path, w)
		case f.kind == ofStack:
			err = k.readStackFile(w, f)
		case f.kind == ofKube && f.path != manifests[0].path:
			continue // they are read together
		default:
			if f.kind == ofKube {
				beside = manifests[1:]
			}
			found, err = k.readForeign(w, f, beside, "")
		}
		errs = append(errs, err)
		w.Members = append(w.Members, found...)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return k.settle(w)
}

// settle completes members that no Compose project describes: names, settings, and what they wait for.
func (k call) settle(w *wanted) error {
	var errs []error
	for _, m := range w.Members {
		if m.Object == "" {
			m.Object = w.Name + "-" + strings.ReplaceAll(m.Name, ".", "-")
		}
		for i := range m.After {
			d := &m.After[i]
			of := slices.IndexFunc(w.Members, func(o *member) bool { return o.Name == d.Name })
			if d.Is == "" || d.Is == stack.Healthy {
				if d.Is = stack.Healthy; of >= 0 {
					d.Is = w.Members[of].Kind.Whole()
				}
			}
		}
		if m.locate == nil {
			continue
		}
		count, s, err := k.serviceSettings(m.words)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s: %w", m.Place, m.Name, err))
			continue
		}
		m.Settings = &s
		if count != nil {
			m.Copies = *count
		}
	}
	return errors.Join(errs...)
}
