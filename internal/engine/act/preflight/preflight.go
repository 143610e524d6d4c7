package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/podtask/podtask/internal/engine/act/admit"
	"github.com/podtask/podtask/internal/engine/act/limits"
	"github.com/podtask/podtask/internal/engine/act/tasksecrets"
	"github.com/podtask/podtask/internal/engine/facts/conn"
	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/internal/host/doctor"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/netns"
	"github.com/podtask/podtask/pkg/ports"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Checker finds out whether this host can run a task, before anything is made.
type Checker struct {
	Root     fs.FS // the host's files
	Getenv   func(string) string
	StateDir string
	Podman   func(context.Context) (Podman, error)
	User     *conn.UserManager
	Facts    *conn.Facts
	Ledger   *admit.Ledger
	Queue    *admit.Queue
	Ports    *admit.PortHolders
	Secrets  *tasksecrets.Store
}

// Examine checks whether tasks can run here. It changes nothing, but may start Podman's
// service. Facts are nil if Podman does not answer.
func (p *Checker) Examine(ctx context.Context) (findings []doctor.Finding, facts *libpod.Host) {
	d := p.doctorInput()
	ask, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	found, err := p.Facts.Get(ask)
	if err == nil {
		facts = &found
		d.Podman, err = podmanFor(found)
	}
	d.PodmanError = err
	_, d.ManagerError = p.User.Get(ask)
	return doctor.Examine(ctx, d), facts
}

// doctorInput is this host for the doctor, without what Podman reports.
func (p *Checker) doctorInput() doctor.Host {
	d := doctor.Host{
		Root: p.Root, Getenv: p.Getenv, UID: os.Getuid(), User: strconv.Itoa(os.Getuid()),
		Home: p.Getenv("HOME"), StateDir: p.StateDir,
		LookPath: lookPath, Output: output, Free: conn.FreeSpace,
	}
	if u, err := user.Current(); err == nil {
		d.User, d.Home = u.Username, cmp.Or(d.Home, u.HomeDir)
	}
	return d
}

// tooOld refuses a Podman version that podtask does not support.
func tooOld(podman Podman) error {
	if f := doctor.VersionFinding(podman.Version()); f.Level == doctor.Fail {
		return errors.New(f.String())
	}
	return nil
}

// checkNetwork refuses a task that names a network program that does not work here, or a
// network that does not exist.
func checkNetwork(ctx context.Context, podman Podman, t taskdef.Task) error {
	if name, joins := t.Joined(); joins {
		return checkJoined(ctx, podman, name)
	}
	program := t.Extensions.Network
	if program == "" || program == taskdef.NetworkShared {
		return nil
	}
	installed := func(program string) bool {
		_, err := lookPath(program)
		return err == nil
	}
	if f := doctor.NetworkFinding(program, podman.Version(), installed); f.Level == doctor.Fail {
		return errors.New(f.String())
	}
	return nil
}

// checkGPUs refuses GPUs that Podman would not give to a container.
func checkGPUs(podman Podman, t taskdef.Task) error {
	v := podman.Version()
	for _, c := range t.Containers {
		if c.Linux.GPUs == 0 {
			continue
		}
		if v.LT(libpod.CDISince) {
			return describe(c, "GPUs need Podman %d, and this is %s, which does not read what vendors' tools write about them", libpod.CDISince.Major, v)
		}
		if dirs, usual := libpod.CDISpecDirs(); !usual && v.LT(libpod.CDISpecDirsSince) {
			return describe(c, "Podman %s does not look for GPUs in %s, as cdi_spec_dirs of containers.conf says: put their description in /etc/cdi, or use Podman %d.%d",
				v, strings.Join(dirs, ", "), libpod.CDISpecDirsSince.Major, libpod.CDISpecDirsSince.Minor)
		}
	}
	return nil
}

func checkJoined(ctx context.Context, podman Podman, name string) error {
	found, err := podman.HasNetwork(ctx, name)
	if err == nil && !found {
		err = fmt.Errorf("network %s does not exist: create it with `podman network create %s`, or name another one", name, name)
	}
	return err
}

// checkHostReady refuses a task if this host lacks what Podman needs, with the doctor's
// messages. It judges only a Podman that finds programs in the usual places.
func (p *Checker) checkHostReady(ctx context.Context, podman Podman, t taskdef.Task, o lifecycle.Options) error {
	if p.Getenv("CONTAINER_HOST") != "" || !usualPodman() {
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
	d.Podman = &doctor.Podman{Version: podman.Version()}
	var errs []error
	for _, f := range doctor.Failures(doctor.ExamineOnly(ctx, d, vital...)) {
		errs = append(errs, errors.New(f.String()))
	}
	if t.Bridged() {
		errs = append(errs, p.checkBridge(ctx, d))
	}
	return errors.Join(errs...)
}

// usualPodman reports whether Podman is installed where distributions install it. A wrapped
// one (Nix, Homebrew) finds programs elsewhere, and the socket of a Podman that is not
// installed here may be shared with a toolbox container.
func usualPodman() bool {
	path, err := lookPath("podman")
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	return err == nil && (strings.HasPrefix(path, "/usr/") || strings.HasPrefix(path, "/bin/"))
}

// checkBridge refuses a task whose containers cannot have networks of their own here.
// Podman is asked for its backend, which takes a while, only if the usual one cannot.
func (p *Checker) checkBridge(ctx context.Context, d doctor.Host) error {
	if doctor.BridgeFinding(d).Level != doctor.Fail {
		return nil
	}
	facts, err := p.Facts.Get(ctx)
	if err != nil {
		return err
	}
	d.Podman.NetworkBackend = facts.NetworkBackend
	if f := doctor.BridgeFinding(d); f.Level == doctor.Fail {
		return errors.New(f.String())
	}
	return nil
}

// explain adds the doctor's findings to the error of a Podman that does not answer.
func (p *Checker) explain(ctx context.Context, err error) error {
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

// CheckLimits returns an error if the quota cannot be applied to the task here, or is more
// than this host has. It changes nothing.
func (p *Checker) CheckLimits(s lifecycle.State, q lifecycle.Quota) error {
	if err := checkQuota(s.Task, q); err != nil {
		return err
	}
	if s.Options.Limits == limits.Off {
		return errors.New("it runs with --limits off: run it again with limits")
	}
	wanted := s
	wanted.Options.Quota = q
	if err := p.Queue.Budget().Refuse(wanted.Need()); err != nil {
		return err
	}
	host := cgroups.Detect(p.Root, os.Getuid(), p.Getenv)
	asked := changed(s.Options.Quota, q)
	if missing := host.Missing(asked); len(missing) > 0 {
		return fmt.Errorf("this host cannot apply %s limits: %s", strings.Join(missing, ", "), host.ReasonFor(asked))
	}
	return nil
}

// CheckResources returns an error if the task cannot have these resources on this host while it runs. It
// changes nothing. A limit that the task runs without cannot be changed either.
func (p *Checker) CheckResources(s lifecycle.State, r lifecycle.Resources) error {
	if r.Equal(s.Task) {
		return nil
	}
	if s.Options.Limits == limits.Off {
		return errors.New("it runs with --limits off")
	}
	wanted := s
	wanted.Task = r.Apply(s.Task)
	if err := errors.Join(p.Queue.Budget().Refuse(wanted.Need()), checkQuota(wanted.Task, s.Options.Quota)); err != nil {
		return err
	}
	host, asked := cgroups.Detect(p.Root, os.Getuid(), p.Getenv), differing(s, wanted)
	missing := host.Missing(asked)
	for _, c := range asked.Controllers() {
		if slices.Contains(s.Options.Unapplied, c) && !slices.Contains(missing, c) {
			missing = append(missing, c)
		}
	}
	if len(missing) > 0 {
		reason := host.ReasonFor(asked)
		if reason == "" {
			reason = "the task was started without them"
		}
		return fmt.Errorf("this host cannot apply %s limits: %s", strings.Join(missing, ", "), reason)
	}
	if s.Sandbox.Slice == "" {
		return errors.New("the task has no systemd slice, so limits of its containers cannot be changed")
	}
	return nil
}

// differing has a limit for each controller that the difference between two states of a task needs.
func differing(a, b lifecycle.State) (l cgroups.Limits) {
	before, after := lifecycle.ResourcesOf(a.Task), lifecycle.ResourcesOf(b.Task)
	cpu, memory := before.CPU != after.CPU, before.Memory != after.Memory
	for i, c := range after.Containers {
		old := before.Containers[i]
		cpu = cpu || c.CPU != old.CPU || c.CPULimit != old.CPULimit
		memory = memory || c.Memory != old.Memory || c.MemoryReservation != old.MemoryReservation
	}
	if cpu {
		l.CPUWeight = 100
	}
	if memory {
		l.Memory = 1
	}
	return l
}

// changed returns the limits that q changes: one that the task already runs without is
// no reason to refuse the others.
func changed(old, q lifecycle.Quota) (l cgroups.Limits) {
	if q.CPU != old.CPU {
		l.CPU = q.CPU
	}
	if q.Memory != old.Memory {
		l.Memory = q.Memory
	}
	if q.TasksMax != old.TasksMax {
		l.TasksMax = q.TasksMax
	}
	if q.IOWeight != old.IOWeight {
		l.IOWeight = q.IOWeight
	}
	return l
}

// secretsHidden is the first Podman whose inspect hides variables that are secrets.
var secretsHidden = [2]int{5, 3}

// Warnings returns what this host's Podman does differently from what users of the task may
// expect.
func (p *Checker) Warnings(ctx context.Context, t taskdef.Task) []string {
	if !slices.ContainsFunc(t.Containers, func(c taskdef.Container) bool { return len(c.Secrets) > 0 }) {
		return nil
	}
	host, err := p.Facts.Get(ctx)
	var version [2]int
	if err == nil {
		_, err = fmt.Sscanf(host.Version, "%d.%d", &version[0], &version[1])
	}
	if err != nil || slices.Compare(version[:], secretsHidden[:]) >= 0 {
		return nil
	}
	return []string{fmt.Sprintf("podman inspect of Podman %s shows variables that are secrets, to this user; give secrets as files (x-podtask.secretFiles), or use Podman %d.%d",
		host.Version, secretsHidden[0], secretsHidden[1])}
}

// Podman knows its version, and which networks exist.
type Podman interface {
	Version() semver.Version
	HasNetwork(ctx context.Context, name string) (bool, error)
}

// Check finds out whether this host can run the task, before anything is
// created: limits, the budget of all tasks, ports, devices, secrets and Podman. A port
// that another task holds is not a problem: the task waits for it. The error contains all
// problems.
func (p *Checker) Check(ctx context.Context, t taskdef.Task, o lifecycle.Options) error {
	errs := []error{p.Ledger.RefuseDraining()}
	errs = append(errs, p.Queue.Budget().Refuse(lifecycle.State{Task: t, Options: o}.Need()))
	missing, reason, err := p.Unsupported(ctx, t, o)
	if err != nil {
		errs = append(errs, p.explain(ctx, err))
	}
	if len(missing) > 0 && o.Limits == limits.Enforce {
		errs = append(errs, &LimitsError{Controllers: missing, Reason: reason})
	}
	errs = append(errs, checkQuota(t, o.Quota))
	if _, err := ports.Plan(ports.OfTask(t), ports.Host{
		UnprivilegedStart: netns.UnprivilegedStart(), Free: netns.FreePort, Taken: p.Queue.PortIsTaken(),
	}); err != nil {
		errs = append(errs, p.Ports.ExplainPlan(err, ports.OfTask(t)))
	}
	errs = append(errs, p.checkHost(t))
	if err == nil {
		errs = append(errs, p.explain(ctx, p.checkPodman(ctx, t, o)))
	}
	return errors.Join(errs...)
}

// checkPodman asks Podman whether it can run the task. A fake that does not know its
// version is asked for secrets only.
func (p *Checker) checkPodman(ctx context.Context, t taskdef.Task, o lifecycle.Options) error {
	podman, err := p.Podman(ctx)
	if errors.Is(err, errors.ErrUnsupported) {
		return p.Secrets.Check(ctx, t)
	}
	if err != nil {
		return err
	}
	return errors.Join(tooOld(podman), checkGPUs(podman, t), checkNetwork(ctx, podman, t), p.checkHostReady(ctx, podman, t, o), p.Secrets.Check(ctx, t))
}

// checkQuota refuses numbers that no host can apply, and less memory than a
// container of the task may use.
func checkQuota(t taskdef.Task, q lifecycle.Quota) error {
	errs := []error{taskspec.TaskLimits(t, q, cgroups.Curve{}).Check()}
	for _, c := range t.Containers {
		if most := max(c.Memory, c.MemoryReservation); q.Memory > 0 && most > q.Memory {
			errs = append(errs, fmt.Errorf("the task's memory of %d bytes is less than the %d of its container %s: give the task more", q.Memory, most, c.Name))
		}
	}
	return errors.Join(errs...)
}

// DefaultTasksMax limits the processes and threads of a task that sets no other number:
// enough for ten large servers, and far below what stops a host. A host that cannot apply
// it is no problem.
const DefaultTasksMax = 4096

// Defaults adds the default limits to the quota, as far as this host can apply them.
func (p *Checker) Defaults(ctx context.Context, o lifecycle.Options) lifecycle.Options {
	o.Quota.ImplicitShares, o.Quota.CountContainers = false, true
	if o.Limits == limits.Off {
		return o
	}
	controllers := cgroups.Detect(p.Root, os.Getuid(), p.Getenv).Controllers
	if o.Quota.TasksMax == 0 && slices.Contains(controllers, "pids") {
		o.Quota.TasksMax = DefaultTasksMax
	}
	if slices.Contains(controllers, "cpu") {
		facts, err := p.Facts.Get(ctx)
		o.Quota.ImplicitShares = err == nil && facts.CgroupManager == "systemd"
	}
	return o
}

// LimitsError reports limits of a task that this host cannot apply.
type LimitsError struct {
	Controllers []string
	Reason      string
}

func (e *LimitsError) Error() string {
	msg := fmt.Sprintf("this host cannot apply the task's %s limits", strings.Join(e.Controllers, ", "))
	if e.Reason != "" {
		msg += ": " + e.Reason
	}
	return msg + "; or run without them: --limits best-effort"
}

// LimitsReason explains why limits of cpu, memory or processes cannot be applied on this host; empty if they can.
func (p *Checker) LimitsReason() string {
	return cgroups.Detect(p.Root, os.Getuid(), p.Getenv).Reason
}

// Unsupported returns the controllers that the definition needs and this host does not
// provide, and why. The share of a container without cpu requires none.
func (p *Checker) Unsupported(ctx context.Context, t taskdef.Task, o lifecycle.Options) (missing []string, reason string, err error) {
	declared := o.Quota
	declared.ImplicitShares = false
	wanted := taskspec.TaskLimits(t, declared, cgroups.Curve{})
	for _, c := range t.Containers {
		// Container limits need the same controllers; the numbers do not matter here.
		wanted.Memory = max(wanted.Memory, c.Memory)
		wanted.MemoryLow = max(wanted.MemoryLow, c.MemoryReservation)
		if c.CPU > 0 || c.Extensions.CPULimit > 0 {
			wanted.CPUWeight = 100
		}
	}
	if o.Limits == limits.Off || len(wanted.Controllers()) == 0 {
		return nil, "", nil
	}
	host := cgroups.Detect(p.Root, os.Getuid(), p.Getenv)
	if missing := host.Missing(wanted); len(missing) > 0 {
		return missing, host.ReasonFor(wanted), nil
	}
	facts, err := p.Facts.Get(ctx)
	if err != nil {
		return nil, "", err
	}
	if facts.CgroupManager != "systemd" {
		return wanted.Controllers(), fmt.Sprintf("Podman's cgroup manager is %s, which applies no limits rootless; set cgroup_manager = \"systemd\" in containers.conf", facts.CgroupManager), nil
	}
	return nil, "", nil
}
