package stack

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/define/catalog"
	"github.com/podtask/podtask/internal/define/convert/compose"
	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/engine/decide/stack"
	"github.com/podtask/podtask/internal/engine/facts/conn"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/testing/enginetest"
)

// volumesBed is a Podman that tells which volumes were removed, and the previews of a host with it.
type volumesBed struct {
	*enginetest.Fake
	t       *testing.T
	k       call
	removed []string
	warned  string
}

func (b *volumesBed) RemoveVolume(ctx context.Context, name, taskID string) error {
	before, err := b.HasVolume(ctx, name)
	if err == nil {
		err = b.Fake.RemoveVolume(ctx, name, taskID)
	}
	if after, _ := b.HasVolume(ctx, name); before && !after {
		b.removed = append(b.removed, name)
	}
	return err
}

func newVolumesBed(t *testing.T) *volumesBed {
	t.Helper()
	b := &volumesBed{Fake: enginetest.New(enginetest.Wall{}), t: t}
	b.k = callOf(t)
	b.k.engine = &engine.Engine{Podman: &conn.Lazy{Dial: func(context.Context) (conn.Podman, error) { return b, nil }}}
	b.k.catalog = func(*cli.Context) (*catalog.Catalog, error) { return nil, nil }
	b.k.warn = func(format string, args ...any) { b.warned += fmt.Sprintf(format, args...) }
	return b
}

const ofData, ofLogs = "shop-pr-1_data", "shop-pr-1_logs"

// up makes the preview pr-1 of shop ready with the volumes data and logs, and ends the change if that was possible.
func (b *volumesBed) up(fills ...string) (record stack.State, err error) {
	b.t.Helper()
	k := b.k
	if k.c, err = command.ParseWords("stack up", readingVerbs()[0].Flags, fills); err != nil {
		b.t.Fatal(err)
	}
	s, err := k.state("shop-pr-1")
	if err != nil {
		b.t.Fatal(err)
	}
	w := &wanted{Name: s.Name, Preview: previewOf("shop", "pr-1").Preview, Volumes: []compose.StackVolume{{Name: ofData}, {Name: ofLogs}}}
	if err := k.admit(w, s); err != nil {
		b.t.Fatal(err)
	}
	s.Preview, b.removed, b.warned = w.Preview, nil, ""
	if err = k.makeReady(b.t.Context(), w, &s); err == nil {
		s.Last++
		if err := k.store.Put(s); err != nil {
			b.t.Fatal(err)
		}
	}
	record, missing := k.store.Get(s.Name)
	if missing != nil {
		b.t.Fatal(missing)
	}
	return record, err
}

func (b *volumesBed) want(s stack.State, filled, filling, removed []string) {
	b.t.Helper()
	if !slices.Equal(s.Preview.Filled, filled) || !slices.Equal(s.Preview.Filling, filling) || !slices.Equal(b.removed, removed) {
		b.t.Errorf("filled %v, to be filled %v, removed %v; want %v, %v, %v", s.Preview.Filled, s.Preview.Filling, b.removed, filled, filling, removed)
	}
}

// A volume whose command failed, or was killed, is made again before the next one; what a command has filled is neither removed nor
// filled again.
func TestAVolumeIsFilledWhenItsCommandHasSucceeded(t *testing.T) {
	t.Parallel()
	b := newVolumesBed(t)
	ran := filepath.Join(t.TempDir(), "ran")
	good := "--fill=data=echo data >> " + ran
	s, err := b.up(good)
	if err != nil {
		t.Fatal(err)
	}
	b.want(s, []string{ofData}, nil, nil)
	if err := b.Fake.RemoveVolume(t.Context(), ofLogs, owner("shop-pr-1")); err != nil { // it is new in the next file
		t.Fatal(err)
	}
	written := "grep -rq '\"filling\":\\[\"" + ofLogs + "\"' " + b.k.store.Dir()
	if s, err = b.up(good, "--fill=logs="+written+" && exit 3"); err == nil || !strings.HasSuffix(err.Error(), "exit status 3") {
		t.Errorf("the record does not say before the command runs that it does: %v", err)
	}
	b.want(s, []string{ofData}, []string{ofLogs}, nil)
	if s, err = b.up(good, "--fill=logs=exit 4"); err == nil {
		t.Error("a command that fails is no error")
	}
	b.want(s, []string{ofData}, []string{ofLogs}, []string{ofLogs})
	if s, err = b.up(good, "--fill=logs=echo logs >> "+ran); err != nil {
		t.Fatal(err)
	}
	b.want(s, []string{ofData, ofLogs}, nil, []string{ofLogs})
	if s, err = b.up(good, "--fill=logs=exit 5"); err != nil || b.warned != "" {
		t.Fatal(err, b.warned)
	}
	b.want(s, []string{ofData, ofLogs}, nil, nil)
	if text, err := command.ReadSmall(ran); string(text) != "data\nlogs\n" {
		t.Errorf("the commands that ran to their end: %q, %v", text, err)
	}
}

// The first up of a preview removes no volume that is there, and fills none, whoever made it: a user, or an earlier preview of the name
// that was removed without its volumes. Nor does one after a command that failed.
func TestVolumesThatWereThereAreNotFilled(t *testing.T) {
	t.Parallel()
	for who, made := range map[string]libpod.VolumeSpec{"a user": {Name: ofData}, "an earlier preview": {Name: ofData, TaskID: owner("shop-pr-1")}} {
		b := newVolumesBed(t)
		if err := b.EnsureVolume(t.Context(), made); err != nil {
			t.Fatal(err)
		}
		s, err := b.up("--fill=data=exit 3", "--fill=logs=exit 4")
		if err == nil || !strings.HasSuffix(err.Error(), "exit status 4") || !strings.Contains(b.warned, ofData+" was there already, and is not filled") {
			t.Errorf("%s: %v; warned: %s", who, err, b.warned)
		}
		b.want(s, nil, []string{ofLogs}, nil)
		if s, err = b.up("--fill=data=exit 3", "--fill=logs=true"); err != nil {
			t.Errorf("%s: %v", who, err)
		}
		b.want(s, []string{ofLogs}, nil, []string{ofLogs})
	}
}

// A volume that a user made in the place of one that was to be filled is the user's.
func TestAVolumeMadeMeanwhileIsNotFilled(t *testing.T) {
	t.Parallel()
	b := newVolumesBed(t)
	if _, err := b.up("--fill=data=exit 3"); err == nil {
		t.Fatal("a command that fails is no error")
	}
	if err := b.Fake.RemoveVolume(t.Context(), ofData, owner("shop-pr-1")); err != nil {
		t.Fatal(err)
	}
	if err := b.EnsureVolume(t.Context(), libpod.VolumeSpec{Name: ofData}); err != nil {
		t.Fatal(err)
	}
	s, err := b.up("--fill=data=exit 3")
	if err != nil || !strings.Contains(b.warned, "is not filled") {
		t.Errorf("%v; warned: %s", err, b.warned)
	}
	b.want(s, nil, nil, nil)
}

// What is filled by half is used by nobody: an up without its command makes it again, and the end of the preview removes it, also if
// other volumes stay.
func TestWhatIsFilledByHalfDoesNotStay(t *testing.T) {
	t.Parallel()
	b := newVolumesBed(t)
	s, err := b.up("--fill=data=true", "--fill=logs=exit 3")
	if err == nil {
		t.Fatal("a command that fails is no error")
	}
	b.want(s, []string{ofData}, []string{ofLogs}, nil)
	if s, err = b.up(); err != nil {
		t.Fatal(err)
	}
	b.want(s, []string{ofData}, nil, []string{ofLogs})

	b = newVolumesBed(t)
	if s, err = b.up("--fill=data=exit 3"); err == nil {
		t.Fatal("a command that fails is no error")
	}
	if err := b.k.forget(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	left, err := b.HasVolume(t.Context(), ofData)
	kept, err2 := b.HasVolume(t.Context(), ofLogs)
	if left || !kept || err != nil || err2 != nil {
		t.Errorf("the volume that is filled by half stays: %t (%v), the other one: %t (%v)", left, err, kept, err2)
	}
}
