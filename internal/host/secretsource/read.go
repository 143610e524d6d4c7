package secretsource

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/podtask/podtask/internal/host/procgroup"
	"github.com/podtask/podtask/internal/lazy"
)

const (
	// maxSize is the most a secret may hold, in bytes: Podman's own limit.
	maxSize = 512000
	// DefaultTimeout bounds a program.
	DefaultTimeout = 30 * time.Second
	// maxMessages bounds the kept part of a program's stderr, and maxShown the part of its end that is shown, in bytes.
	maxMessages, maxShown = 8 << 10, 400
)

// Reader reads secrets. It keeps nothing and is safe for concurrent use if its
// functions are.
type Reader struct {
	// Getenv reads the environment; os.Getenv outside of tests.
	Getenv func(string) string
	// Podman returns the value of a Podman secret; nil if Podman is not available.
	Podman func(ctx context.Context, name string) ([]byte, error)
	// AWS returns what AWS holds under the name of a source; nil if it is not available.
	AWS AWS
	// Asked is passed to a program in variables.
	Asked Asked
	// Timeout bounds a program; 0 means DefaultTimeout.
	Timeout time.Duration
	// Public: files may be readable by others. It is for content that is not a secret.
	Public bool
}

// AWS reads a value from AWS. Errors contain no value; an *Error says whether it may pass.
type AWS func(ctx context.Context, name string, a Asked) ([]byte, error)

// Asked describes the use of a value. A program finds it in the variables PODTASK_REFERENCE, PODTASK_VERSION_STAGE,
// PODTASK_VERSION_ID, PODTASK_TASK_ID, PODTASK_TASK_FAMILY, PODTASK_TASK_ROLE_ARN and PODTASK_EXECUTION_ROLE_ARN, which
// are empty where there is no such thing.
type Asked struct {
	// Reference is the ARN or the name of a parameter.
	Reference               string
	VersionStage, VersionID string
	TaskID, Family          string
	TaskRole, ExecutionRole string
}

func (a Asked) variables() []string {
	return []string{
		"PODTASK_REFERENCE=" + a.Reference, "PODTASK_VERSION_STAGE=" + a.VersionStage, "PODTASK_VERSION_ID=" + a.VersionID,
		"PODTASK_TASK_ID=" + a.TaskID, "PODTASK_TASK_FAMILY=" + a.Family,
		"PODTASK_TASK_ROLE_ARN=" + a.TaskRole, "PODTASK_EXECUTION_ROLE_ARN=" + a.ExecutionRole,
	}
}

// Read reads the secret. One newline at the end of a file, a credential and a program's
// output is not part of the value, because editors and echo add it; Value.File has it. An
// empty secret is an error. The error is an *Error.
//
// A file must be a regular file of the user or root that only its owner can read; in a tree
// it is enough that only the owner of the tree can enter it. If a program fails without any
// output, the end of its stderr is in the error; if it wrote output, stderr might quote it and
// is discarded.
func (r Reader) Read(ctx context.Context, s Source) (Value, error) {
	b, err := r.read(ctx, s)
	v := Value{b: b}
	if s.Kind.text() {
		v.end = len(b) - len(trim(b))
	}
	if err == nil && len(v.Bytes()) == 0 {
		err = &Error{Message: "it is empty", Hint: "write the secret to it"}
	}
	if err != nil {
		v.Clear()
		return Value{}, named(ctx, s, err)
	}
	return v, nil
}

// named adds the source to an error.
func named(ctx context.Context, s Source, err error) error {
	if end := ctx.Err(); end != nil {
		return &Error{Source: s.String(), Message: "canceled before it was read", Cause: end}
	}
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Message: err.Error(), Cause: err}
	}
	e.Source = s.String()
	return e
}

func (r Reader) read(ctx context.Context, s Source) ([]byte, error) {
	switch s.Kind {
	case File:
		return r.readFile(s.Name, true)
	case Tree:
		return r.readTree(s)
	case Credential:
		dir := r.Getenv("CREDENTIALS_DIRECTORY")
		if dir == "" {
			return nil, &Error{Message: "CREDENTIALS_DIRECTORY is not set: this process is not a systemd service with credentials", Hint: "add LoadCredential= or SetCredential= to the unit"}
		}
		// systemd keeps the directory private; the group bits of a file come from an ACL.
		return r.readFile(filepath.Join(dir, s.Name), false)
	case Env:
		value := r.Getenv(s.Name)
		if value == "" {
			return nil, &Error{Message: "the variable is not set or is empty", Hint: "export it to podtask"}
		}
		return []byte(value), nil
	case Command:
		return r.runProgram(ctx, s)
	case Amazon:
		if r.AWS == nil {
			return nil, &Error{Message: "AWS is not available here"}
		}
		return r.AWS(ctx, s.Name, r.Asked)
	case Podman:
		if r.Podman == nil {
			return nil, &Error{Message: "Podman is not available"}
		}
		return r.Podman(ctx, s.Name)
	default:
		return nil, &Error{Message: "this source was not created by Parse"}
	}
}

// readTree reads a file below the root of a tree; no symbolic link leads out of it. The name
// of a secret of Secrets Manager counts with its six random characters and without.
func (r Reader) readTree(s Source) ([]byte, error) {
	root, err := os.OpenRoot(s.Root)
	if err != nil {
		return nil, fileError(err)
	}
	defer root.Close()
	private := true
	if info, err := root.Stat("."); err == nil && checkPrivate(s.Root, info) == nil {
		private = false // other users cannot enter it
	}
	var first error
	for _, name := range treeNames(s.Name) {
		f, err := root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			return r.readOpen(f, private)
		}
		if first == nil {
			first = err
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	e := &Error{Message: "it cannot be read: " + first.Error(), Cause: first}
	if errors.Is(first, fs.ErrNotExist) {
		e.Message, e.Hint = "there is no such file in the tree", "write the value to "+filepath.Join(s.Root, s.Name)
	}
	return nil, e
}

// randomEnd matches what AWS adds to the name of a secret, before a stage or a version.
var randomEnd = lazy.MustCompile(`-[A-Za-z0-9]{6}(@.*)?$`)

func treeNames(name string) []string {
	if short := randomEnd.ReplaceAllString(name, "$1"); short != name && strings.HasPrefix(name, "secretsmanager/") {
		return []string{name, short}
	}
	return []string{name}
}

func (r Reader) readFile(path string, private bool) ([]byte, error) {
	// Opening a named pipe would block.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fileError(err)
	}
	return r.readOpen(f, private)
}

// readOpen reads a file and closes it.
func (r Reader) readOpen(f *os.File, private bool) ([]byte, error) {
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fileError(err)
	}
	if !info.Mode().IsRegular() {
		return nil, &Error{Message: "it is not a regular file"}
	}
	if private && !r.Public {
		if err := checkPrivate(f.Name(), info); err != nil {
			return nil, err
		}
	}
	b, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return b, fileError(err)
	}
	return b, checkSize(b)
}

// checkPrivate rejects a file that other users can read or could have created.
func checkPrivate(path string, info fs.FileInfo) error {
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return &Error{Message: fmt.Sprintf("other users can read or write it (mode %04o)", mode), Hint: "run: chmod 600 " + path}
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() && st.Uid != 0 {
		return &Error{Message: fmt.Sprintf("it belongs to user %d", st.Uid), Hint: "use a file that you own"}
	}
	return nil
}

func fileError(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err // the path is in the source already
	}
	return &Error{Message: "it cannot be read: " + err.Error(), Cause: err}
}

// checkSize rejects a value that is too long.
func checkSize(b []byte) error {
	if len(b) > maxSize {
		return &Error{Message: fmt.Sprintf("it is longer than %d bytes", maxSize)}
	}
	return nil
}

// text reports whether the values of a kind are written by editors and programs, which end
// them with a newline.
func (k Kind) text() bool { return k == File || k == Tree || k == Credential || k == Command }

// trim removes one newline at the end.
func trim(b []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(b, []byte("\n")), []byte("\r"))
}

// runProgram runs the program in its own process group, so that its child processes are
// killed with it.
func (r Reader) runProgram(ctx context.Context, s Source) ([]byte, error) {
	limit := cmp.Or(r.Timeout, DefaultTimeout)
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(limited, s.Name, s.Args...)
	cmd.WaitDelay = time.Second
	cmd.Env = append(cmd.Environ(), r.Asked.variables()...)
	out, messages := &bounded{room: maxSize + 1}, &bounded{room: maxMessages}
	cmd.Stdout, cmd.Stderr = out, messages
	err := procgroup.Run(cmd)
	if err == nil {
		return out.b, checkSize(out.b)
	}
	failed := &Error{Hint: "run it yourself: its messages are not shown here, because they may contain the secret"}
	if said := lastWords(messages.b); len(out.b) == 0 {
		failed.Hint = ""
		if said != "" {
			failed.Hint = "it says: " + said
		}
	}
	var exit *exec.ExitError
	switch {
	case limited.Err() != nil:
		failed.Message, failed.Transient = fmt.Sprintf("the program took longer than %v", limit), true
	case errors.As(err, &exit):
		failed.Message, failed.Transient = "the program failed: "+exit.String(), true
	default:
		if p, ok := errors.AsType[*fs.PathError](err); ok {
			err = p.Err
		}
		failed.Message, failed.Hint = "the program cannot be run: "+err.Error(), ""
	}
	return out.b, failed
}

// lastWords is the end of what a program wrote, as one line of printable text.
func lastWords(b []byte) string {
	text := strings.Join(strings.FieldsFunc(strings.ToValidUTF8(string(b), "?"), func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
	if len(text) > maxShown {
		text = "..." + strings.ToValidUTF8(text[len(text)-maxShown:], "")
	}
	return text
}

// bounded keeps the first bytes that are written to it, as many as there is room for.
type bounded struct {
	b    []byte
	room int
}

func (w *bounded) Write(p []byte) (int, error) {
	n := min(w.room, len(p))
	w.b = append(w.b, p[:n]...)
	w.room -= n
	return len(p), nil
}
