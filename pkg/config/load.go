package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
	"github.com/xrash/smetrics"
)

// Settings is a Config and where each value of it comes from.
type Settings struct {
	Config
	// Files are those that were read, in the order in which later ones win.
	Files  []string
	origin map[string]string
}

// Origin says where the value of a key comes from: default, FILE:LINE, the name of an
// environment variable, or --flag.
func (s *Settings) Origin(key string) string {
	if o := s.origin[key]; o != "" {
		return o
	}
	return "default"
}

// Getenv returns a getenv in which the variables of keys have the values that the keys
// were given, wherever that was; others are as getenv has them. It is for code that
// reads variables itself.
func (s *Settings) Getenv(getenv func(string) string) func(string) string {
	given := map[string]string{}
	for _, k := range keys {
		if s.origin[k.Name] != "" {
			given[k.Env()] = k.Of(s.Config)
		}
	}
	return func(name string) string {
		if value, ok := given[name]; ok {
			return value
		}
		return getenv(name)
	}
}

// FlagArgs are the flags of every command that were given on this one's line, for a
// process that is to be configured alike.
func (s *Settings) FlagArgs() []string {
	var args []string
	for _, k := range keys {
		if k.Verb == "" && s.origin[k.Name] == "--"+k.Name {
			args = append(args, "--"+k.Name+"="+k.Of(s.Config))
		}
	}
	return args
}

// SetFlag takes a value from the command line.
func (s *Settings) SetFlag(name, value string) error {
	k, found, _ := find(name)
	if !found {
		return fmt.Errorf("there is no key %q", name)
	}
	if err := k.Set(&s.Config, value); err != nil {
		return fmt.Errorf("--%s %s", name, strings.TrimPrefix(err.Error(), "it "))
	}
	s.origin[name] = "--" + name
	return nil
}

// Problem is something wrong with a file or a variable.
type Problem struct {
	// File and Line, from 1, are empty and 0 for a variable; Line is 0 for the whole file.
	File string
	Line int
	// Key is the key or the variable; empty for the whole file.
	Key     string
	Message string
}

// String is place, key and message, as compilers print it.
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
	lines := []string{"the configuration is not valid:"}
	for _, p := range e.Problems {
		lines = append(lines, "  "+p.String())
	}
	return strings.Join(lines, "\n")
}

// Source is where Load reads.
type Source struct {
	Getenv func(string) string
	// Root is "/" but in tests.
	Root string
}

// Load reads the files and the environment. The error is an *InvalidError with all
// problems of them.
func Load(src Source) (*Settings, error) {
	s := &Settings{origin: map[string]string{}}
	for _, k := range keys {
		*k.field(&s.Config) = k.Default
	}
	var problems []Problem
	for _, dir := range src.dirs() {
		files, err := filesIn(dir)
		if err != nil {
			problems = append(problems, Problem{File: dir, Message: reason(err)})
		}
		for _, name := range files {
			problems = append(problems, s.readFile(name)...)
		}
	}
	for _, k := range keys {
		value := src.Getenv(k.Env())
		if value == "" {
			continue
		}
		if err := k.Set(&s.Config, value); err != nil {
			problems = append(problems, Problem{Key: k.Env(), Message: err.Error()})
			continue
		}
		s.origin[k.Name] = k.Env()
	}
	if len(problems) > 0 {
		return nil, &InvalidError{problems}
	}
	return s, nil
}

// dirs are where configuration lies, later ones winning.
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

// maxText bounds a configuration file in bytes: all keys there are take some
// hundred.
const maxText = 64 << 10

// readText reads a file, of a huge one no more than tells that it is too long.
func readText(name string) ([]byte, error) {
	f, err := os.Open(name)
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
	entries, bad := parse(text)
	var problems []Problem
	for _, p := range bad {
		p.File = name
		problems = append(problems, p)
	}
	for _, e := range entries {
		if err := s.setEntry(e); err != nil {
			problems = append(problems, Problem{File: name, Line: e.line, Key: e.key, Message: err.Error()})
			continue
		}
		s.origin[e.key] = name + ":" + strconv.Itoa(e.line)
	}
	return problems
}

func (s *Settings) setEntry(e entry) error {
	k, found, like := find(e.key)
	switch {
	case !found && like != "":
		return fmt.Errorf("there is no such key; did you mean %s?", like)
	case !found:
		return errors.New("there is no such key; `podtask config` lists them")
	case !e.scalar:
		return errors.New("it takes a text, a number or true or false, not a list or a table")
	}
	return k.Set(&s.Config, e.value)
}

// entry is one key of a file.
type entry struct {
	key, value string
	scalar     bool
	line       int
}

// parse reads TOML. Keys in tables are named TABLE.KEY; podtask has none of those.
func parse(text []byte) ([]entry, []Problem) {
	if len(text) > maxText {
		return nil, []Problem{{Message: fmt.Sprintf("the file has more than %d bytes", maxText)}}
	}
	var values map[string]any
	if err := toml.Unmarshal(text, &values); err != nil {
		var syntax *toml.DecodeError
		if errors.As(err, &syntax) {
			row, _ := syntax.Position()
			return nil, []Problem{{Line: row, Message: strings.TrimPrefix(syntax.Error(), "toml: ")}}
		}
		return nil, []Problem{{Message: strings.TrimPrefix(err.Error(), "toml: ")}}
	}
	var entries []entry
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
			entries = append(entries, entry{key: name, line: line})
		case unstable.KeyValue:
			if table == "" {
				value, scalar := scalarAt(values, path)
				entries = append(entries, entry{key: name, value: value, scalar: scalar, line: line})
			}
		}
	}
	return entries, nil
}

// scalarAt is the value at a path as text, if it is a single one.
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

// reason leaves the path out of an error about a file, which is named already.
func reason(err error) string {
	var bad *fs.PathError
	if errors.As(err, &bad) {
		return bad.Err.Error()
	}
	return err.Error()
}

func loopback(value string) error {
	host, port, err := net.SplitHostPort(value)
	if err != nil {
		return fmt.Errorf("%q: %w", value, errLoopback)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	ip := net.ParseIP(host)
	if err != nil || n == 0 && port != "0" || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("%q: %w", value, errLoopback)
	}
	return nil
}

// closest returns the candidate that a word most likely is a misspelling of; empty
// when none has two thirds of its letters.
func closest(word string, candidates []string) string {
	best, bound := "", max(1, len(word)/3)+1
	word = strings.ToLower(strings.ReplaceAll(word, "_", "-"))
	for _, c := range slices.Sorted(slices.Values(candidates)) {
		if diff := len(c) - len(word); len(word) > 64 || diff >= bound || -diff >= bound {
			continue
		}
		if d := smetrics.WagnerFischer(word, c, 1, 1, 1); d < bound {
			best, bound = c, d
		}
	}
	return best
}
