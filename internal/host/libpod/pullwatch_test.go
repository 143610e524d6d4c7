package libpod

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What a watch of a server without byte progress makes of what it sees: a view a
// second, then the last one for ever.
func TestWatchFollowsTheFilesOfAPull(t *testing.T) {
	t.Parallel()
	const firstByte, idle = time.Minute, 20 * time.Second
	here := func(files string, writing bool) layerView {
		return layerView{visible: true, writing: writing, files: files}
	}
	for _, tc := range []struct {
		name  string
		heard bool
		views []layerView
		want  error         // why it ends; nil: it never does
		at    time.Duration // at most so long after the start
	}{
		{"a layer that stands still", true, []layerView{here("a 1", true), here("a 2", true)}, stallError{true, idle}, 30 * time.Second},
		{"a layer that is being unpacked has longer", true, []layerView{here("a 2", false)}, stallError{false, firstByte}, 70 * time.Second},
		{"no layer has begun", true, []layerView{here("", false)}, stallError{false, firstByte}, 70 * time.Second},
		{"what cannot be seen is not judged", true, []layerView{{}}, nil, 0},
		{"before the first words the timer is in charge", false, []layerView{here("of another pull", true)}, stallError{false, firstByte}, firstByte},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, w := newWatch(t.Context(), firstByte, idle)
				begun := time.Now()
				w.follow(ctx, func() layerView {
					return tc.views[min(int(time.Since(begun)/time.Second), len(tc.views)-1)]
				})
				if tc.heard {
					w.addMessage(false, false)
				}
				select {
				case <-ctx.Done():
				case <-time.After(24 * time.Hour):
				}
				lasted := time.Since(begun)
				w.stop()
				cause := context.Cause(ctx)
				if tc.want == nil {
					if !errors.Is(cause, context.Canceled) {
						t.Errorf("it ended with %v", cause)
					}
				} else if cause != tc.want || lasted > tc.at {
					t.Errorf("it ended with %v after %v, want %v within %v", cause, lasted, tc.want, tc.at)
				}
			})
		})
	}
}

func TestWatchLetsAPullGoOnThatMoves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, w := newWatch(t.Context(), time.Minute, 20*time.Second)
		begun := time.Now()
		w.follow(ctx, func() layerView {
			return layerView{visible: true, writing: true, files: time.Since(begun).Truncate(15 * time.Second).String()}
		})
		w.addMessage(false, false)
		<-time.After(time.Hour)
		if ctx.Err() != nil {
			t.Errorf("it ended with %v", context.Cause(ctx))
		}
		w.stop()
	})
}

// A process called podman that has a layer's temporary file open is seen, and so is
// every byte it writes.
func TestLayersOfOtherProcessesAreSeen(t *testing.T) {
	t.Parallel()
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no shell")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "podman") // its name is what /proc says
	if err := os.Symlink(shell, program); err != nil {
		t.Fatal(err)
	}
	layers := filepath.Join(dir, "storage123")
	if err := os.Mkdir(layers, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-c", `exec 5>"$0"; echo open; while read -r word; do echo "$word" >&5; echo done; done`, filepath.Join(layers, "1"))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	answer := func() {
		t.Helper()
		if _, err := out.Read(make([]byte, 16)); err != nil {
			t.Fatal(err)
		}
	}
	// Other processes of this machine may be podman too.
	ours := func() string {
		t.Helper()
		v := viewLayers("/proc")
		for line := range strings.Lines(v.files) {
			if strings.HasPrefix(line, layers) {
				if !v.visible || !v.writing {
					t.Errorf("%+v", v)
				}
				return line
			}
		}
		t.Fatalf("the file is not seen: %+v", v)
		return ""
	}
	answer()
	before := ours()
	if again := ours(); again != before {
		t.Errorf("%q, then %q, and nothing was written", before, again)
	}
	if _, err := in.Write([]byte("word\n")); err != nil {
		t.Fatal(err)
	}
	answer()
	if after := ours(); after == before {
		t.Errorf("%q also after something was written", after)
	}
}
