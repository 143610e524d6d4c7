package stack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/part"
	"github.com/podtask/podtask/internal/define/composecall"
	"github.com/podtask/podtask/internal/define/convert"
	"github.com/podtask/podtask/internal/define/lockfile"
	"github.com/podtask/podtask/internal/engine/decide/stack"
	"github.com/podtask/podtask/internal/host/secretsource"
	"github.com/podtask/podtask/pkg/taskdef"
)

// routes returns what becomes of the commands if another host is chosen: the files of a stack are read on this machine, and all that is
// done, and looked up for the plan, is of the host.
func routes() map[string]part.Route {
	all := map[string]part.Route{}
	for _, v := range verbs() {
		all["stack "+v.Name] = part.Route{Send: newSender}
	}
	all["stack ls"] = part.Route{}
	return all
}

// newSender returns what reads the files of a command line for another host. It has neither records nor an agent.
func newSender(p *command.Program, path string) part.Sender {
	o := options{
		out: p.Stdout, errOut: p.Stderr, warn: p.Warn, getenv: p.Getenv, compose: composecall.Caller{Find: p.FindProgram, Environ: p.Environ},
		definition: p.Definition, serviceSettings: p.ServiceSettings, environ: p.Environ,
	}
	return func(ctx context.Context, flags, args []string) ([]string, []byte, error) {
		all := verbs()
		i := slices.IndexFunc(all, func(v command.Verb[call]) bool { return "stack "+v.Name == path })
		c, err := command.ParseWords(path, all[i].Flags, flags)
		if err != nil {
			return nil, nil, err
		}
		k := call{c: c, options: o}
		if i < len(readingVerbs()) {
			text, err := k.pack(ctx, args)
			return []string{"-"}, text, err
		}
		if len(args) > 0 && stack.CheckName(args[0]) == nil {
			return args, nil, nil
		}
		first := min(1, len(args))
		name, err := k.nameOf(args[:first])
		return append([]string{name}, args[first:]...), nil, err
	}
}

// maxSent is the size of a stack that another podtask may send, with the texts of its definitions, files and secrets, in bytes.
const maxSent = 64 << 20

// filesElsewhere stands for the directory of the files of a stack on another host.
const filesElsewhere = "/podtask-files-of-the-stack"

// filesOf is the directory of the files that podtask writes for a stack.
func (k call) filesOf(name string) string {
	if k.store == nil {
		return filesElsewhere
	}
	return k.store.Files(name)
}

// pack returns a stack as another host reads it: what its definitions read from files at each start comes with it.
func (k call) pack(ctx context.Context, args []string) ([]byte, error) {
	if k.lockPath("lock", "") != "" {
		return nil, command.Usagef(command.Path(k.c), "--lock writes a file of this machine: `podtask stack plan --lock` without another host comes first, and --locked uses that file there")
	}
	w, err := k.written(ctx, args)
	if err != nil {
		return nil, err
	}
	if path := k.lockPath("locked", w.Source[0]); path != "" {
		f, err := lockfile.Load(path)
		if err != nil {
			return nil, lockMissing(err)
		}
		for _, m := range w.Members {
			if err := k.define(m); err != nil {
				return nil, fmt.Errorf("%s: %w", m.Place, err)
			}
		}
		w.Lock, w.LockDigest = &f, w.lockDigest()
	}
	var errs []error
	for _, m := range w.Members {
		if err := k.carry(ctx, w, m); err != nil {
			errs = append(errs, fmt.Errorf("%s: %s: %w", m.Place, m.Name, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return json.Marshal(w)
}

// carry takes the files that a definition names on this machine into the stack: secrets, which Podman of the host keeps, and files of
// variables.
func (k call) carry(ctx context.Context, w *wanted, m *member) error {
	decoder := json.NewDecoder(bytes.NewReader(m.Text))
	decoder.UseNumber()
	var doc any
	if decoder.Decode(&doc) != nil {
		return nil // manifests name no files
	}
	var errs []error
	changed := false
	var walk func(v any, under string)
	walk = func(v any, under string) {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				walk(item, under)
			}
		case map[string]any:
			for key, item := range v {
				name, is := item.(string)
				if !is {
					walk(item, key)
					continue
				}
				there, err := k.carryFile(ctx, w, m.Dir, under+"/"+key, name)
				errs = append(errs, err)
				if there != "" {
					v[key], changed = there, true
				}
			}
		}
	}
	if walk(doc, ""); !changed {
		return errors.Join(errs...)
	}
	text, err := json.MarshalIndent(doc, "", "    ")
	m.Text = append(text, '\n')
	return errors.Join(append(errs, err)...)
}

// carryFile takes a file that a member of a definition names, at its place such as environmentFiles/value, and returns the name that it has on the host; empty if it is none, or is not
// here.
func (k call) carryFile(ctx context.Context, w *wanted, dir, at, name string) (there string, err error) {
	var data []byte
	path, secret := strings.CutPrefix(name, "file:")
	if at == "environmentFiles/value" {
		path, secret = strings.TrimPrefix(name, "file://"), false
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	info, err := os.Stat(path)
	switch {
	case err != nil || !info.Mode().IsRegular() || strings.Contains(name, "${"):
		return "", nil
	case at == "environmentFiles/value":
		data, err = command.ReadSmall(path)
	case secret && (strings.HasSuffix(at, "/valueFrom") || strings.HasSuffix(at, "/credentialsParameter")):
		data, err = readSecret(ctx, k.getenv, path, at == "secretFiles/valueFrom")
	default:
		return "", nil
	}
	if err != nil {
		return "", err
	}
	f := convert.File{Name: convert.Plain(filepath.Base(path)), Data: data}
	all := &w.Files
	if secret {
		f.Name, all = secretPrefix(w.Name)+f.Name, &w.Secrets
	}
	f.Name += "-" + convert.Version(f.Name, data)
	if there = filesElsewhere + "/" + f.Name; secret {
		there = "podman:" + f.Name
	}
	if !slices.ContainsFunc(*all, func(o convert.File) bool { return o.Name == f.Name }) {
		*all = append(*all, f)
	}
	return there, nil
}

// readSecret reads a secret, with its last newline if it is to be a file.
func readSecret(ctx context.Context, getenv func(string) string, path string, whole bool) ([]byte, error) {
	source, err := secretsource.Parse("file:" + path)
	if err != nil {
		return nil, err
	}
	value, err := secretsource.Reader{Getenv: getenv}.Read(ctx, source)
	if err != nil {
		return nil, err
	}
	if whole {
		return slices.Clone(value.File()), nil
	}
	return slices.Clone(value.Bytes()), nil
}

// received reads a stack that another machine has read.
func (k call) received() (*wanted, error) {
	text, err := io.ReadAll(io.LimitReader(k.in, maxSent+1))
	if err == nil && len(text) > maxSent {
		err = fmt.Errorf("the stack that the other podtask sends has more than %d bytes", maxSent)
	}
	if err != nil {
		return nil, err
	}
	w := &wanted{sent: true}
	if err := json.Unmarshal(text, w); err != nil {
		return nil, fmt.Errorf("the stack that the other podtask sends cannot be read: %w", err)
	}
	if slices.Contains(w.Members, nil) || len(w.Source) == 0 {
		return nil, errors.New("the stack that the other podtask sends has a member that is nothing, or names no file")
	}
	if err := stack.CheckName(w.Name); err != nil {
		return nil, err
	}
	if w.Preview != nil {
		if w.Preview, err = k.previewOf(w.Preview.Of); err != nil { // by the clock of this host
			return nil, err
		}
	}
	for _, m := range w.Members {
		m.Text = bytes.ReplaceAll(m.Text, []byte(filesElsewhere), []byte(k.filesOf(w.Name)))
		if m.Settings == nil {
			continue
		}
		colon := max(0, strings.LastIndex(m.Place, ":"))
		file := m.Place[:colon]
		n, _ := strconv.Atoi(strings.TrimPrefix(m.Place[colon:], ":")) // 0 is an unknown line
		m.locate = func(p taskdef.Problem) taskdef.Problem {
			p.File, p.Line, p.Column = file, n, 0
			return p
		}
	}
	return w, nil
}

// stays lists what a member of a stack that was sent names on the other machine and what cannot come with it.
func (k call) stays(m *member) (errs []error) {
	below := func(path string) bool {
		rel, err := filepath.Rel(m.Dir, path)
		return err == nil && filepath.IsLocal(rel)
	}
	tell := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s: %w", m.Place, m.Name, fmt.Errorf(format, args...)))
	}
	for _, v := range m.task.Volumes {
		if v.Kind == taskdef.VolumeBind && below(v.HostPath) && !k.mapped("map-volume", v.Name) {
			tell("%s is of the machine where the files of the stack are, and nothing of that is mounted here: copy it to this host, and name the copy with --map-volume %s=/PATH", v.HostPath, v.Name)
		}
	}
	for _, c := range m.task.Containers {
		for _, f := range c.EnvironmentFiles {
			if below(f.Path) {
				tell("the file of variables %s is not on the machine where the files of the stack are", f.Path)
			}
		}
		for _, s := range c.Secrets {
			for _, v := range s.Values() {
				if path, is := strings.CutPrefix(v.Source, "file:"); is && below(path) {
					tell("the file %s of a secret is not on the machine where the files of the stack are", path)
				}
			}
		}
	}
	return errs
}
