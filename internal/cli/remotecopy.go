package cli

import (
	"archive/tar"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/connect/sshhost"
	"github.com/podtask/podtask/internal/term"
)

// runCopy is `podtask cp` between this machine and a container of the host.
func runCopy(r *remoteCall) error {
	if len(r.line.args) != 2 {
		return command.Usagef("cp", "cp takes a SOURCE and a DESTINATION, not %d arguments", len(r.line.args))
	}
	from, to := r.line.args[0], r.line.args[1]
	switch {
	case isInContainer(from) == isInContainer(to):
		return command.Usagef("cp", "one of SOURCE and DESTINATION is TASK:PATH or TASK/CONTAINER:PATH; a path here with a colon begins with ./")
	case isInContainer(from):
		return r.copyOut(from, to)
	}
	return r.copyIn(from)
}

// isInContainer reports whether an argument of cp is TASK:PATH.
func isInContainer(word string) bool {
	ref, _, ok := strings.Cut(word, ":")
	return ok && !strings.HasPrefix(ref, ".") && !strings.HasPrefix(ref, "/")
}

// copyIn sends a file or a directory; podman cp on the host puts it into the container.
func (r *remoteCall) copyIn(from string) error {
	ctx := r.ctx
	if from == "-" {
		r.stdin = r.p.Stdin
		return r.finish(r.onHost(ctx))
	}
	path, err := filepath.Abs(from)
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err != nil {
		return err
	}
	r.base = r.link.Greeting.Disk // it may be large
	r.files[path] = nil
	r.line.args[0] = r.base + path
	if suffix := string(filepath.Separator) + "."; strings.HasSuffix(from, suffix) {
		r.line.args[0] += suffix // the content of the directory
	}
	return r.finish(r.onHost(ctx))
}

// copyOut extracts what podman cp on the host writes as an archive, by the rules of podman cp.
func (r *remoteCall) copyOut(from, to string) error {
	r.line.args[1] = "-"
	if to == "-" {
		if command.IsTerminal(r.p.Stdout) {
			return command.Usagef("cp", "an archive is no text for a terminal: redirect it, or give a path here")
		}
		return r.finish(r.onHost(r.ctx))
	}
	at, err := copyPlace(from, to)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(at.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	x := sshhost.Extraction{Root: root, Name: at.name}
	read, write := io.Pipe()
	r.stdout = write
	unpacked := make(chan error, 1)
	go func() {
		err := x.Unpack(read)
		if err != nil {
			err = fmt.Errorf("extract %s: %w", from, err)
		}
		read.CloseWithError(err)
		unpacked <- err
	}()
	code, err := r.onHost(r.ctx) // closes write
	failed := <-unpacked
	var broken *sshhost.LostError
	switch {
	case code != 0: // the host has printed the error; there is no archive
		return r.finish(code, nil)
	case errors.As(err, &broken):
		return fmt.Errorf("%w; nothing was written to %s", err, to)
	case failed != nil && !errors.Is(failed, tar.ErrHeader):
		return failed
	}
	if x.OutsideCount > 0 {
		fmt.Fprintf(r.p.Stderr, "podtask: left out %d symbolic links that lead out of %s, among them %s\n", x.OutsideCount, to, term.Line(strings.Join(x.Outside, ", ")))
	}
	return r.finish(code, errors.Join(err, failed))
}

// copyTarget is where copyOut writes: to the file or directory with a name in a directory, or, with no name, into
// the directory itself.
type copyTarget struct{ dir, name string }

// copyPlace finds where from is copied to, by the rules of podman cp. The name never comes from the archive.
func copyPlace(from, to string) (copyTarget, error) {
	_, source, _ := strings.Cut(from, ":")
	name := path.Base(path.Clean("/" + source))
	content := strings.HasSuffix(source, "/.") || name == "/"
	info, err := os.Stat(to)
	switch {
	case err == nil && info.IsDir():
		if content {
			name = ""
		}
		return copyTarget{to, name}, nil
	case err == nil && strings.HasSuffix(to, "/"):
		return copyTarget{}, fmt.Errorf("%s is no directory", to)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return copyTarget{}, err
	case err != nil && strings.HasSuffix(to, "/"):
		return copyTarget{}, fmt.Errorf("there is no directory %s", to)
	case content && err == nil:
		return copyTarget{}, fmt.Errorf("%s is no directory", to)
	case content:
		return copyTarget{to, ""}, os.Mkdir(to, 0o755)
	}
	dir, name := filepath.Split(filepath.Clean(to))
	return copyTarget{cmp.Or(dir, "."), name}, nil
}
