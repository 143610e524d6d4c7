package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
	"github.com/podtask/podtask/internal/userfile"
	"github.com/podtask/podtask/pkg/taskdef/refs"
	"github.com/podtask/podtask/pkg/taskdef/suggest"
	"github.com/podtask/podtask/pkg/taskdef/unrendered"
)

// Problem is a mistake in a file or a variable.
type Problem struct {
	// File and Line, from 1, are empty and 0 for a variable; Line is 0 for the whole file.
	File string
	Line int
	// Key is the key or the variable; empty for the whole file.
	Key     string
	Message string
}

// String returns place, key and message in the form of a compiler's message.
func (p Problem) String() string {
	var words []string
	switch {
	case p.Line > 0:
		words = append(words, p.File+":"+strconv.Itoa(p.Line))
	case p.File != "":
		words = append(words, p.File)
	}
	if p.Key != "" {
		words = append(words, p.Key)
	}
	return strings.Join(append(words, p.Message), ": ")
}

// InvalidError holds all problems of a configuration.
type InvalidError struct{ Problems []Problem }

// Error lists the problems, one a line.
func (e *InvalidError) Error() string {
	lines := []string{"invalid configuration:"}
	for _, p := range e.Problems {
		lines = append(lines, "  "+p.String())
	}
	return strings.Join(lines, "\n")
}

// Source says where Load reads.
type Source struct {
	Getenv func(string) string
	// Root is the root directory; empty means "/".
	Root string
}

// Load reads the files and the environment. The error is an *InvalidError with all
// problems.
func Load(src Source) (*Settings, error) {
	s := Default()
	s.References.from = &src
	files, problems := src.files()
	for _, name := range files {
		problems = append(problems, s.readFile(name)...)
	}
	return s, invalid(append(problems, s.readEnv(src.Getenv)...))
}

// FromEnvironment returns the defaults as the environment alone changes them. The error
// is an *InvalidError with all problems.
func FromEnvironment(getenv func(string) string) (*Settings, error) {
	s := Default()
	return s, invalid(s.readEnv(getenv))
}

func (s *Settings) readEnv(getenv func(string) string) (problems []Problem) {
	for _, k := range keys {
		if v := getenv(k.Env()); v != "" {
			if err := s.set(k, v, k.Env()); err != nil {
				problems = append(problems, Problem{Key: k.Env(), Message: err.Error()})
			}
		}
		if glued := "PODTASK_" + strings.ToUpper(strings.ReplaceAll(k.Name, "-", "")); glued != k.Env() && getenv(glued) != "" {
			problems = append(problems, Problem{Key: glued, Message: "unknown variable; " + suggest.Ask(k.Env())})
		}
	}
	return problems
}

func invalid(problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	return &InvalidError{problems}
}

// dirs returns the directories of configuration files; later ones override earlier ones.
func (src Source) dirs() []string {
	dirs := []string{filepath.Join(src.Root, "/etc/podtask")}
	if base := src.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(base) {
		return append(dirs, filepath.Join(base, "podtask"))
	}
	if home := src.Getenv("HOME"); filepath.IsAbs(home) {
		return append(dirs, filepath.Join(home, ".config", "podtask"))
	}
	return dirs
}

// files returns the files of all directories in the order in which they are read, and a problem for each directory
// that cannot be read.
func (src Source) files() (files []string, problems []Problem) {
	for _, dir := range src.dirs() {
		found, err := filesIn(dir)
		if err != nil {
			problems = append(problems, Problem{File: dir, Message: reason(err)})
		}
		files = append(files, found...)
	}
	return files, problems
}

// filesIn lists the file of a directory and its drop-ins.
func filesIn(dir string) (files []string, err error) {
	main := filepath.Join(dir, "podtask.toml")
	if _, err := os.Stat(main); err == nil {
		files = append(files, main)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	entries, err := os.ReadDir(main + ".d")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return files, err
	}
	for _, e := range entries { // sorted by name
		if filepath.Ext(e.Name()) == ".toml" && !strings.HasPrefix(e.Name(), ".") {
			files = append(files, filepath.Join(main+".d", e.Name()))
		}
	}
	return files, nil
}

// maxText is the maximum size of a configuration file in bytes: all keys together need a few
// hundred, a table of references about 100 a rule.
const maxText = 256 << 10

// readText reads a file, of one that is too long only maxText+1 bytes.
func readText(name string) ([]byte, error) {
	f, err := userfile.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxText+1))
}

func (s *Settings) readFile(name string) []Problem {
	text, err := readText(name)
	if err != nil {
		return []Problem{{File: name, Message: reason(err)}}
	}
	s.Files = append(s.Files, name)
	entries, table, bad := parse(text, name)
	s.References.Table = slices.Concat(table, s.References.Table)
	var problems []Problem
	for _, p := range bad {
		p.File = name
		problems = append(problems, p)
	}
	for _, e := range entries {
		if err := s.setEntry(e, name+":"+strconv.Itoa(e.line)); err != nil {
			problems = append(problems, Problem{File: name, Line: e.line, Key: e.key, Message: err.Error()})
		}
	}
	return problems
}

func (s *Settings) setEntry(e entry, origin string) error {
	if e.key == referenceTable || isPartTable(e.key) {
		return errors.New("write it as [[" + e.key + "]], once for each rule")
	}
	if name, member, ok := strings.Cut(e.key, "."); ok && isPartTable(name) {
		return errors.New("[[" + name + "]] has no tables: write " + member + " as KEY = VALUE")
	}
	if is, err := checkProgram(e); is {
		return err
	}
	k, found := find(e.key)
	if !found {
		if question := suggest.Question(e.key, names()); question != "" {
			return errors.New("unknown key; " + question)
		}
		return errors.New("unknown key; `podtask config` lists all keys")
	}
	if !e.scalar {
		return errors.New("must be a string, a number or a boolean, not a list or a table")
	}
	return s.set(k, e.value, origin)
}

// entry is one key of a file.
type entry struct {
	key, value string
	scalar     bool
	line       int
}

// parse reads the TOML of a file. A key in a table is named TABLE.KEY; podtask has no such
// keys, but the tables [[reference]] and those of other programs.
func parse(text []byte, file string) ([]entry, refs.Table, []Problem) {
	if len(text) > maxText {
		return nil, nil, []Problem{{Message: fmt.Sprintf("the file has more than %d bytes", maxText)}}
	}
	var values map[string]any
	if err := toml.Unmarshal(text, &values); err != nil {
		if tag, found := unrendered.Find(text); found {
			return nil, nil, []Problem{{Line: tag.Line, Message: fmt.Sprintf("%q is a tag of a template that was not rendered: %s", tag.Tag, unrendered.Fix)}}
		}
		if syntax, ok := errors.AsType[*toml.DecodeError](err); ok {
			row, _ := syntax.Position()
			return nil, nil, []Problem{{Line: row, Message: "not valid TOML (" + strings.TrimPrefix(syntax.Error(), "toml: ") + "): a line is KEY = VALUE, with text in double quotes"}}
		}
		return nil, nil, []Problem{{Message: strings.TrimPrefix(err.Error(), "toml: ")}}
	}
	var entries []entry
	var rules []int // lines
	var p unstable.Parser
	p.Reset(text)
	table, line, seen := "", 1, 0 // up to seen, the lines are counted
	for p.NextExpression() {
		node := p.Expression()
		var path []string
		var at unstable.Range
		for it := node.Key(); it.Next(); {
			path = append(path, string(it.Node().Data))
			at = it.Node().Raw
		}
		name := strings.Join(path, ".")
		for ; seen < int(at.Offset); seen++ {
			if text[seen] == '\n' {
				line++
			}
		}
		switch node.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = name + "."
			if node.Kind == unstable.ArrayTable && name == referenceTable {
				rules = append(rules, line)
				continue
			}
			if node.Kind == unstable.Table && isProgramTable(name) || node.Kind == unstable.ArrayTable && isPartTable(name) {
				continue
			}
			entries = append(entries, entry{key: name, line: line})
		case unstable.KeyValue:
			if list, _ := values[referenceTable].([]any); table == "" && name == referenceTable && len(list) > 0 {
				rules = slices.Repeat([]int{line}, len(list))
			} else if table == "" || isProgramTable(strings.TrimSuffix(table, ".")) {
				value, scalar := scalarAt(values, append(strings.FieldsFunc(table, func(r rune) bool { return r == '.' }), path...))
				entries = append(entries, entry{key: table + name, value: value, scalar: scalar, line: line})
			}
		}
	}
	known, problems := rulesOf(values, rules, file)
	return entries, known, problems
}

// scalarAt returns the value at a path as text, if it is a scalar.
func scalarAt(values map[string]any, path []string) (text string, scalar bool) {
	var at any = values
	for _, name := range path {
		m, _ := at.(map[string]any)
		at = m[name]
	}
	switch v := at.(type) {
	case string:
		return v, true
	case bool, int64, float64:
		return fmt.Sprint(v), true
	}
	return "", false
}

// reason returns an error about a file without its path, which the caller names.
func reason(err error) string {
	if bad, ok := errors.AsType[*fs.PathError](err); ok {
		return bad.Err.Error()
	}
	return err.Error()
}
