package logfiles

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/logs/logroute"
)

const task = "0123456789abcdef"

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// conmon writes a log file and opens it again when it is told to.
type conmon struct {
	t     *testing.T
	files Files
	out   *os.File
}

func newConmon(t *testing.T) *conmon {
	files := In(t.TempDir()).Of(task, 0)
	if err := files.Place(); err != nil {
		t.Fatal(err)
	}
	c := &conmon{t: t, files: files}
	c.open(files.Path())
	return c
}

func (c *conmon) open(path string) {
	var err error
	if c.out != nil {
		c.out.Close()
	}
	if c.out, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { c.out.Close() })
}

func (c *conmon) write(stream logroute.Stream, last bool, text string) {
	c.raw(string(logroute.Piece{Time: noon, Stream: stream, Last: last, Text: []byte(text)}.Append(nil)))
}

func (c *conmon) raw(text string) {
	if _, err := c.out.WriteString(text); err != nil {
		c.t.Fatal(err)
	}
}

// reopen is what conmon does: a new file takes the name.
func (c *conmon) reopen(int64) error {
	c.open(c.files.Path() + ".tmp")
	return os.Rename(c.files.Path()+".tmp", c.files.Path())
}

func (c *conmon) rotate(limit int64, reopen func(int64) error) bool {
	c.t.Helper()
	pending, err := c.files.Rotate(limit, reopen)
	if err != nil {
		c.t.Fatal(err)
	}
	return pending
}

// drain is what a reader has for now.
func drain(t *testing.T, r *Reader) (all []logroute.Entry) {
	t.Helper()
	for {
		e, err := r.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
}

func texts(entries []logroute.Entry) string {
	var all []string
	for _, e := range entries {
		all = append(all, e.Text)
	}
	return strings.Join(all, " ")
}

func TestRotationLosesNothing(t *testing.T) {
	t.Parallel()
	c := newConmon(t)
	early := c.files.Reader(logroute.Position{}, 1000)
	defer early.Close()
	var want []string
	n := 0
	line := func() {
		n++
		want = append(want, fmt.Sprint(n))
		c.write(logroute.Stream(n%2), true, fmt.Sprint(n))
	}
	var got []logroute.Entry
	for round := range 4 {
		line()
		if round == 1 {
			got = append(got, drain(t, early)...)
		}
		if _, err := c.files.Rotate(1, func(int64) error { return errors.New("killed here") }); err == nil {
			t.Fatal("the error is gone")
		}
		line() // conmon writes to the file that has two names
		if round == 2 {
			got = append(got, drain(t, early)...)
		}
		if pending := c.rotate(1, c.reopen); !pending {
			t.Fatal("the rotation was forgotten")
		}
		line()
	}
	got = append(got, drain(t, early)...)
	late := c.files.Reader(logroute.Position{}, 1000)
	defer late.Close()
	for name, text := range map[string]string{"follows": texts(got), "comes late": texts(drain(t, late))} {
		if text != strings.Join(want, " ") {
			t.Errorf("who %s reads %s, want %s", name, text, strings.Join(want, " "))
		}
	}
	for i, e := range got {
		r := c.files.Reader(e.Next, 1000)
		if rest := texts(drain(t, r)); rest != strings.Join(want[i+1:], " ") {
			t.Errorf("behind %s comes %s", e.Text, rest)
		}
		r.Close()
	}
	all, err := c.files.Segments()
	if err != nil || len(all) != 5 || all[4].Complete || all[4].Number != 5 || all[3].Path != c.files.Path()+".4" {
		t.Errorf("the segments are %+v, %v", all, err)
	}
}

func TestPruneKeepsWhatIsWantedAndTheNumbers(t *testing.T) {
	t.Parallel()
	c := newConmon(t)
	for range 5 {
		c.write(logroute.Stdout, true, strings.Repeat("x", 100))
		c.rotate(1, c.reopen)
	}
	all, err := c.files.Segments()
	if err != nil || len(all) != 6 {
		t.Fatal(all, err)
	}
	size := all[0].Size
	if removed, err := c.files.Prune(3*size, func(s Segment) bool { return s.Number < 2 }); err != nil || len(removed) != 1 {
		t.Errorf("removed %v, %v", removed, err)
	}
	if removed, err := c.files.Prune(1, func(Segment) bool { return true }); err != nil || len(removed) != 3 {
		t.Errorf("removed %v, %v", removed, err)
	}
	if all, err = c.files.Segments(); err != nil || len(all) != 2 || all[0].Number != 5 || all[1].Number != 6 {
		t.Errorf("the segments are %+v, %v", all, err)
	}
	r := c.files.Reader(logroute.Position{}, 1000)
	defer r.Close()
	if got := drain(t, r); len(got) != 1 {
		t.Errorf("%d lines are left", len(got))
	}
}

func TestSealEndsWhatIsOpen(t *testing.T) {
	t.Parallel()
	c := newConmon(t)
	c.write(logroute.Stderr, false, "half")
	c.rotate(1, c.reopen)
	c.write(logroute.Stdout, true, "whole")
	c.write(logroute.Stdout, false, "prompt> ")
	for range 2 { // it may be repeated
		if err := c.files.Seal(noon); err != nil {
			t.Fatal(err)
		}
	}
	c.write(logroute.Stdout, true, "next run")
	r := c.files.Reader(logroute.Position{}, 1000)
	defer r.Close()
	var got []string
	for _, e := range drain(t, r) {
		got = append(got, e.Stream.String()+":"+e.Text)
	}
	if s := strings.Join(got, "|"); s != "stdout:whole|stdout:prompt> |stderr:half|stdout:next run" {
		t.Errorf("got %s", s)
	}
}

func TestDamagedLinesAreCountedAndLeftOut(t *testing.T) {
	t.Parallel()
	c := newConmon(t)
	c.write(logroute.Stdout, true, "a")
	c.raw("2026-01-02T12:0\n")
	c.raw(strings.Repeat("\x00", 3*longest) + "\n")
	c.write(logroute.Stdout, true, "b")
	c.raw("2026-01-02T12:00:00Z stdout F torn")
	if err := c.files.Seal(noon); err != nil {
		t.Fatal(err)
	}
	c.write(logroute.Stdout, true, "c")
	r := c.files.Reader(logroute.Position{}, 1000)
	defer r.Close()
	if got := texts(drain(t, r)); got != "a b torn c" || r.Damaged != 2 {
		t.Errorf("got %q, %d damaged", got, r.Damaged)
	}
}

func TestTheRouteIsKeptAndChecked(t *testing.T) {
	t.Parallel()
	c := newConmon(t)
	if r, err := c.files.Load(); err != nil || r != (Route{}) {
		t.Errorf("at the beginning it is %+v, %v", r, err)
	}
	want := Route{LostLines: 3, Until: noon, Error: "refused"}
	want.Position[logroute.Stderr] = logroute.Mark{Segment: 2, Offset: 7, Skip: 1}
	if err := c.files.Save(want); err != nil {
		t.Fatal(err)
	}
	if r, err := c.files.Load(); err != nil || r != want {
		t.Errorf("got %+v, %v", r, err)
	}
	data, err := os.ReadFile(c.files.routePath())
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(c.files.routePath(), data, 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := c.files.Load(); err == nil || r != (Route{}) {
		t.Errorf("damaged it is %+v, %v", r, err)
	}
	if err := In(filepath.Dir(filepath.Dir(c.files.dir))).Remove(task); err != nil {
		t.Fatal(err)
	}
	if err := c.files.Save(want); err == nil {
		t.Error("a position was saved for a task that was removed")
	}
}

func TestNobodyListensToReopen(t *testing.T) {
	t.Parallel()
	if err := Reopen(t.TempDir()); err == nil {
		t.Error("no error")
	}
}
