package secretsource_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/host/secretsource"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"file:/run/secret":             "file:/run/secret",
		"/run/secret":                  "file:/run/secret",
		"/run/a:b":                     "file:/run/a:b",
		"env:TOKEN":                    "env:TOKEN",
		"command:/bin/pass  show  x:y": "command:/bin/pass show x:y",
		"credential:registry":          "credential:registry",
		"podman:registry":              "podman:registry",
		"registry":                     "podman:registry",
		`command:["/bin/pass","a b"]`:  `command:["/bin/pass","a b"]`,
		`command:["/bin/pass","a"]`:    "command:/bin/pass a",
		"tree:/srv/aws:ssm/web/token":  "tree:/srv/aws:ssm/web/token",
	} {
		s, err := secretsource.Parse(text)
		if err != nil || s.String() != want {
			t.Errorf("%q is %q (%v), want %q", text, s, err, want)
		}
	}
	for _, text := range []string{
		"", "file:", "file:secret", "command:", "command:pass show", "env:", "env:A-B", "credential:", "credential:../x",
		"credential:..", "podman:", "podman:a b", "a,b", "vault:x", "arn:aws:secretsmanager:eu-west-1:1:secret:x", "file:/a\nb",
		"tree:/srv", "tree:srv:x", "tree:/srv:../x", "tree:/srv:/x", "command:[1]", `command:["pass"]`, "command:[]", `command:["/bin/x","\u0007"]`,
	} {
		s, err := secretsource.Parse(text)
		var e *secretsource.Error
		if !errors.As(err, &e) || e.Hint == "" {
			t.Errorf("%q is %v (%v), want an error that says how to write it", text, s, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"file:/a", "/a", "env:A", "command:/a b c", "credential:a", "podman:a", "a", "x:y", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := secretsource.Parse(text)
		if err != nil {
			return
		}
		again, err := secretsource.Parse(s.String())
		if err != nil || again.String() != s.String() {
			t.Errorf("%q is read as %q, and that as %q (%v)", text, s, again, err)
		}
	})
}

// write makes a file and returns its path.
func write(t *testing.T, mode os.FileMode, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	// A program that another test starts at this moment would hold the file open for
	// writing, so that it cannot be run (golang.org/issue/22315).
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // the umask has had its say
		t.Fatal(err)
	}
	return path
}

func reader(env map[string]string) secretsource.Reader {
	return secretsource.Reader{Getenv: func(name string) string { return env[name] }}
}

func TestRead(t *testing.T) {
	t.Parallel()
	helper := write(t, 0o700, "#!/bin/sh\necho noise >&2\nprintf '%s\\n' \"$1\"\n")
	path := write(t, 0o600, "hunter2\n")
	r := reader(map[string]string{"TOKEN": "hunter2", "CREDENTIALS_DIRECTORY": filepath.Dir(path)})
	r.Podman = func(_ context.Context, name string) ([]byte, error) { return []byte("hunter2"), nil }
	for _, text := range []string{path, "env:TOKEN", "credential:secret", "podman:x", "command:" + helper + " hunter2"} {
		s, err := secretsource.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		v, err := r.Read(t.Context(), s)
		if err != nil || v.Text() != "hunter2" {
			t.Errorf("%s gives %q (%v)", text, v.Text(), err)
		}
		v.Clear()
		if strings.Trim(v.Text(), "\x00") != "" {
			t.Errorf("%s is not cleared", text)
		}
	}
}

func TestANewlineAtTheEndIsForFilesOnly(t *testing.T) {
	t.Parallel()
	helper := write(t, 0o700, "#!/bin/sh\nprintf 'a\\n\\n'\n")
	unix, dos := write(t, 0o600, "a\n"), write(t, 0o600, "a\r\n")
	r := reader(map[string]string{"TOKEN": "a\n", "CREDENTIALS_DIRECTORY": filepath.Dir(unix)})
	r.Podman = func(context.Context, string) ([]byte, error) { return []byte("a\n"), nil }
	r.AWS = func(context.Context, string, secretsource.Asked) ([]byte, error) { return []byte("a\n"), nil }
	for _, tt := range []struct{ source, value, file string }{
		{unix, "a", "a\n"},
		{dos, "a", "a\r\n"},
		{"tree:" + filepath.Dir(unix) + ":secret", "a", "a\n"},
		{"credential:secret", "a", "a\n"},
		{"command:" + helper, "a\n", "a\n\n"},
		// No editor and no echo has added these.
		{"env:TOKEN", "a\n", "a\n"},
		{"podman:x", "a\n", "a\n"},
		{"aws:x", "a\n", "a\n"},
	} {
		s, err := secretsource.Parse(tt.source)
		if err != nil {
			t.Fatal(err)
		}
		v, err := r.Read(t.Context(), s)
		if err != nil || v.Text() != tt.value || string(v.Bytes()) != tt.value || string(v.File()) != tt.file {
			t.Errorf("%s gives %q, and %q for a file (%v); want %q and %q", tt.source, v.Text(), v.File(), err, tt.value, tt.file)
		}
		v.Clear()
		if strings.Trim(string(v.File()), "\x00") != "" {
			t.Errorf("%s is not cleared", tt.source)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, source, want string }{
		{"a file for the group", write(t, 0o640, "hunter2"), "chmod 600"},
		{"a file for all", write(t, 0o604, "hunter2"), "chmod 600"},
		{"an empty file", write(t, 0o600, "\n"), "empty"},
		{"no file", "/nowhere/secret", "no such file"},
		{"a pipe", pipe, "regular"},
		{"a directory", t.TempDir(), "regular"},
		{"too much", write(t, 0o600, strings.Repeat("hunter2", 100000)), "longer"},
		{"no variable", "env:NOWHERE", "not set"},
		{"no service", "credential:x", "CREDENTIALS_DIRECTORY"},
		{"no Podman", "podman:x", "Podman is not available"},
		{"a failing program", "command:" + write(t, 0o700, "#!/bin/sh\necho hunter2; echo hunter2 >&2; exit 3\n"), "exit status 3"},
		{"a silent program", "command:" + write(t, 0o700, "#!/bin/sh\n"), "empty"},
		{"no program", "command:/nowhere/helper", "cannot be run"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, err := secretsource.Parse(tt.source)
			if err != nil {
				t.Fatal(err)
			}
			v, err := reader(nil).Read(t.Context(), s)
			var e *secretsource.Error
			if !errors.As(err, &e) || !strings.Contains(err.Error(), tt.want) || v.Text() != "" {
				t.Fatalf("%v, want %q", err, tt.want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the secret is in the error: %v", err)
			}
		})
	}
}

func TestTreeMirrorsNames(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, mode := range map[string]os.FileMode{"secretsmanager/shop/db": 0o644, "secretsmanager/full-AbCdEf": 0o600, "ssm/web/open": 0o644} {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("hunter2\n"), mode), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("/etc/passwd", filepath.Join(root, "ssm", "out")), os.Chmod(root, 0o700)); err != nil {
		t.Fatal(err)
	}
	read := func(name string) error {
		s, err := secretsource.Parse("tree:" + root + ":" + name)
		if err != nil {
			t.Fatal(err)
		}
		v, err := reader(nil).Read(t.Context(), s)
		if err == nil && v.Text() != "hunter2" {
			t.Errorf("%s is %q", name, v.Text())
		}
		return err
	}
	for _, name := range []string{"secretsmanager/shop/db-AbCdEf", "secretsmanager/shop/db", "secretsmanager/full-AbCdEf", "ssm/web/open"} {
		if err := read(name); err != nil {
			t.Error(err)
		}
	}
	for name, want := range map[string]string{"ssm/web/none-AbCdEf": "there is no such file in the tree", "ssm/out": "escapes"} {
		if err := read(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := read("ssm/web/open"); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others can read, in a tree that others can enter: %v", err)
	}
}

func TestProgramKnowsWhatItIsAskedFor(t *testing.T) {
	t.Parallel()
	r := reader(nil)
	r.Asked.Reference = "/web/token"
	s, err := secretsource.Parse("command:" + write(t, 0o700, "#!/bin/sh\necho \"value of $PODTASK_REFERENCE\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	if v, err := r.Read(t.Context(), s); err != nil || v.Text() != "value of /web/token" {
		t.Errorf("%q %v", v.Text(), err)
	}
}

func TestMessagesOfAProgramAreShownIfItWroteNoValue(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"printf 'no\\tsuch\\033 secret\\n' >&2; exit 3":     "exit status 3; it says: no such secret",
		"yes nothing | head -c 100000 >&2; exit 3":          "it says: ...",
		"printf hunter2; echo 'hunter2 is bad' >&2; exit 3": "run it yourself",
		"echo waiting >&2; exec sleep 1000":                 "took longer than 200ms",
	} {
		s, err := secretsource.Parse("command:" + write(t, 0o700, "#!/bin/sh\n"+body+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		r := reader(nil)
		if strings.Contains(want, "200ms") {
			r.Timeout = 200 * time.Millisecond
		}
		_, err = r.Read(t.Context(), s)
		var e *secretsource.Error
		if !errors.As(err, &e) || !e.Transient || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") || len(err.Error()) > 800 {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}

func TestHelperEndsWithTheContext(t *testing.T) {
	t.Parallel()
	started := filepath.Join(t.TempDir(), "started")
	if err := syscall.Mkfifo(started, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := secretsource.Parse("command:" + write(t, 0o700, "#!/bin/sh\necho > "+started+"\nsleep 1000 & wait\n"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = os.ReadFile(started)
		cancel()
	}()
	if _, err := reader(nil).Read(ctx, s); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestValueDoesNotShowItself(t *testing.T) {
	t.Parallel()
	v := secretsource.NewValue([]byte("hunter2"))
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "v", v)
	asJSON, err := json.Marshal(map[string]any{"v": v, "p": &v})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		fmt.Sprint(v), fmt.Sprintf("%v %+v %#v %s %q %x %d", v, v, v, v, v, v, v), fmt.Sprint(struct{ V secretsource.Value }{v}),
		string(asJSON), log.String(),
	} {
		if strings.Contains(text, "hunter2") || strings.Contains(text, "68756e") || strings.Contains(text, "104 117") {
			t.Errorf("it shows the secret: %s", text)
		}
	}
}
