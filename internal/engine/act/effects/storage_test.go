package effects

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/engine/act/admit"
	"github.com/podtask/podtask/internal/engine/act/prober"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/transient"
)

// A Podman with other containers says of each container of a task that there is none. It is not asked.
func TestTasksOfAnotherPodmanAreLeftAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mine, other, link := filepath.Join(dir, "mine"), filepath.Join(dir, "other"), filepath.Join(dir, "link")
	if err := errors.Join(os.Mkdir(mine, 0o700), os.Mkdir(other, 0o700), os.Symlink(mine, link)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		recorded lifecycle.Sandbox
		here     string
		refused  bool
	}{
		{"the same", lifecycle.Sandbox{Storage: mine}, mine, false},
		{"the same by another path", lifecycle.Sandbox{Storage: mine}, link, false},
		{"another one", lifecycle.Sandbox{Storage: mine}, other, true},
		{"one that was moved", lifecycle.Sandbox{Storage: filepath.Join(dir, "gone")}, other, false},
		{"a record of an older version", lifecycle.Sandbox{}, other, false},
		{"a task that is removed", lifecycle.Sandbox{Storage: mine, Phase: lifecycle.SandboxRemoved}, other, false},
		{"one that does not say where", lifecycle.Sandbox{Storage: mine}, "", false},
	} {
		podman := &asked{}
		r := &Interpreter{Storage: func(context.Context) (string, error) { return c.here, nil }, Podman: func(context.Context) (Podman, error) { return podman, nil }}
		s := lifecycle.State{ID: strings.Repeat("a", 32), Sandbox: c.recorded}
		err := r.CheckStorage(t.Context(), s)
		if refused := errors.As(err, new(*ElsewhereError)); refused != c.refused || refused && (!transient.Is(err) || !strings.Contains(err.Error(), "CONTAINER_HOST")) {
			t.Errorf("%s: %v", c.name, err)
		}
		if !c.refused {
			continue
		}
		if _, err := r.apply(t.Context(), s, lifecycle.StopSandbox{}); !errors.As(err, new(*ElsewhereError)) || podman.calls != 0 {
			t.Errorf("%s: an effect ended with %v after %d calls", c.name, err, podman.calls)
		}
	}
}

// Before Podman says where it keeps containers, nothing that it says of a task counts.
func TestAPodmanThatDoesNotAnswerDecidesNothing(t *testing.T) {
	t.Parallel()
	r := &Interpreter{Storage: func(context.Context) (string, error) { return "", errors.New("no answer") }}
	if err := r.CheckStorage(t.Context(), lifecycle.State{Sandbox: lifecycle.Sandbox{Storage: t.TempDir()}}); !transient.Is(err) {
		t.Errorf("the error is %v", err)
	}
}

// asked counts the calls of effects that stop pods.
type asked struct {
	Podman
	calls int
	grace time.Duration // of the last one
}

func (a *asked) StopPod(_ context.Context, _, _ string, grace time.Duration) error {
	a.calls, a.grace = a.calls+1, grace
	return errors.ErrUnsupported // nothing follows
}

// What runs in the pod of a task although it should not, because its start was cut off, is not asked when the task is
// killed.
func TestKillDoesNotWaitForStrays(t *testing.T) {
	t.Parallel()
	for force, want := range map[bool]time.Duration{true: 0, false: strayGrace} {
		podman := &asked{}
		r := &Interpreter{Podman: func(context.Context) (Podman, error) { return podman, nil }, Ports: &admit.PortHolders{}, Prober: &prober.Prober{}}
		if _, err := r.apply(t.Context(), lifecycle.State{ID: strings.Repeat("a", 32), Force: force}, lifecycle.StopSandbox{}); !errors.Is(err, errors.ErrUnsupported) || podman.grace != want {
			t.Errorf("force %v: %v, grace %s", force, err, podman.grace)
		}
	}
}
