package stack

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/part"
	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/define/catalog"
	"github.com/podtask/podtask/internal/define/convert/compose"
	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/internal/engine/decide/stack"
	"github.com/podtask/podtask/internal/engine/run/schedule"
	"github.com/podtask/podtask/internal/engine/run/stacks"
	"github.com/podtask/podtask/internal/host/procgroup"
	"github.com/podtask/podtask/internal/serve/metrics/stackmetrics"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/images/imageage"
	"github.com/podtask/podtask/pkg/taskdef"
)

// previewFlags lists the flags of `podtask stack up` that make a preview.
func previewFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "preview", Usage: "make a copy of the stack called `NAME`, such as pr-42, with its own names, addresses and volumes"},
		&cli.StringFlag{Name: "ttl", Usage: "remove the preview `TIME` after its latest up, such as 36h or 3d", DefaultText: "3d"},
		&cli.StringSliceFlag{Name: "fill", Usage: "fill a new volume of the preview by a command: `VOLUME=COMMAND`; the shell has its name in PODTASK_VOLUME"},
		&cli.StringSliceFlag{Name: "secret", Usage: "let the preview have the secret `SOURCE` of the definitions, such as podman:db-password"},
	}
}

// asleepAfter describes when copies of a preview stop if nobody connects.
const asleepAfter = 15 * time.Minute

// preview holds the changes of a member of a preview.
type preview struct {
	ingress []api.Ingress
	publish []string
	sleeps  bool
}

// previewOf returns the preview that the flags ask for; nil for none.
func (k call) previewOf(of string) (*stack.Preview, error) {
	name := k.c.String("preview")
	if name == "" {
		for _, f := range []string{"ttl", "fill", "secret"} {
			if k.c.IsSet(f) {
				return nil, command.Usagef(command.Path(k.c), "--%s is for previews: give --preview NAME", f)
			}
		}
		return nil, nil
	}
	text := k.c.String("ttl")
	if text == "" {
		text = "3d"
	}
	ttl, err := imageage.ParseAge(text)
	if err != nil || ttl <= 0 {
		return nil, command.Usagef(command.Path(k.c), "--ttl %q is a time such as 36h, 3d or 2w", text)
	}
	p := stack.Preview{Of: of, Name: name}.Ending(ttl, imagestore.Now())
	return p, errors.Join(stack.CheckName(name), stack.CheckName(p.Stack()))
}

// admit checks that a stack is a preview if the record says so, and that there is room for a new one.
func (k call) admit(w *wanted, s stack.State) error {
	switch {
	case s.Preview != nil && (w.Preview == nil || w.Preview.Of != s.Preview.Of || w.Preview.Name != s.Preview.Name):
		return fmt.Errorf("stack %s is a preview: give --preview %s and --name %s, or another name", w.Name, s.Preview.Name, s.Preview.Of)
	case s.Last > 0 && s.Preview == nil && w.Preview != nil:
		return fmt.Errorf("stack %s is there and no preview: give another name of a preview, or remove it first", w.Name)
	case w.Preview == nil:
		return nil
	case s.Preview != nil:
		w.Preview.Filled, w.Preview.Filling = s.Preview.Filled, s.Preview.Filling
		return nil
	}
	return k.room(w.Name)
}

// limitLock names the lock under which previews are counted. No stack can have this name.
const limitLock = "number of previews"

// reserve records a preview before anything of it is made, so that it counts against the limit, and the agent removes it at its end even
// if this process dies. It says too which volumes are missing that commands are to fill.
func (k call) reserve(ctx context.Context, w *wanted, s *stack.State) error {
	if err := k.missing(ctx, w); err != nil {
		return err
	}
	for _, v := range w.Volumes {
		if !slices.Contains(s.Volumes, v.Name) {
			s.Volumes = append(s.Volumes, v.Name)
		}
	}
	lock, err := k.store.LockWait(ctx, limitLock)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	_, err = k.store.Get(s.Name)
	if errors.As(err, new(*stacks.NotFoundError)) {
		err = k.room(s.Name)
	}
	if err != nil {
		return err
	}
	return k.store.Put(*s)
}

// room refuses a new preview if there are as many as this host may have.
func (k call) room(name string) error {
	all, err := k.store.All()
	if err != nil {
		k.warn("%v", err)
	}
	var others []stack.State
	for _, s := range all {
		if s.Preview != nil && s.Name != name {
			others = append(others, s)
		}
	}
	if len(others) < k.previews {
		return nil
	}
	text := fmt.Sprintf("there are %d previews, and stack-previews allows %d", len(others), k.previews)
	if len(others) > 0 {
		first := slices.MinFunc(others, func(a, b stack.State) int { return a.Preview.Until.Compare(b.Preview.Until) })
		text += fmt.Sprintf(": `podtask stack rm --volumes %s` removes the one that ends next", first.Name)
	}
	return errors.New(text)
}

// asPreview gives the members of a stack addresses of their own, and reports all that would be shared with the stack itself.
func (k call) asPreview(w *wanted) error {
	var errs []error
	ports := map[int]bool{}
	w.Volumes = slices.DeleteFunc(w.Volumes, func(v compose.StackVolume) bool { return !k.owns(w.Name, v.Name) }) // nothing mounts them
	for _, m := range w.Members {
		for _, p := range k.shared(w, m) {
			errs = append(errs, fmt.Errorf("%s: %s: %s", m.Place, m.Name, p))
		}
		m.preview = &preview{}
		for i, l := range m.Listen {
			address, target, _ := strings.Cut(l, "=")
			m.Listen[i] = m.move(w.Name, address, ports) + "=" + target
		}
		var given []api.Ingress
		if m.Settings != nil {
			if s := m.Settings; s.Listeners != nil {
				for i, l := range *s.Listeners {
					(*s.Listeners)[i].Address = m.move(w.Name, l.Address, ports)
				}
			}
			if m.Settings.TestListeners = nil; m.Settings.Ingress != nil {
				given = *m.Settings.Ingress
			}
		}
		if given == nil {
			for _, i := range m.task.Extensions.Ingress {
				given = append(given, api.FromIngress(i))
			}
		}
		for _, i := range given {
			u, err := url.Parse(i.URL)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %s: %w", m.Place, m.Name, err))
				continue
			}
			u.Host = w.Preview.Name + "." + u.Host
			m.Notes = append(m.Notes, fmt.Sprintf("its address is %s", u))
			i.URL = u.String()
			m.preview.ingress = append(m.preview.ingress, i)
		}
		for _, c := range m.task.Containers {
			for _, p := range c.Ports {
				if p.HostPort != 0 {
					m.preview.publish = append(m.preview.publish, fmt.Sprintf("127.0.0.1::%d/%s", p.ContainerPort, p.Protocol))
					m.Notes = append(m.Notes, fmt.Sprintf("port %d/%s of the host is a free one", p.HostPort, p.Protocol))
				}
			}
		}
		m.preview.sleeps = len(m.Listen)+len(given) > 0 || m.Settings != nil && m.Settings.Listeners != nil && len(*m.Settings.Listeners) > 0
	}
	return errors.Join(errs...)
}

// move gives an address another port, which is the same each time.
func (m *member) move(stack, address string, taken map[int]bool) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host, port = "", address
	}
	h := fnv.New32a()
	fmt.Fprint(h, stack, ":", port)
	n := 20000 + int(h.Sum32()%10000)
	for taken[n] {
		n++
	}
	taken[n] = true
	moved := net.JoinHostPort(host, strconv.Itoa(n))
	m.Notes = append(m.Notes, fmt.Sprintf("its address %s is %s", address, moved))
	return moved
}

// mapped reports whether a flag such as --map-volume has a name.
func (k call) mapped(flag, name string) bool {
	return slices.ContainsFunc(k.c.StringSlice(flag), func(word string) bool { return strings.HasPrefix(word, name+"=") })
}

// owns reports whether a volume has the name of a stack, and not that of another one whose name begins with it.
func (k call) owns(name, volume string) bool {
	all, _ := k.store.All() // `podtask stack ls` tells what cannot be read
	return strings.HasPrefix(volume, name+"_") && !slices.ContainsFunc(all, func(s stack.State) bool {
		return strings.HasPrefix(s.Name, name+"_") && strings.HasPrefix(volume, s.Name+"_")
	})
}

// shared lists what a member would share with the stack that the preview is of.
func (k call) shared(w *wanted, m *member) (all []string) {
	for _, v := range m.task.Volumes {
		name := v.External
		if name == "" {
			name = v.Name
		}
		switch {
		case k.mapped("map-volume", v.Name):
		case v.Kind == taskdef.VolumeShared && !k.owns(w.Name, name):
			all = append(all, fmt.Sprintf("the volume %s is not the preview's own: leave its name out of the file, or say what it may use with --map-volume %s=podman:VOLUME", name, v.Name))
		case v.Kind == taskdef.VolumeBind:
			m.Notes = append(m.Notes, "it shares "+v.HostPath+" with the stack")
		}
	}
	given := append([]string{compose.SecretPrefix(w.Name)}, k.c.StringSlice("secret")...)
	secret := func(v taskdef.SecretValue) {
		source := strings.TrimPrefix(v.Source, "podman:")
		named := slices.Contains(given, v.Source) || slices.Contains(given, source) || slices.Contains(given, v.ValueFrom) || strings.HasPrefix(source, given[0])
		if v.Source != "" && !named && !k.mapped("map-secret", v.ValueFrom) && !k.mapped("map-secret", v.ID) && !m.finds.Definition.Manifest.Sensitive {
			all = append(all, fmt.Sprintf("the secret %s is only the preview's if you say so: --secret %s, or another one with --map-secret", v.Source, v.Source))
		}
	}
	for _, c := range m.task.Containers {
		for _, s := range c.Secrets {
			for _, v := range s.Values() {
				secret(v)
			}
		}
		for _, f := range c.Extensions.SecretFiles {
			secret(f.SecretValue)
		}
	}
	return all
}

// settle changes the settings of a service of a preview.
func (p *preview) settle(s *api.ServiceSettings) {
	if p == nil {
		return
	}
	if len(p.ingress) > 0 {
		s.Ingress = &p.ingress
	}
	s.Publish = slices.Concat(s.Publish, p.publish)
	if seconds := int(asleepAfter.Seconds()); p.sleeps && s.SleepAfterSeconds == nil {
		s.SleepAfterSeconds = &seconds
	}
}

// filling is a --fill: a command for a volume.
type filling struct{ volume, line string }

func (k call) fillings(w *wanted) (all []filling, err error) {
	for _, word := range k.c.StringSlice("fill") {
		name, line, ok := strings.Cut(word, "=")
		i := slices.IndexFunc(w.Volumes, func(v compose.StackVolume) bool { return v.Name == name || v.Name == w.Name+"_"+name })
		if !ok || i < 0 {
			return nil, command.Usagef(command.Path(k.c), "--fill %q: write VOLUME=COMMAND, the volume being one of the stack", word)
		}
		all = append(all, filling{w.Volumes[i].Name, line})
	}
	return all, nil
}

// missing adds to Filling the volumes of --fill that are not there.
func (k call) missing(ctx context.Context, w *wanted) error {
	all, err := k.fillings(w)
	if err != nil || len(all) == 0 {
		return err
	}
	podman, err := k.podman(ctx)
	if err != nil {
		return err
	}
	for _, f := range all {
		there, err := podman.HasVolume(ctx, f.volume)
		if err != nil {
			return err
		}
		if !there && !slices.Contains(w.Preview.Filling, f.volume) {
			w.Preview.Filling = append(w.Preview.Filling, f.volume)
		}
	}
	return nil
}

// volumes makes the volumes of a stack, and anew those that a command has not filled to its end.
func volumes(ctx context.Context, podman podmanStore, w *wanted) error {
	for _, v := range w.Volumes {
		half := w.Preview != nil && slices.Contains(w.Preview.Filling, v.Name)
		if half {
			if err := podman.RemoveVolume(ctx, v.Name, owner(w.Name)); err != nil {
				return err
			}
		}
		made, err := ensureVolume(ctx, podman, v, w.Name)
		if err != nil {
			return err
		}
		if half && !made { // somebody has made it meanwhile
			w.Preview.Filling = slices.DeleteFunc(w.Preview.Filling, func(name string) bool { return name == v.Name })
		}
	}
	return nil
}

// fill runs the commands that fill volumes of a preview which were missing. A signal, or --timeout, ends a command with all that it has
// started.
func (k call) fill(ctx context.Context, w *wanted) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	all, err := k.fillings(w)
	if err != nil {
		return err
	}
	p := w.Preview
	for _, f := range all {
		i := slices.Index(p.Filling, f.volume)
		if i < 0 {
			if !slices.Contains(p.Filled, f.volume) {
				k.warn("The volume %s was there already, and is not filled: --fill is for new volumes.", f.volume)
			}
			continue
		}
		if err := k.fillOne(ctx, f.volume, f.line); err != nil {
			return fmt.Errorf("fill the volume %s: %w", f.volume, err)
		}
		p.Filling = slices.Delete(p.Filling, i, i+1)
		if !slices.Contains(p.Filled, f.volume) { // it is in there if it was removed since
			p.Filled = append(p.Filled, f.volume)
		}
	}
	p.Filling = slices.DeleteFunc(p.Filling, func(name string) bool { // those that were made again, and need no command now
		return slices.ContainsFunc(w.Volumes, func(v compose.StackVolume) bool { return v.Name == name })
	})
	return nil
}

func (k call) fillOne(parent context.Context, volume, line string) error {
	ctx, cancel := parent, func() {}
	limit := k.c.Duration("timeout")
	if limit > 0 {
		ctx, cancel = context.WithTimeout(parent, limit)
	}
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", line)
	cmd.Env = append(k.environ(), "PODTASK_VOLUME="+volume)
	cmd.Stdout, cmd.Stderr = k.errOut, k.errOut
	procgroup.Lead(cmd, syscall.SIGTERM)
	cmd.WaitDelay = fillGrace
	err := cmd.Start()
	if err == nil {
		err = procgroup.Wait(cmd)
	}
	switch {
	case parent.Err() != nil:
		return errStopped
	case ctx.Err() != nil:
		return fmt.Errorf("its command has not ended after %s; --timeout gives it another time", limit)
	}
	return err
}

// fillGrace is the time between SIGTERM and SIGKILL for a command that fills a volume.
const fillGrace = 2 * time.Second

// agent makes an agent measure stacks, and remove previews at their end.
func agent(a *part.Agent) error {
	store, err := stacks.Open(a.StateDir, state.OS{})
	if err != nil {
		return err
	}
	timed, err := schedule.Open(a.StateDir, state.OS{})
	if err != nil {
		return err
	}
	start := time.Now()
	all, _ := store.All() // `podtask stack ls` tells what cannot be read
	boot := stacks.NewBoot(all)
	boot.Look, boot.Now, boot.After, boot.Log = a.Backend.Controller.State, func() time.Duration { return time.Since(start) }, time.After, a.Log
	a.Backend.Controller.Await = boot.Await
	a.Collect(stackmetrics.New(func() []stack.State {
		all, _ := store.All() // those that cannot be read have no metrics
		return all
	}, boot.Waiting))
	a.Run(func(ctx context.Context) error {
		return stacks.Sweeper{
			Store: store, Now: imagestore.Now, After: time.After, Log: a.Log,
			Remove: func(ctx context.Context, name string) error { return removePreview(ctx, a, store, timed, name) },
		}.Run(ctx)
	})
	return nil
}

// removeLimit describes how long an agent tries to remove a preview before it looks at others.
const removeLimit = 10 * time.Minute

// removePreview removes a preview with its volumes.
func removePreview(ctx context.Context, a *part.Agent, store *stacks.Store, timed *schedule.Store, name string) error {
	ctx, cancel := context.WithTimeout(ctx, removeLimit)
	defer cancel()
	client, err := api.Dial(ctx, a.Socket)
	if err != nil {
		return err
	}
	defer client.Close()
	k := call{agent: client, c: cli.NewContext(&cli.App{}, flag.NewFlagSet("", flag.ContinueOnError), nil), options: options{
		store: store, schedules: timed, units: schedule.Units{Getenv: a.Getenv}, out: io.Discard, errOut: io.Discard, getenv: a.Getenv, engine: a.Engine,
		warn:    func(format string, args ...any) { a.Log.Warn(fmt.Sprintf(format, args...), "stack", name) },
		catalog: func(*cli.Context) (*catalog.Catalog, error) { return define.OpenCatalog(a.StateDir, "podtask agent") },
	}}
	lock, err := store.Lock(name)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	s, err := store.Get(name)
	if err != nil || s.Preview == nil || s.Preview.Left(imagestore.Now()) > 0 {
		return err // somebody was faster
	}
	return k.removeNow(ctx, s, true)
}
