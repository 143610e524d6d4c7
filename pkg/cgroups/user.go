package cgroups

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

// ErrNoUserManager is the error if there is no systemd user manager.
var ErrNoUserManager = errors.New("no systemd user manager")

// User is a connection to the systemd manager of the user who runs the program.
// It is safe for concurrent use.
type User struct {
	conn *systemd.Conn
	root fs.FS // "/"
}

// Dial connects to the user manager: over the session bus
// (DBUS_SESSION_BUS_ADDRESS, else $XDG_RUNTIME_DIR/bus), else over systemd's own
// socket ($XDG_RUNTIME_DIR/systemd/private), which needs no bus daemon. It never
// starts a bus. Ctx bounds only the dialing. Without a manager the error
// satisfies errors.Is(err, ErrNoUserManager). The caller closes the connection.
func Dial(ctx context.Context, getenv func(string) string) (*User, error) {
	var tried []error
	for _, a := range addresses(getenv) {
		conn, err := systemd.NewConnection(sync.OnceValues(func() (*dbus.Conn, error) { return dial(ctx, a) })) // one for calls and signals
		if err != nil {
			tried = append(tried, fmt.Errorf("%s: %w", a.address, err))
			continue
		}
		u := &User{conn: conn, root: os.DirFS("/")}
		// A session bus may exist without systemd.
		if err := u.Available(ctx); err != nil {
			tried = append(tried, fmt.Errorf("%s: %w", a.address, err))
			u.Close()
			continue
		}
		return u, nil
	}
	if len(tried) == 0 {
		return nil, fmt.Errorf("%w: neither DBUS_SESSION_BUS_ADDRESS nor XDG_RUNTIME_DIR leads to one; "+
			"log in with ssh or 'machinectl shell' rather than su or sudo", ErrNoUserManager)
	}
	return nil, fmt.Errorf("%w: %w", ErrNoUserManager, errors.Join(tried...))
}

// busAddress is an address at which a manager may be reached.
type busAddress struct {
	address string
	peer    bool // systemd itself, without a bus daemon
}

// addresses returns the addresses to try, best first. Only existing sockets are listed,
// and the address is always passed to the library, which would otherwise run dbus-launch.
func addresses(getenv func(string) string) []busAddress {
	var found []busAddress
	dir := getenv("XDG_RUNTIME_DIR")
	if bus := getenv("DBUS_SESSION_BUS_ADDRESS"); bus != "" {
		found = append(found, busAddress{address: bus})
	} else if socket := filepath.Join(dir, "bus"); filepath.IsAbs(dir) && isSocket(socket) {
		found = append(found, busAddress{address: "unix:path=" + dbus.EscapeBusAddressValue(socket)})
	}
	if socket := filepath.Join(dir, "systemd", "private"); filepath.IsAbs(dir) && isSocket(socket) {
		found = append(found, busAddress{address: "unix:path=" + dbus.EscapeBusAddressValue(socket), peer: true})
	}
	return found
}

func isSocket(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode()&fs.ModeSocket != 0
}

// dial makes one authenticated connection. The library closes a connection when
// its context ends, so the connection gets one that does not, and ctx closes it
// only while dialing.
func dial(ctx context.Context, a busAddress) (*dbus.Conn, error) {
	conn, err := dbus.Dial(a.address, dbus.WithContext(context.WithoutCancel(ctx)))
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	// The number, not the name, which would need a lookup.
	err = conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Getuid()))})
	if err == nil && !a.peer {
		err = conn.Hello()
	}
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// Connected is false when the connection has been lost.
func (u *User) Connected() bool { return u.conn.Connected() }

// Close ends the connection. Units stay.
func (u *User) Close() { u.conn.Close() }

// Available returns nil when the manager answers.
func (u *User) Available(ctx context.Context) error {
	if _, err := u.conn.SystemStateContext(ctx); err != nil {
		return fmt.Errorf("systemd user manager does not answer: %w", err)
	}
	return nil
}

// Stopping reports whether the user manager is shutting down, with the host or at the
// end of the user's last session: SystemState "stopping" (systemd,
// org.freedesktop.systemd1.Manager). All units of the user end then.
func (u *User) Stopping(ctx context.Context) (bool, error) {
	p, err := u.conn.SystemStateContext(ctx)
	if err != nil {
		return false, fmt.Errorf("ask the systemd user manager for its state: %w", err)
	}
	word, _ := p.Value.Value().(string)
	return word == "stopping", nil
}

// EnsureSlice creates the slice with the limits, or applies the limits to an existing
// slice, and returns when the slice is active. I/O accounting is on if the io controller
// is delegated. Call ReadBack to find out whether the limits have an effect.
func (u *User) EnsureSlice(ctx context.Context, name string, l Limits) error {
	props, err := Properties(l)
	if err != nil {
		return fmt.Errorf("make %s: %w", name, err)
	}
	err = startSlice(ctx, u.conn, name, props)
	if isBusError(err, "UnitExists") {
		err = adoptSlice(ctx, u.conn, name, l)
	}
	if err != nil {
		return fmt.Errorf("make %s: %w", name, err)
	}
	return nil
}

func startSlice(ctx context.Context, conn *systemd.Conn, name string, limits []systemd.Property) error {
	props := append([]systemd.Property{
		systemd.PropDescription("podtask task " + strings.TrimSuffix(strings.TrimPrefix(name, slicePrefix), sliceSuffix)),
		stringProp("CollectMode", "inactive-or-failed"),       // otherwise a failed slice would block the name forever
		{Name: "IOAccounting", Value: dbus.MakeVariant(true)}, // accounting of the other controllers is on anyway
	}, limits...)
	return await(ctx, func(done chan<- string) error {
		_, err := conn.StartTransientUnitContext(ctx, name, "fail", props, done)
		return err
	})
}

// adoptSlice takes over a slice left by an earlier process, or one that systemd created
// without limits because a pod named it.
func adoptSlice(ctx context.Context, conn *systemd.Conn, name string, l Limits) error {
	if err := setLimits(ctx, conn, name, l); err != nil {
		return err
	}
	return await(ctx, func(done chan<- string) error {
		_, err := conn.StartUnitContext(ctx, name, "fail", done) // no-op for an active one
		return err
	})
}

func setLimits(ctx context.Context, conn *systemd.Conn, name string, l Limits) error {
	props, err := Replacement(l)
	if err != nil {
		return err
	}
	return conn.SetUnitPropertiesContext(ctx, name, true, props...)
}

// Change replaces the limits of an active slice, removes those that are not in l, and reports
// whether there is such a slice. Systemd 252 would make the cgroup of one that is not active, and keep
// it and the limits. Call ReadBack to find out whether the limits have an effect.
func (u *User) Change(ctx context.Context, name string, l Limits) (active bool, err error) {
	state, err := u.conn.GetUnitPropertyContext(ctx, name, "ActiveState")
	if err != nil {
		return false, fmt.Errorf("ask systemd for the state of %s: %w", name, err)
	}
	if state.Value.Value() != "active" {
		return false, nil
	}
	if err := setLimits(ctx, u.conn, name, l); err != nil {
		return true, fmt.Errorf("change the limits of %s: %w", name, err)
	}
	return true, nil
}

// LimitSwap sets the limit of swap of a unit, in bytes, and leaves its other limits as they
// are.
func LimitSwap(ctx context.Context, u *User, unit string, bytes uint64) error {
	err := u.conn.SetUnitPropertiesContext(ctx, unit, true, systemd.Property{Name: "MemorySwapMax", Value: dbus.MakeVariant(bytes)})
	if err != nil {
		return fmt.Errorf("limit the swap of %s: %w", unit, err)
	}
	return nil
}

// LimitContainer replaces the limits of CPU and memory of the container whose scope is at that place in the
// cgroup tree, and leaves its others as they are. Limits that are not in l are removed. Call
// CheckContainer to find out whether they have an effect.
func LimitContainer(ctx context.Context, u *User, scope string, l Limits) error {
	props, err := containerProperties(l)
	if err == nil {
		err = u.conn.SetUnitPropertiesContext(ctx, path.Base(scope), true, props...)
	}
	if err == nil {
		err = limitInner(path.Join("/sys/fs/cgroup", scope, innerGroup), l)
	}
	if err != nil {
		return fmt.Errorf("change the limits of %s: %w", path.Base(scope), err)
	}
	return nil
}

// limitInner writes the limits to the cgroup within a scope that some versions of crun make for the
// container, and that systemd does not know. Most have none.
func limitInner(dir string, l Limits) error {
	files := Wanted(l)
	for file, none := range map[string]string{"cpu.max": "max", "memory.max": "max", "memory.swap.max": "max", "memory.low": "0"} {
		text, limited := files[file]
		if !limited {
			text = none
		}
		f, err := os.OpenFile(path.Join(dir, file), os.O_WRONLY, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		_, err = f.WriteString(text)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// ReadBack compares the limits with the kernel's values for the slice. The error is an
// *UndelegatedError when controllers are missing and a *NotAppliedError when the files
// say something else.
func (u *User) ReadBack(ctx context.Context, name string, l Limits) error {
	want := Wanted(l)
	if len(want) == 0 {
		return nil
	}
	group, err := controlGroup(ctx, u.conn, name)
	if err != nil {
		return fmt.Errorf("read limits of %s: %w", name, err)
	}
	v := version(u.root)
	dir := path.Join("sys/fs/cgroup", group)
	if v == Hybrid {
		dir = path.Join("sys/fs/cgroup/unified", group)
	}
	got := make(map[string]string)
	for file := range want {
		text, err := fs.ReadFile(u.root, path.Join(dir, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read limits of %s: %w", name, err)
		}
		got[file] = string(text)
	}
	return judge(name, v, controllers(u.root, ""), Compare(l, got))
}

// controlGroup returns the slice's path below the cgroup root. Systemd makes the
// cgroup when the slice starts.
func controlGroup(ctx context.Context, conn *systemd.Conn, name string) (string, error) {
	prop, err := conn.GetUnitTypePropertyContext(ctx, name, "Slice", "ControlGroup")
	if err != nil {
		return "", err
	}
	group, _ := prop.Value.Value().(string)
	if group == "" {
		return "", errors.New("the slice has no cgroup: it is not active")
	}
	return group, nil
}

// StopSlice stops the slice and everything in it. It succeeds if the slice does not
// exist. A scope in it that failed, such as that of a monitor that was killed, is reset:
// systemd would keep the slice in memory for it.
func (u *User) StopSlice(ctx context.Context, name string) error {
	inside, err := unitsIn(ctx, u, name)
	if err != nil {
		return err
	}
	if err := u.StopService(ctx, name); err != nil {
		return err
	}
	for _, unit := range inside {
		if err := u.ResetFailed(ctx, unit); err != nil {
			return err
		}
	}
	return nil
}

// unitsIn returns the units that need the slice, and those that need them.
func unitsIn(ctx context.Context, u *User, slice string) (found []string, err error) {
	for next := []string{slice}; len(next) > 0; next = next[1:] {
		p, err := u.conn.GetUnitPropertyContext(ctx, next[0], "RequiredBy")
		if err != nil {
			if isBusError(err, "NoSuchUnit") {
				continue
			}
			return nil, fmt.Errorf("ask systemd what is in %s: %w", next[0], err)
		}
		units, _ := p.Value.Value().([]string)
		for _, unit := range units {
			if !slices.Contains(found, unit) {
				found, next = append(found, unit), append(next, unit)
			}
		}
	}
	return found, nil
}

// ListSlices returns the names of all task slices of this user, of all podtask processes.
func (u *User) ListSlices(ctx context.Context) ([]string, error) {
	units, err := u.conn.ListUnitsByPatternsContext(ctx, nil, []string{slicePrefix + "*" + sliceSuffix})
	if err != nil {
		return nil, fmt.Errorf("list slices: %w", err)
	}
	var names []string
	for _, unit := range units {
		if _, ours := TaskID(unit.Name); ours {
			names = append(names, unit.Name)
		}
	}
	return names, nil
}

// ResetFailed resets the failed state of a unit, so that a unit of that name can start
// again: a container killed because of memory may leave a failed scope. It succeeds if
// the unit is not loaded.
func (u *User) ResetFailed(ctx context.Context, unit string) error {
	err := u.conn.ResetFailedUnitContext(ctx, unit)
	if err != nil && !isBusError(err, "NoSuchUnit") {
		return fmt.Errorf("reset %s: %w", unit, err)
	}
	return nil
}

// RunTransient starts argv as a transient service of the user manager and
// returns when it has been executed. Argv[0] is an absolute path; env holds
// "NAME=value" entries beside the manager's own. Both can be read by other
// processes of the user: no secrets there. When the service is stopped, only its
// main process is: what it started stays. If the main process fails or is killed, systemd
// runs argv again, at most serviceStarts times in serviceStartsIn.
func (u *User) RunTransient(ctx context.Context, unit string, argv, env []string) error {
	if len(argv) == 0 || !filepath.IsAbs(argv[0]) {
		return fmt.Errorf("start %s: the program must be an absolute path", unit)
	}
	props := serviceProps(unit, argv, env)
	err := await(ctx, func(done chan<- string) error {
		_, err := u.conn.StartTransientUnitContext(ctx, unit, "fail", props, done)
		return err
	})
	if err != nil {
		return fmt.Errorf("start %s: %w", unit, err)
	}
	return nil
}

// A service that keeps failing is given up.
const (
	serviceStarts   = 5
	serviceStartsIn = 5 * time.Minute
)

// serviceProps are the properties of a transient service.
func serviceProps(unit string, argv, env []string) []systemd.Property {
	props := []systemd.Property{
		systemd.PropDescription(filepath.Base(argv[0]) + " " + unit),
		systemd.PropExecStart(argv, false),
		systemd.PropType("exec"),
		stringProp("KillMode", "process"),
		stringProp("CollectMode", "inactive-or-failed"),
		stringProp("Restart", "on-failure"), // a signal such as SIGKILL is a failure, too
		{Name: "RestartUSec", Value: dbus.MakeVariant(uint64(time.Second / time.Microsecond))},
		{Name: "StartLimitIntervalUSec", Value: dbus.MakeVariant(uint64(serviceStartsIn / time.Microsecond))},
		{Name: "StartLimitBurst", Value: dbus.MakeVariant(uint32(serviceStarts))},
	}
	if len(env) > 0 {
		props = append(props, systemd.Property{Name: "Environment", Value: dbus.MakeVariant(env)})
	}
	return props
}

func stringProp(name, value string) systemd.Property {
	return systemd.Property{Name: name, Value: dbus.MakeVariant(value)}
}

// await starts a job and waits for its result. If ctx ends first, the job continues.
func await(ctx context.Context, start func(done chan<- string) error) error {
	done := make(chan string, 1) // so that the library never blocks
	if err := start(done); err != nil {
		return err
	}
	select {
	case result := <-done:
		if result != "done" {
			return fmt.Errorf("systemd says %q: see 'journalctl --user'", result)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// isBusError reports whether err is systemd's error with that name.
func isBusError(err error, name string) bool {
	var busErr dbus.Error
	return errors.As(err, &busErr) && busErr.Name == "org.freedesktop.systemd1."+name
}

// Reload makes the manager run its generators and reload all units (systemctl
// daemon-reload).
func (u *User) Reload(ctx context.Context) error {
	if err := u.conn.ReloadContext(ctx); err != nil {
		return fmt.Errorf("reload systemd's units: %w", err)
	}
	return nil
}

// ActiveState returns the state of a unit: active, inactive, failed, activating,
// deactivating or reloading. A unit that does not exist is inactive.
func (u *User) ActiveState(ctx context.Context, unit string) (string, error) {
	p, err := u.conn.GetUnitPropertyContext(ctx, unit, "ActiveState")
	if err != nil {
		return "", fmt.Errorf("ask systemd for the state of %s: %w", unit, err)
	}
	state, _ := p.Value.Value().(string)
	return state, nil
}

// StopService stops a service and waits until it has stopped. It succeeds if the service
// does not exist.
func (u *User) StopService(ctx context.Context, unit string) error {
	err := await(ctx, func(done chan<- string) error {
		_, err := u.conn.StopUnitContext(ctx, unit, "replace", done)
		return err
	})
	if err != nil && !isBusError(err, "NoSuchUnit") {
		return fmt.Errorf("stop %s: %w", unit, err)
	}
	return nil
}

// RestartService stops and starts a service, and waits until it is ready.
func (u *User) RestartService(ctx context.Context, unit string) error {
	err := await(ctx, func(done chan<- string) error {
		_, err := u.conn.RestartUnitContext(ctx, unit, "replace", done)
		return err
	})
	if err != nil {
		return fmt.Errorf("restart %s: %w", unit, err)
	}
	return nil
}
