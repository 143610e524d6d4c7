package sshhost

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// entry is one of a hostile archive.
type entry struct {
	kind       byte
	name, link string
	text       string
}

// archive is for fuzz targets too: in OSS-Fuzz they have fewer methods than testing.TB.
func archive(t interface {
	Helper()
	Fatal(args ...any)
}, entries ...entry,
) *bytes.Buffer {
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

// home is a directory with files of a user, in which archives are extracted into "here".
type home struct {
	t    testing.TB
	top  string
	here string
}

func newHome(t testing.TB) *home {
	t.Helper()
	h := &home{t, t.TempDir(), ""}
	h.here = filepath.Join(h.top, "here")
	for _, d := range []string{h.here, filepath.Join(h.here, "mine"), filepath.Join(h.top, "other")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"other/secret", "here/.bashrc", "here/mine/file"} {
		if err := os.WriteFile(filepath.Join(h.top, f), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"here/mine/way": "../../other", "here/mine/secret": "../../other/secret"} {
		if err := os.Symlink(to, filepath.Join(h.top, name)); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// state is what lies below the home, except below what is named: each name with its kind, content and links.
func (h *home) state(except string) map[string]string {
	h.t.Helper()
	state := make(map[string]string)
	err := filepath.WalkDir(h.top, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(h.top, p)
		if name == except {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := info.Mode().Type().String()
		switch {
		case info.Mode().IsRegular():
			content, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			text = fmt.Sprintf("%q, %d names", content, info.Sys().(*syscall.Stat_t).Nlink)
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(p)
			if err != nil {
				return err
			}
			text = "-> " + to
		}
		state[name] = text
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return state
}

// unpack extracts an archive below "here".
func (h *home) unpack(name string, keepOutside bool, text []byte) (*Extraction, error) {
	h.t.Helper()
	root, err := os.OpenRoot(h.here)
	if err != nil {
		h.t.Fatal(err)
	}
	defer root.Close()
	x := &Extraction{Root: root, Name: name, KeepOutside: keepOutside}
	err = x.Unpack(bytes.NewReader(text))
	return x, err
}

func sameState(t testing.TB, what string, before, after map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if after[name] != before[name] {
			t.Errorf("%s: %s was %s and is %s", what, name, before[name], after[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if _, ok := before[name]; !ok {
			t.Errorf("%s: %s was made: %s", what, name, after[name])
		}
	}
}

// hostileArchives are archives of a hostile host for a copy that is to become "f".
var hostileArchives = map[string][]entry{
	"a parent":                       {{tar.TypeReg, "../evil", "", "x"}},
	"a deep parent":                  {{tar.TypeReg, "f/../../evil", "", "x"}},
	"an absolute name":               {{tar.TypeReg, "/.bashrc", "", "x"}},
	"another name at the top":        {{tar.TypeReg, ".bashrc", "", "x"}},
	"two names at the top":           {{tar.TypeReg, "f", "", "x"}, {tar.TypeReg, ".bashrc", "", "x"}},
	"a hard link beside":             {{tar.TypeDir, "f/", "", ""}, {tar.TypeLink, "f/x", ".bashrc", ""}, {tar.TypeReg, "f/x", "", "x"}},
	"a hard link beside, by ..":      {{tar.TypeDir, "f/", "", ""}, {tar.TypeLink, "f/x", "f/../.bashrc", ""}, {tar.TypeReg, "f/x", "", "x"}},
	"a hard link beside, as f":       {{tar.TypeLink, "f", ".bashrc", ""}, {tar.TypeReg, "f", "", "x"}},
	"a hard link outside":            {{tar.TypeLink, "f/x", "../other/secret", ""}, {tar.TypeReg, "f/x", "", "x"}},
	"a hard link through a link":     {{tar.TypeSymlink, "f/d", "..", ""}, {tar.TypeLink, "f/x", "f/d/.bashrc", ""}, {tar.TypeReg, "f/x", "", "x"}},
	"a hard link to a link":          {{tar.TypeSymlink, "f/d", "../.bashrc", ""}, {tar.TypeLink, "f/x", "f/d", ""}, {tar.TypeReg, "f/x", "", "x"}},
	"a link up":                      {{tar.TypeSymlink, "f/d", "..", ""}, {tar.TypeReg, "f/d/.bashrc", "", "x"}},
	"a link up, later":               {{tar.TypeReg, "f/d/.bashrc", "", "x"}, {tar.TypeSymlink, "f/d", "..", ""}},
	"a link up for a directory":      {{tar.TypeSymlink, "f/d", "..", ""}, {tar.TypeDir, "f/d/", "", ""}, {tar.TypeReg, "f/d/.bashrc", "", "x"}},
	"a link to a file":               {{tar.TypeSymlink, "f/d", "../.bashrc", ""}, {tar.TypeReg, "f/d", "", "x"}},
	"an absolute link":               {{tar.TypeSymlink, "f/d", "/tmp", ""}, {tar.TypeReg, "f/d/podtask-evil", "", "x"}},
	"a link through links":           {{tar.TypeSymlink, "f/a/l", "..", ""}, {tar.TypeSymlink, "f/a/m", "l/..", ""}, {tar.TypeReg, "f/a/m/.bashrc", "", "x"}},
	"a link at the top":              {{tar.TypeSymlink, "f", ".", ""}, {tar.TypeReg, "f/.bashrc", "", "x"}},
	"a link at the top to a file":    {{tar.TypeSymlink, "f", ".bashrc", ""}, {tar.TypeReg, "f", "", "x"}},
	"a link to what is already here": {{tar.TypeSymlink, "f/d", "../mine/way", ""}, {tar.TypeReg, "f/d/secret", "", "x"}},
	"devices and pipes":              {{tar.TypeFifo, "f/p", "", ""}, {tar.TypeChar, "f/c", "", ""}, {tar.TypeBlock, "f/b", "", ""}},
	"the scratch directory":          {{tar.TypeReg, scratchPrefix + "x/../../.bashrc", "", "x"}},
}

func TestAnArchiveWritesOnlyWhatItBecomes(t *testing.T) {
	t.Parallel()
	for name, entries := range hostileArchives {
		h := newHome(t)
		before := h.state("")
		_, _ = h.unpack("f", false, archive(t, entries...).Bytes()) // the second time, f is there
		_, err := h.unpack("f", false, archive(t, entries...).Bytes())
		sameState(t, fmt.Sprintf("%s (%v)", name, err), before, h.state("here/f"))
		for _, problem := range h.escapes(filepath.Join(h.here, "f")) {
			t.Errorf("%s: %s", name, problem)
		}
	}
}

// escapes are the links below a directory that lead out of it, and its special files.
func (h *home) escapes(dir string) (found []string) {
	real, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if err != nil {
		h.t.Fatal(err)
	}
	dir = filepath.Join(real, filepath.Base(dir))
	_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // there is no f
		}
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			to, err := filepath.EvalSymlinks(p)
			if err == nil && to != dir && !strings.HasPrefix(to, dir+"/") {
				found = append(found, p+" leads to "+to)
			}
		case !d.Type().IsRegular() && !d.IsDir():
			found = append(found, p+" is "+d.Type().String())
		}
		if info, err := d.Info(); err == nil && info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
			found = append(found, p+" has "+info.Mode().String())
		}
		return nil
	})
	return found
}

// An archive that is merged into a directory with files and links of the user goes through none of them.
func TestAnArchiveIsMergedThroughNoLink(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		entries []entry
		fails   bool
	}{
		"a directory where a link is": {[]entry{{tar.TypeReg, "mine/way/secret", "", "x"}}, true},
		"a file where a link is":      {[]entry{{tar.TypeReg, "mine/secret", "", "x"}}, false},
		"a file where a directory is": {[]entry{{tar.TypeReg, "mine", "", "x"}}, true},
		"a directory where a file is": {[]entry{{tar.TypeDir, ".bashrc", "", ""}}, true},
		"a link where a directory is": {[]entry{{tar.TypeSymlink, "mine", "/tmp", ""}}, true},
		"links first":                 {[]entry{{tar.TypeSymlink, "mine/d", "../..", ""}, {tar.TypeReg, "mine/d/other/secret", "", "x"}}, true},
	} {
		for _, keepOutside := range []bool{false, true} {
			h := newHome(t)
			before := h.state("here")
			_, err := h.unpack("", keepOutside, archive(t, tt.entries...).Bytes())
			// A link that is left out is in the way of nothing.
			if left := len(tt.entries) > 0 && tt.entries[0].kind == tar.TypeSymlink && !keepOutside; (err != nil) != (tt.fails && !left) {
				t.Errorf("%s: %v", name, err)
			}
			sameState(t, name, before, h.state("here"))
		}
	}
}

func TestFilesThatExistAreReplaced(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	kept := filepath.Join(h.top, "other", "kept")
	if err := os.Link(filepath.Join(h.here, "mine", "file"), kept); err != nil {
		t.Fatal(err)
	}
	if _, err := h.unpack("", false, archive(t, entry{tar.TypeReg, "mine/file", "", "new"}, entry{tar.TypeReg, "mine/more/file", "", "1"}).Bytes()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"other/kept": "mine", "here/mine/file": "new", "here/mine/more/file": "1", "here/.bashrc": "mine"} {
		if got, err := os.ReadFile(filepath.Join(h.top, name)); string(got) != want {
			t.Errorf("%s is %q %v, want %q", name, got, err, want)
		}
	}
}

// An archive with links of both kinds arrives under another name as it was.
func TestAnArchiveGetsItsName(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	text := archive(t,
		entry{tar.TypeDir, "etc/", "", ""}, entry{tar.TypeReg, "etc/a", "", "1"}, entry{tar.TypeLink, "etc/b", "etc/a", ""}, entry{tar.TypeSymlink, "etc/l", "a", ""},
		entry{tar.TypeLink, "etc/l2", "etc/l", ""}, entry{tar.TypeSymlink, "etc/sub/up", "../b", ""}, entry{tar.TypeSymlink, "etc/self", ".", ""},
		entry{tar.TypeSymlink, "etc/os", "../usr/lib/os", ""}, entry{tar.TypeSymlink, "etc/mtab", "/proc/mounts", ""},
		entry{tar.TypeReg, "etc/twice", "", "old"}, entry{tar.TypeReg, "etc/twice", "", "new"}, entry{tar.TypeSymlink, "etc/was", "a", ""}, entry{tar.TypeReg, "etc/was", "", "file"},
	).Bytes()
	for range 2 { // the second time, they are replaced
		x, err := h.unpack("new", false, text)
		if err != nil {
			t.Fatal(err)
		}
		if x.OutsideCount != 2 || !slices.Equal(x.Outside, []string{"new/os", "new/mtab"}) {
			t.Errorf("left out: %q", x.Outside)
		}
		for name, want := range map[string]string{"a": "1", "b": "1", "l": "1", "l2": "1", "sub/up": "1", "self/a": "1", "twice": "new", "was": "file"} {
			if got, err := os.ReadFile(filepath.Join(h.here, "new", name)); string(got) != want {
				t.Errorf("%s is %q %v, want %q", name, got, err, want)
			}
		}
		a, errA := os.Stat(filepath.Join(h.here, "new", "a"))
		b, errB := os.Stat(filepath.Join(h.here, "new", "b"))
		if errA != nil || errB != nil || !os.SameFile(a, b) {
			t.Error("the hard link is none")
		}
	}
	if _, err := h.unpack("one", true, archive(t, entry{tar.TypeReg, "f", "", "1"}).Bytes()); err != nil {
		t.Fatal(err)
	}
	x, err := h.unpack("", true, text)
	if to, _ := os.Readlink(filepath.Join(h.here, "etc", "mtab")); err != nil || to != "/proc/mounts" || x.OutsideCount != 0 {
		t.Errorf("%q %v", to, err)
	}
	entries, _ := os.ReadDir(h.here)
	if len(entries) != 5 {
		t.Errorf("there is %v", entries)
	}
}

// An archive that breaks off, or has one bad entry at its end, changes nothing.
func TestABrokenArchiveChangesNothing(t *testing.T) {
	t.Parallel()
	whole := archive(t, entry{tar.TypeReg, "mine/file", "", strings.Repeat("x", 4096)}).Bytes()
	bad := archive(t, entry{tar.TypeReg, "mine/file", "", "x"}, entry{tar.TypeReg, "../evil", "", "x"}).Bytes()
	for what, text := range map[string][]byte{"cut": whole[:2048], "bad": bad} {
		for _, name := range []string{"", "mine", "new"} {
			h := newHome(t)
			before := h.state("")
			if _, err := h.unpack(name, false, text); err == nil {
				t.Errorf("%s: no error", what)
			}
			sameState(t, what, before, h.state(""))
		}
	}
}

func TestNamesOfLinksAreBounded(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	root, err := os.OpenRoot(h.here)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	x := &Extraction{Root: root, pending: make(map[string]int), size: maxLinkNames - 5}
	err = x.extract(tar.NewReader(archive(t, entry{tar.TypeSymlink, "link", "to", ""})), root)
	if err == nil || !strings.Contains(err.Error(), "64 MiB") {
		t.Error(err)
	}
}

// Whatever the archive is, only f changes, and no link in it leads out.
func FuzzUnpack(f *testing.F) {
	for _, entries := range hostileArchives {
		f.Add(archive(f, entries...).Bytes())
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		h := newHome(t)
		before := h.state("")
		for range 2 {
			_, _ = h.unpack("f", false, text)
		}
		sameState(t, "f", before, h.state("here/f"))
		if found := h.escapes(filepath.Join(h.here, "f")); len(found) > 0 {
			t.Error(found)
		}
		h = newHome(t)
		before = h.state("here")
		for range 2 {
			_, _ = h.unpack("", true, text)
		}
		sameState(t, "a merge", before, h.state("here"))
	})
}
