package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/blang/semver/v4"
	"golang.org/x/sys/unix"

	"github.com/podtask/podtask/pkg/doctor"
	"github.com/podtask/podtask/pkg/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// askLimit bounds each question of Examine: a hung Podman is a finding too.
const askLimit = 20 * time.Second

// Examine looks for what keeps tasks from running here. It changes nothing, but
// may start Podman's service. Facts are nil when Podman does not answer.
func (p *Preflight) Examine(ctx context.Context) (findings []doctor.Finding, facts *libpod.Host) {
	d := p.doctorInput()
	ask, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	found, err := p.facts.Get(ask)
	if err == nil {
		facts = &found
		d.Podman, err = podmanFor(found)
	}
	d.PodmanError = err
	_, d.ManagerError = p.user.Get(ask)
	return doctor.Examine(ctx, d), facts
}

// factsAge is how long what Podman said about the machine is taken for true.
const factsAge = time.Minute

// Get is what Podman says about the machine. It is asked at most once a minute,
// because the answer takes it as long as a pod, and by one caller at a time.
func (f *Facts) Get(ctx context.Context) (libpod.Host, error) {
	podman, err := f.podman(ctx)
	if err != nil {
		return libpod.Host{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.at) < factsAge {
		return f.facts, nil
	}
	facts, err := podman.Host(ctx)
	if err == nil {
		f.facts, f.at = facts, time.Now()
	}
	return facts, err
}

func podmanFor(f libpod.Host) (*doctor.Podman, error) {
	version, err := semver.ParseTolerant(f.Version)
	if err != nil {
		return nil, fmt.Errorf("podman says its version is %q: %w", f.Version, err)
	}
	return &doctor.Podman{
		Version: version, Socket: f.Socket, CgroupManager: f.CgroupManager, Runtime: f.Runtime,
		NetworkBackend: f.NetworkBackend, GraphRoot: f.GraphRoot, Rootless: f.Rootless,
	}, nil
}

// doctorInput is this host as doctor sees it, before anybody was asked anything.
func (p *Preflight) doctorInput() doctor.Host {
	d := doctor.Host{
		Root: hostRoot, Getenv: p.getenv, UID: os.Getuid(), User: strconv.Itoa(os.Getuid()),
		Home: p.getenv("HOME"), StateDir: p.stateDir,
		LookPath: lookPath, Output: output, Free: free,
	}
	if u, err := user.Current(); err == nil {
		d.User, d.Home = u.Username, firstNonEmpty(d.Home, u.HomeDir)
	}
	return d
}

func firstNonEmpty(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// lookPath finds a program where Podman does: also in the directories of root's
// programs, which the PATH of a user may lack.
func lookPath(program string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/libexec/podman", "/usr/local/lib/podman", "/usr/libexec/podman", "/usr/lib/podman"} {
		if path, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return path, nil
		}
	}
	return "", exec.ErrNotFound
}

func output(ctx context.Context, program string, args ...string) string {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	out, _ := exec.CommandContext(ctx, program, args...).Output() // the words count, not the code
	return strings.TrimSpace(string(out))
}

// free is of the file system of the nearest directory that is there.
func free(path string) (bytes uint64, files int, err error) {
	var fs unix.Statfs_t
	err = unix.Statfs(path, &fs)
	if errors.Is(err, unix.ENOENT) && path != filepath.Dir(path) {
		return free(filepath.Dir(path))
	}
	if err != nil {
		return 0, 0, err
	}
	files = 100 // a file system without such a bound says 0
	if fs.Files > 0 {
		files = int(fs.Ffree * 100 / fs.Files)
	}
	return fs.Bavail * uint64(fs.Bsize), files, nil
}

// versioned is Podman that knows its version without asking.
type versioned interface{ Version() semver.Version }

// tooOld refuses a Podman that podtask does not work with.
func tooOld(podman Podman) error {
	if v, knows := podman.(versioned); knows {
		if f := doctor.VersionFinding(v.Version()); f.Level == doctor.Fail {
			return errors.New(f.String())
		}
	}
	return nil
}

// checkNetwork refuses a task that names a program for its network which cannot
// connect it here, or a network that is not there.
func checkNetwork(ctx context.Context, podman Podman, t taskdef.Task) error {
	if name, joins := t.Joined(); joins {
		return checkJoined(ctx, podman, name)
	}
	program := t.Extensions.Network
	v, knows := podman.(versioned)
	if program == "" || program == taskdef.NetworkShared || !knows {
		return nil
	}
	installed := func(program string) bool {
		_, err := lookPath(program)
		return err == nil
	}
	if f := doctor.NetworkFinding(program, v.Version(), installed); f.Level == doctor.Fail {
		return errors.New(f.String())
	}
	return nil
}

func checkJoined(ctx context.Context, podman Podman, name string) error {
	networks, knows := podman.(interface {
		HasNetwork(ctx context.Context, name string) (bool, error)
	})
	if !knows {
		return nil
	}
	found, err := networks.HasNetwork(ctx, name)
	if err == nil && !found {
		err = fmt.Errorf("there is no network %s: make it with podman network create %s, or name another one", name, name)
	}
	return err
}

// checkHostReady refuses a task for which this host lacks what its Podman needs, in
// doctor's words. It judges only a Podman that finds programs where everybody does.
func (p *Preflight) checkHostReady(ctx context.Context, podman Podman, t taskdef.Task, o lifecycle.Options) error {
	v, knows := podman.(versioned)
	if !knows || p.getenv("CONTAINER_HOST") != "" || !usualPodman() {
		return nil
	}
	var vital []string
	if o.Pull != lifecycle.PullNever {
		vital = append(vital, "policy")
	}
	byDefault := t.Extensions.Network == "" || t.Extensions.Network == taskdef.NetworkShared
	if byDefault && t.Network != taskdef.NetworkHost && t.Network != taskdef.NetworkNone {
		vital = append(vital, "network")
	}
	d := p.doctorInput()
	d.Podman = &doctor.Podman{Version: v.Version()}
	var errs []error
	for _, f := range doctor.Failures(doctor.ExamineOnly(ctx, d, vital...)) {
		errs = append(errs, errors.New(f.String()))
	}
	if t.Bridged() {
		errs = append(errs, p.checkBridge(ctx, d))
	}
	return errors.Join(errs...)
}

// usualPodman tells whether the host's own Podman is here, and where distributions put
// it. One that is wrapped (Nix, Homebrew) finds programs in places of its own, and the
// socket of one that is not here may be shared with a container of tools.
func usualPodman() bool {
	path, err := lookPath("podman")
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	return err == nil && (strings.HasPrefix(path, "/usr/") || strings.HasPrefix(path, "/bin/"))
}

// checkBridge refuses a task whose containers cannot have networks of their own here.
// Podman is asked for its backend, which takes a while, only where the usual one cannot.
func (p *Preflight) checkBridge(ctx context.Context, d doctor.Host) error {
	if doctor.BridgeFinding(d).Level != doctor.Fail {
		return nil
	}
	facts, err := p.facts.Get(ctx)
	if err != nil {
		return err
	}
	d.Podman.NetworkBackend = facts.NetworkBackend
	if f := doctor.BridgeFinding(d); f.Level == doctor.Fail {
		return errors.New(f.String())
	}
	return nil
}

// explain adds to the error of a Podman that does not answer what is wrong with
// the host, in doctor's words.
func (p *Preflight) explain(ctx context.Context, err error) error {
	var e *libpod.Error
	if !errors.As(err, &e) || e.Class != libpod.Unavailable {
		return err
	}
	errs := []error{err}
	d := p.doctorInput()
	d.PodmanError = err
	for _, f := range doctor.Failures(doctor.Examine(ctx, d)) {
		if f.Check != "socket" { // the error itself says that
			errs = append(errs, errors.New(f.String()))
		}
	}
	return errors.Join(errs...)
}
