package sshhost

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOnlyHarmlessSequencesReachTheScreen(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain\ttext\r\n":                            "plain\ttext\r\n",
		"\x1b[31mred\x1b[0m":                         "\x1b[31mred\x1b[0m",
		"\x1b[2K\x1b[1A\x1b[?25l":                    "\x1b[2K\x1b[1A\x1b[?25l",
		"a\x1b]0;title\x07b":                         "ab",
		"a\x1b]52;c;ZXZpbA==\x1b\\b":                 "ab",
		"a\x1bPq\x1b\\b\x1b_x\x1b\\c\x1b^y\x1b\\d":   "abcd",
		"a\x1b[6nb\x1b[cb\x1b[21tb\x1b[>qb\x1b[?ub":  "abbbbb",
		"a\x1bcb\x1b(0c":                             "abc",
		"a\u009b31mb\u009d0;x\x07c":                  "a\x1b[31mbc",
		"a\xc2\xc2\x9b6nb":                           "ab",
		"größe 東京":                                   "größe 東京",
		"bell\x07 nul\x00":                           "bell nul",
		"\x1b]" + strings.Repeat("x", maxSequence+8): "xxxxxxx",
	} {
		for _, step := range []int{1, len(in)} {
			var out bytes.Buffer
			w := NewScreenWriter(&out)
			for text := in; text != ""; {
				n := min(step, len(text))
				if _, err := w.Write([]byte(text[:n])); err != nil {
					t.Fatal(err)
				}
				text = text[n:]
			}
			if got := out.String(); got != want {
				t.Errorf("%q in steps of %d: %q, want %q", in, step, got, want)
			}
		}
	}
}

func FuzzScreen(f *testing.F) {
	for _, s := range []string{"\x1b[31m", "\x1b]0;x\x07", "\u009b6n", "\x1bP\x1b\\", "\xc2"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var out bytes.Buffer
		if n, err := NewScreenWriter(&out).Write(in); n != len(in) || err != nil {
			t.Fatal(n, err)
		}
		text := out.String()
		for i, c := range []byte(text) {
			if c == 0x1b && (i+1 >= len(text) || text[i+1] != '[') || c == 0x07 {
				t.Errorf("%q became %q", in, text)
			}
		}
		if strings.Contains(text, "\u009b") || strings.Contains(text, "\u009d") {
			t.Errorf("%q became %q", in, text)
		}
	})
}

// entry is one of a hostile archive.
type entry struct {
	kind       byte
	name, link string
	text       string
}

func archive(t testing.TB, entries ...entry) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		if err := w.WriteHeader(&tar.Header{Typeflag: e.kind, Name: e.name, Linkname: e.link, Mode: 0o6755, Size: int64(len(e.text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

func TestAnArchiveStaysInItsDirectory(t *testing.T) {
	t.Parallel()
	for name, entries := range map[string][]entry{
		"a parent":         {{tar.TypeReg, "../evil", "", "x"}},
		"deep parent":      {{tar.TypeReg, "a/../../evil", "", "x"}},
		"a link":           {{tar.TypeSymlink, "dir", "..", ""}, {tar.TypeReg, "dir/evil", "", "x"}},
		"an absolute link": {{tar.TypeSymlink, "dir", "/tmp", ""}, {tar.TypeReg, "dir/podtask-evil", "", "x"}},
		"a hard link":      {{tar.TypeLink, "evil2", "../secret", ""}},
	} {
		top := t.TempDir()
		dir := filepath.Join(top, "in")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(top, "secret"), []byte("s"), 0o600); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := Unpack(archive(t, entries...), root, ""); err == nil {
			t.Errorf("%s: no error", name)
		}
		root.Close()
		entries, _ := os.ReadDir(top)
		if len(entries) != 2 {
			t.Errorf("%s: there is %v", name, entries)
		}
		if _, err := os.Lstat("/tmp/podtask-evil"); err == nil {
			t.Errorf("%s wrote to /tmp", name)
		}
	}
}

func TestUnpackRenamesAndDropsWhatIsSpecial(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	err = Unpack(archive(t, entry{tar.TypeDir, "etc/", "", ""}, entry{tar.TypeReg, "etc/a", "", "1"}, entry{tar.TypeFifo, "etc/fifo", "", ""}, entry{tar.TypeSymlink, "etc/l", "a", ""}), root, "new")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "new", "l")); string(text) != "1" {
		t.Errorf("%q %v", text, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "new", "a")); err != nil || info.Mode()&os.ModeSetuid != 0 {
		t.Errorf("%v %v", info, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "new", "fifo")); err == nil {
		t.Error("a pipe was made")
	}
	if err := Unpack(archive(t, entry{tar.TypeReg, "a", "", "1"}, entry{tar.TypeReg, "b", "", "1"}), root, "x"); err == nil {
		t.Error("two names become one")
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(archive(f, entry{tar.TypeSymlink, "dir", "..", ""}, entry{tar.TypeReg, "dir/evil", "", "x"}).Bytes())
	f.Fuzz(func(t *testing.T, text []byte) {
		top := t.TempDir()
		dir := filepath.Join(top, "in")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		_ = Unpack(bytes.NewReader(text), root, "")
		if entries, _ := os.ReadDir(top); len(entries) != 1 {
			t.Errorf("%v", entries)
		}
	})
}
