package secretsource

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/transient"
)

// Kind is a kind of place for secrets.
type Kind string

// The kinds, by the word that a Source is written with.
const (
	File       Kind = "file"       // file:/PATH, readable only by its owner
	Env        Kind = "env"        // env:NAME, a variable of podtask's own environment
	Command    Kind = "command"    // command:/PROGRAM ARGUMENT..., what it writes to stdout
	Credential Kind = "credential" // credential:NAME, a file in $CREDENTIALS_DIRECTORY (systemd.exec(5))
	Podman     Kind = "podman"     // podman:NAME, a secret of `podman secret create`
	Tree       Kind = "tree"       // tree:/DIRECTORY:NAME, a file of a directory that mirrors names
	Amazon     Kind = "aws"        // aws:NAME, an ARN or the name of a parameter, on AWS itself
)

// SentVariable begins the names of variables in which podtask sends the value of a secret in a file of this machine to another
// host. No other program sets such a variable.
const SentVariable = "PODTASK_SENT_"

// Source is the place of a secret. The zero Source is not valid; use Parse. It contains no secret.
type Source struct {
	Kind Kind
	// Name is the path, the variable's name, the program, the secret's name, or the clean
	// relative path in a tree.
	Name string
	// Root is the directory of a tree.
	Root string
	// Args are a program's arguments.
	Args []string
}

var (
	envName = lazy.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	// Podman (4.8 and later) refuses only the characters , / = and NUL in the
	// name of a secret; blanks and colons would not survive here.
	podmanName = lazy.MustCompile(`^[^\s,/=:\x00]+$`)
)

// maxSource limits the text of a source in bytes: a path has at most 4096, a command may
// have arguments.
const maxSource = 64 << 10

// IsFile reports whether a text, which Parse accepts, names a file: reading it again costs nothing.
func IsFile(text string) bool {
	s, err := Parse(text)
	return err == nil && (s.Kind == File || s.Kind == Tree)
}

// Parse reads KIND:NAME. A bare absolute path is a file and a bare name is a
// secret of Podman. The arguments of a command are separated by blanks, without a shell
// and without quotes, or are a JSON list of strings. The error is an *Error.
func Parse(text string) (Source, error) {
	if len(text) > maxSource {
		return Source{}, &Error{Source: "?", Message: fmt.Sprintf("the text has %d bytes, more than %d", len(text), maxSource), Hint: howToWrite}
	}
	kind, name, named := strings.Cut(text, ":")
	switch {
	case filepath.IsAbs(text):
		kind, name = string(File), text
	case !named:
		kind, name = string(Podman), text
	}
	if strings.ContainsFunc(text, isControl) {
		return Source{}, &Error{Source: "?", Message: "the text contains a control character", Hint: howToWrite}
	}
	s := Source{Kind: Kind(kind), Name: name}
	problem := ""
	switch s.Kind {
	case File:
		problem = s.wantPath()
	case Command:
		problem = s.setCommand(name)
	case Tree:
		s.Root, s.Name, _ = strings.Cut(name, ":")
		if !filepath.IsAbs(s.Root) || !fs.ValidPath(s.Name) || s.Name == "." {
			problem = "a tree is an absolute path without a colon, with a colon and a relative path behind it"
		}
	case Amazon:
		if name == "" || strings.ContainsFunc(name, unicode.IsSpace) {
			problem = "aws: stands before an ARN or the name of a parameter"
		}
	case Env:
		if !envName.MatchString(name) {
			problem = "the name of a variable consists of letters, digits and underscores"
		}
	case Credential:
		if name == "" || name == "." || name == ".." || strings.Contains(name, "/") {
			problem = "the name of a credential is a file name without a slash"
		}
	case Podman:
		if utf8.RuneCountInString(name) > 253 || !podmanName.MatchString(name) {
			problem = "this is not a valid name of a Podman secret"
		}
	default:
		problem = "there is no kind " + strings.TrimSpace(kind)
	}
	if problem != "" {
		return Source{}, &Error{Source: text, Message: problem, Hint: howToWrite}
	}
	return s, nil
}

const howToWrite = "write file:/PATH, env:NAME, command:/PROGRAM ARGUMENT..., credential:NAME, podman:NAME, tree:/DIRECTORY:NAME or aws:NAME"

// setCommand sets program and arguments, and returns what is wrong with them.
func (s *Source) setCommand(line string) string {
	words := strings.Fields(line)
	if strings.HasPrefix(line, "[") {
		words = nil
		if json.Unmarshal([]byte(line), &words) != nil {
			return "the command begins with [ and is not a JSON list of strings"
		}
	}
	s.Name, s.Args = "", nil
	if len(words) > 0 {
		s.Name, s.Args = words[0], words[1:]
	}
	if slices.ContainsFunc(words, func(w string) bool { return strings.ContainsFunc(w, isControl) }) {
		return "an argument contains a control character"
	}
	return s.wantPath()
}

// CommandText writes a program and its arguments as a source, for Parse.
func CommandText(argv []string) string {
	plain := func(w string) bool { return w != "" && !strings.ContainsFunc(w, unicode.IsSpace) }
	if !slices.ContainsFunc(argv, func(w string) bool { return !plain(w) }) {
		return string(Command) + ":" + strings.Join(argv, " ")
	}
	list, _ := json.Marshal(argv) // a list of strings
	return string(Command) + ":" + string(list)
}

// wantPath returns what is wrong with a name that must be an absolute path, because
// podtask may read it in a process with another working directory.
func (s Source) wantPath() string {
	if !filepath.IsAbs(s.Name) {
		return "the path is not absolute"
	}
	return ""
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// String writes the source as Parse reads it.
func (s Source) String() string {
	switch s.Kind {
	case Command:
		return CommandText(append([]string{s.Name}, s.Args...))
	case Tree:
		return string(Tree) + ":" + s.Root + ":" + s.Name
	}
	return string(s.Kind) + ":" + s.Name
}

// Error reports an invalid source, or a secret that cannot be read. It never contains the secret.
type Error struct {
	Source  string
	Message string
	Hint    string // what to do; may be empty
	// Transient: the same call may succeed later without any change.
	Transient bool
	// Cause is a failure of Podman or of the context; may be nil.
	Cause error
}

// Is reports, for transient.Err, whether the same call may succeed later.
func (e *Error) Is(target error) bool { return e.Transient && target == transient.Err }

// Error is one line: source, message, hint.
func (e *Error) Error() string {
	text := "secret " + e.Source + ": " + e.Message
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

// Unwrap returns Cause.
func (e *Error) Unwrap() error { return e.Cause }
