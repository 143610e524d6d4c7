package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/part"
	"github.com/podtask/podtask/internal/define/envfile"
	"github.com/podtask/podtask/internal/define/short"
	"github.com/podtask/podtask/internal/host/secretsource"
	"github.com/podtask/podtask/internal/unitfile/taskunit"
	"go.yaml.in/yaml/v3"
)

// anyArgument: each argument of a command may be a document.
const anyArgument = -1

// sendDefinition returns a prepare for a command that reads a definition: the document, what it and the
// flags read from files, and the variables that they name are of this machine. Argument at is the document.
func sendDefinition(at int) func(*remoteCall) error {
	return func(r *remoteCall) error {
		if err := r.sendVariables(); err != nil {
			return err
		}
		locked := false
		for i, f := range r.line.local {
			value, err := r.sendFlag(f)
			if err != nil {
				return fmt.Errorf("--%s: %w", f.name, err)
			}
			r.line.local[i].value = value
			locked = locked || f.name == "locked" && f.value == "true"
		}
		for i, arg := range r.line.args {
			if at != anyArgument && at != i {
				continue
			}
			name, err := r.sendDocument(arg)
			if err != nil {
				return err
			}
			if locked {
				if _, err := r.sendFile(command.LockPathOf(arg)); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return err
				}
			}
			r.line.args[i] = name
		}
		return nil
	}
}

// generateOnHost refuses a file of this machine: what runs on the host, and is registered there, is written there.
func generateOnHost(r *remoteCall) error {
	if len(r.line.args) < 2 {
		return nil
	}
	if _, err := os.Stat(r.line.args[1]); err == nil || r.line.args[1] == "-" {
		return r.refusal(r.line.args[1] + " is of this machine, and files of it are written here: leave the host out")
	}
	return nil
}

// planOnHost sends the definition, and says what is of which machine.
func planOnHost(r *remoteCall) error {
	if err := sendDefinition(0)(r); err != nil {
		return err
	}
	if len(r.sent) > 0 {
		fmt.Fprintf(r.p.Stderr, "from this machine: %s\n", strings.Join(r.sent, ", "))
	}
	fmt.Fprintf(r.p.Stderr, "of %s: images, volumes and mounts, Podman secrets, references and all settings\n", r.host)
	return nil
}

// sendRead returns a prepare for a command of a part that reads files of this machine itself.
func sendRead(sender func(p *command.Program, path string) part.Sender) func(*remoteCall) error {
	return func(r *remoteCall) error {
		args, input, err := sender(r.p, r.name())(r.ctx, lineParts{local: r.line.local}.words(), r.line.args)
		if r.line.args = args; input != nil {
			r.stdin = bytes.NewReader(input)
		}
		return err
	}
}

func sendVariables(r *remoteCall) error { return r.sendVariables() }

// sendVariables sends the variables that flags name without a value.
func (r *remoteCall) sendVariables() error {
	for _, f := range r.line.local {
		if f.name != "env" && f.name != "var" || strings.Contains(f.value, "=") {
			continue
		}
		r.sendVariable(f.value)
	}
	return nil
}

func (r *remoteCall) sendVariable(name string) {
	for _, e := range r.p.Environ() {
		if n, value, _ := strings.Cut(e, "="); n == name {
			r.caller[name] = value
			return
		}
	}
}

// sendFlag sends what the value of a flag names, and returns the value for the host.
func (r *remoteCall) sendFlag(f lineFlag) (value string, err error) {
	switch f.name {
	case "override":
		return r.sendDocument(f.value)
	case "env-file":
		return r.sendEnvFile(f.value)
	case "locked":
		if f.value == "true" || f.value == "false" {
			return f.value, nil
		}
		return r.sendFile(f.value)
	case "map-volume", "map-log-config":
		key, source, _ := strings.Cut(f.value, "=")
		kind, rest, found := strings.Cut(source, ":")
		if found && slices.Contains([]string{"podman", "tree", "command"}, kind) {
			return f.value, nil
		}
		if !found || kind != "file" {
			rest = source
		}
		if !filepath.IsAbs(rest) {
			return "", fmt.Errorf("%s: the path is one of %s: write an absolute one", key, r.host)
		}
		return f.value, nil
	case "map-env-file":
		key, source, ok := strings.Cut(f.value, "=")
		kind, rest, found := strings.Cut(source, ":")
		if !ok || found && slices.Contains([]string{"podman", "tree", "command"}, kind) {
			return f.value, nil
		}
		if !found || kind != "file" {
			rest = source
		}
		path, err := r.sendEnvFile(rest)
		return key + "=file:" + path, err
	case "map-secret":
		key, source, _ := strings.Cut(f.value, "=")
		source, err := r.sendSecret(r.dir, source, false)
		return key + "=" + source, err
	}
	return f.value, nil
}

// sendFile sends a file and returns its name on the host. Below the working directory it has the same name, so
// that messages are as here.
func (r *remoteCall) sendFile(name string) (string, error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(path); err != nil {
		return "", err
	} else if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is no regular file", name)
	}
	r.files[path] = nil
	r.sent = append(r.sent, name)
	return r.nameThere(name, path), nil
}

func (r *remoteCall) nameThere(name, path string) string {
	if filepath.IsAbs(name) {
		return r.base + path
	}
	return name
}

// sendEnvFile sends a file of variables, and the variables that it takes from here.
func (r *remoteCall) sendEnvFile(name string) (string, error) {
	text, err := command.ReadSmall(name)
	if err != nil {
		return "", err
	}
	err = envfile.Lines(bytes.NewReader(text), func(line string) error {
		if line = strings.TrimLeft(line, " \t"); !strings.Contains(line, "=") {
			r.sendVariable(line)
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return r.sendFile(name)
}

// sendDocument sends a document with what it reads from files here. A name that is no file is that of a
// registered definition of the host.
func (r *remoteCall) sendDocument(name string) (string, error) {
	if name == "-" && r.stdin != nil {
		return name, nil
	}
	doc, err := r.p.ReadTask(r.ctx, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return name, nil
	case err != nil:
		return "", err
	}
	text, err := r.sendNamed(doc.Dir, doc.Source)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	if name == "-" {
		r.stdin = bytes.NewReader(text)
		r.sent = append(r.sent, "stdin")
		return name, nil
	}
	path, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	there := r.nameThere(name, path)
	if filepath.Ext(path) == taskunit.Extension { // ReadDocument has taken the definition out of the unit
		path, there = path+".json", there+".json"
	}
	r.files[path] = text
	r.sent = append(r.sent, name)
	return there, nil
}

// sendNamed sends the files and variables that a document names in file: and env: sources and as environment
// files, and returns the document with the names that they have for the host. Lines stay where they are.
func (r *remoteCall) sendNamed(dir string, text []byte) ([]byte, error) {
	lines := bytes.SplitAfter(text, []byte("\n"))
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var doc yaml.Node
		err := d.Decode(&doc)
		if err != nil && !errors.Is(err, io.EOF) && json.Valid(text) {
			// JSON has escapes that the library does not know, such as that of a slash.
			return nil, fmt.Errorf("it cannot be searched for files of this machine: write it without escaped slashes: %w", err)
		}
		if err != nil {
			break // the end, or what podtask reports with all its problems
		}
		if err := r.sendNode(dir, lines, &doc, nil, 0); err != nil {
			return nil, err
		}
	}
	return bytes.Join(lines, nil), nil
}

// maxNesting is deeper than any definition.
const maxNesting = 100

func (r *remoteCall) sendNode(dir string, lines [][]byte, n *yaml.Node, path []string, depth int) error {
	if depth > maxNesting {
		return nil
	}
	switch n.Kind {
	case yaml.MappingNode:
		var errs []error
		for i := 0; i+1 < len(n.Content); i += 2 {
			errs = append(errs, r.sendNode(dir, lines, n.Content[i+1], append(slices.Clone(path), n.Content[i].Value), depth+1))
		}
		return errors.Join(errs...)
	case yaml.DocumentNode, yaml.SequenceNode:
		var errs []error
		for _, c := range n.Content {
			errs = append(errs, r.sendNode(dir, lines, c, path, depth+1))
		}
		return errors.Join(errs...)
	case yaml.ScalarNode:
		return r.sendScalar(dir, lines, n, path)
	}
	return nil
}

// sendScalar sends what one value of a document names.
func (r *remoteCall) sendScalar(dir string, lines [][]byte, n *yaml.Node, path []string) error {
	if len(path) == 0 {
		return nil
	}
	var value string
	var err error
	switch key := path[len(path)-1]; {
	case key == "valueFrom" || key == "credentialsParameter":
		value, err = r.sendSecret(dir, n.Value, slices.Contains(path, "secretFiles"))
	case key == "value" && slices.Contains(path, "environmentFiles") || key == "env_file":
		value, err = r.sendDocumentEnvFile(dir, n.Value)
	case key == "volumes" && short.IsBesideFile(n.Value):
		return fmt.Errorf("line %d: %q mounts a directory of this machine: copy it to %s, and write its whole path there", n.Line, n.Value, r.host)
	default:
		return nil
	}
	if err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	if value == n.Value {
		return nil
	}
	line := lines[n.Line-1]
	at := min(n.Column-1, len(line))
	found := bytes.Index(line[at:], []byte(n.Value))
	if found < 0 {
		return fmt.Errorf("line %d: %q names a file of this machine: write the name without escapes, so that it can be sent", n.Line, n.Value)
	}
	lines[n.Line-1] = slices.Concat(line[:at+found], []byte(value), line[at+found+len(n.Value):])
	return nil
}

// sendDocumentEnvFile sends an environment file of a definition, if it is a file here.
func (r *remoteCall) sendDocumentEnvFile(dir, value string) (string, error) {
	name := strings.TrimPrefix(value, "file://")
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	if strings.HasPrefix(value, "arn:") || strings.Contains(value, "${") {
		return value, nil
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return r.base + path, nil // as for secrets
	}
	if _, err := r.sendEnvFile(path); err != nil {
		return "", fmt.Errorf("the environment file: %w", err)
	}
	if filepath.IsAbs(name) {
		return r.base + path, nil
	}
	return value, nil
}

// sendSecret sends the value of a source file: or env: as a variable. It is there for the start of the
// task, and nowhere else. Whole: the secret is to be a file, with its last newline.
func (r *remoteCall) sendSecret(dir, source string, whole bool) (string, error) {
	kind, name, _ := strings.Cut(source, ":")
	switch kind {
	case "env":
		r.sendVariable(name)
		return source, nil
	case "file":
	default:
		return source, nil
	}
	if strings.Contains(name, "${") {
		return source, nil
	}
	if r.route.later {
		return "", fmt.Errorf("secret %s is a file of this machine, and the tasks start later: store it on %s with `podman secret create NAME -`, and write podman:NAME", source, r.host)
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	parsed, err := secretsource.Parse("file:" + name)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		// It is missing there too, whatever files the host has, and podtask there reports it with all other problems.
		return "file:" + r.base + name, nil
	}
	value, err := secretsource.Reader{Getenv: r.p.Getenv}.Read(context.WithoutCancel(r.ctx), parsed)
	if err != nil {
		return "", err
	}
	defer value.Clear()
	content := value.Bytes()
	if whole {
		content = value.File()
	}
	variable := fmt.Sprintf("%s%d", secretsource.SentVariable, len(r.caller)+1)
	r.caller[variable] = string(content)
	r.sent = append(r.sent, "the secret "+name)
	return "env:" + variable, nil
}

// sendUnits sends units with their drop-ins and the files that they name relative to themselves.
func sendUnits(r *remoteCall) error {
	for i, arg := range r.line.args {
		text, err := command.ReadSmall(arg)
		if err != nil {
			return fmt.Errorf("read the unit: %w", err)
		}
		path, err := filepath.Abs(arg)
		if err != nil {
			return err
		}
		s := taskunit.Source{Name: filepath.Base(path), File: taskunit.Read(path, string(text))}
		dropIns, err := filepath.Glob(globQuote(path) + ".d/*.conf")
		if err != nil {
			return err
		}
		for _, d := range dropIns {
			text, err := command.ReadSmall(d)
			if err != nil {
				return fmt.Errorf("read a drop-in: %w", err)
			}
			s.DropIns = append(s.DropIns, taskunit.Read(d, string(text)))
			r.files[d] = nil
		}
		for _, c := range s.Companions() {
			if file := filepath.Join(filepath.Dir(path), c); !strings.Contains(c, "%") && isFile(file) {
				r.files[file] = nil
			}
		}
		r.files[path] = nil
		r.line.args[i] = r.nameThere(arg, path)
	}
	return nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// globQuote escapes what filepath.Glob would take for a pattern.
func globQuote(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// writeOutputHere returns a prepare for a flag that names a file to write: it is written here.
func writeOutputHere(flag string) func(*remoteCall) error {
	return func(r *remoteCall) error {
		for i, f := range r.line.local {
			if f.name != flag || f.value == "-" {
				continue
			}
			r.stdout = &fileOnWrite{name: f.value}
			r.line.local[i].value = "-"
		}
		return nil
	}
}

// fileOnWrite makes its file when something is written, so that a failure leaves none.
type fileOnWrite struct {
	name string
	f    *os.File
}

// Write implements io.Writer.
func (w *fileOnWrite) Write(p []byte) (n int, err error) {
	if w.f == nil {
		if w.f, err = os.Create(w.name); err != nil {
			return 0, err
		}
	}
	return w.f.Write(p)
}

// Close implements io.Closer.
func (w *fileOnWrite) Close() error {
	if w.f == nil {
		return nil
	}
	return w.f.Close()
}

var _ io.WriteCloser = (*fileOnWrite)(nil)
