package stack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/podtask/podtask/internal/atomicfile"
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/define/catalog"
	"github.com/podtask/podtask/internal/define/convert/compose"
	"github.com/podtask/podtask/internal/define/lockfile"
	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/internal/engine/decide/stack"
	"github.com/podtask/podtask/internal/engine/facts/conn"
	"github.com/podtask/podtask/internal/engine/run/stacks"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/serve"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/images/imageage"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// lookUpLimit describes how long the look-up of an image may take; atOnce is how many are looked up or pulled at the same time.
const (
	lookUpLimit = time.Minute
	atOnce      = 8
)

// resolve finds what each image is now: by its digest at the registry, or by its ID if it was built here. If a registry does not answer, the
// images of the present revision stay; the error is for those of which nothing is known.
func (k call) resolve(ctx context.Context, w *wanted, current stack.Revision) error {
	type key struct {
		image    string
		platform taskdef.Platform
	}
	if age := k.c.String("minimum-age"); age != "" {
		if _, err := imageage.ParseAge(age); err != nil {
			return command.Usagef(command.Path(k.c), "--minimum-age: %v", err)
		}
	}
	if path := k.lockPath("locked", w.Source[0]); path != "" {
		return k.applyLock(path, w)
	}
	found, jobs := map[key]string{}, map[key]taskdef.Task{}
	for _, m := range w.Members {
		for _, image := range m.task.Images() {
			jobs[key{image, m.task.Platform}] = m.task
		}
	}
	var g errgroup.Group
	g.SetLimit(atOnce)
	var order []key
	for j := range jobs {
		order = append(order, j)
	}
	results, errs, locks := make([]string, len(order)), make([]error, len(order)), make([]lockfile.Image, len(order))
	for i, j := range order {
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, lookUpLimit)
			defer cancel()
			results[i], locks[i], errs[i] = k.imageNow(ctx, w.Name, jobs[j], j.image, hadImage(current, j.image))
			return nil
		})
	}
	_ = g.Wait() // the errors are in errs
	var missing []error
	for i, j := range order {
		if errs[i] != nil {
			before := hadImage(current, j.image)
			if before == "" {
				missing = append(missing, errs[i])
				found[j] = j.image
				continue
			}
			k.warn("%v: the stack keeps the image that it has", errs[i])
			results[i] = before
		}
		found[j] = results[i]
	}
	for _, m := range w.Members {
		m.Images = map[string]string{}
		for _, image := range m.task.Images() {
			m.Images[image] = found[key{image, m.task.Platform}]
		}
	}
	if path := k.lockPath("lock", w.Source[0]); path != "" && len(missing) == 0 {
		return k.writeLock(path, w, locks)
	}
	return errors.Join(missing...)
}

// imageNow returns what an image is now: NAME:TAG@DIGEST, or stacks.IDPrefix and its ID. While its minimum age has not passed, it is
// what the stack has.
func (k call) imageNow(ctx context.Context, name string, t taskdef.Task, image, had string) (run string, lock lockfile.Image, err error) {
	origin, err := k.engine.Images.Origin(ctx, lifecycle.State{Task: t}, image)
	if err != nil {
		return "", lock, err
	}
	if k.c.String("lock") != "" {
		if lock, err = origin.Lock(image, t, "this host"); err != nil {
			return "", lock, err
		}
	}
	digest := origin.Digest()
	switch {
	case origin.Built != nil:
		return stacks.IDPrefix + origin.Built.ID, lock, nil
	case digest == "":
		return image, lock, nil
	}
	if age := k.c.String("minimum-age"); age != "" {
		t.Extensions.MinimumAge = age
	}
	_, before, _ := strings.Cut(had, "@")
	f := k.engine.Images.Adopt(ctx, imagestore.Asker{Name: imagestore.StackTaker + name, Has: before, Take: k.applies}, lifecycle.State{Task: t}, image, digest)
	if f.Why != "" {
		k.warn("%s: the stack keeps the image that it has: %s", image, f.Why)
	}
	ref, _, _ := strings.Cut(origin.Reference, "@")
	if lock.Digest != f.Digest { // its minimum age has not passed
		lock.Digest, lock.Platforms = f.Digest, nil
	}
	return ref + "@" + f.Digest, lock, nil
}

// hadImage names what a revision runs for an image; empty if it does not have it.
func hadImage(r stack.Revision, image string) string {
	for _, m := range r.Members {
		if run := m.Images[image]; run != "" {
			return run
		}
	}
	return ""
}

// pull makes sure that all images are here, before anything changes. All that cannot be pulled are reported.
func (k call) pull(ctx context.Context, w *wanted) error {
	var g errgroup.Group
	g.SetLimit(atOnce)
	seen := map[string]bool{}
	var errs []error
	var all []func() error
	for _, m := range w.Members {
		for image, run := range m.Images {
			if seen[run] || strings.HasPrefix(run, stacks.IDPrefix) {
				continue
			}
			seen[run] = true
			task := m.task
			task.Containers = slices.Clone(task.Containers)
			for i := range task.Containers {
				if task.Containers[i].Image == image {
					task.Containers[i].Image = run
				}
			}
			all = append(all, func() error {
				_, err := k.engine.Puller.Bring(ctx, lifecycle.State{Task: task, Options: lifecycle.Options{Pull: lifecycle.PullOnce}}, run)
				return err
			})
		}
	}
	errs = make([]error, len(all))
	for i, bring := range all {
		g.Go(func() error { errs[i] = bring(); return nil })
	}
	_ = g.Wait() // the errors are in errs
	return errors.Join(errs...)
}

// ports adds the TCP ports that images say they have (EXPOSE) to members whose file says none, so that others reach them by name. Known is
// false if an image is not here yet, or with an error if Podman does not say.
func (k call) ports(ctx context.Context, w *wanted) (known bool, err error) {
	var unread error // Podman does not say what it has
	known = true
	for _, m := range w.Members {
		if len(m.Names) == 0 || m.Kind != stack.Service {
			continue
		}
		container := m.Names[0].Container
		i := slices.IndexFunc(m.task.Containers, func(c taskdef.Container) bool { return c.Name == container })
		if i < 0 {
			continue
		}
		run := strings.TrimPrefix(m.Images[m.task.Containers[i].Image], stacks.IDPrefix)
		image, found, err := k.engine.Images.Stored(ctx, run)
		known = known && found
		if err != nil {
			unread = err
			continue
		}
		if err := k.addPorts(m, container, image.Ports); err != nil {
			return true, err
		}
	}
	return known, unread
}

// addPorts gives a container ports besides those that it publishes, on the loopback interface of the host.
func (k call) addPorts(m *member, container string, ports []uint16) error {
	all := slices.Clone(ports)
	for _, n := range m.Names {
		if n.Container == container {
			all = append(all, n.Ports...)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	for i := range m.Names {
		m.Names[i].Ports = all
	}
	var doc map[string]any
	decoder := json.NewDecoder(bytes.NewReader(m.Text))
	decoder.UseNumber()
	if err := decoder.Decode(&doc); err != nil {
		return err
	}
	if doc["networkMode"] == "host" {
		return nil
	}
	list, _ := doc["containerDefinitions"].([]any)
	for _, c := range list {
		c, _ := c.(map[string]any)
		if c["name"] != container {
			continue
		}
		mappings, _ := c["portMappings"].([]any)
		for _, p := range all {
			if !publishes(mappings, p) {
				mappings = append(mappings, map[string]any{"containerPort": p, "x-podtask": map[string]any{"hostIP": "127.0.0.1"}})
			}
		}
		if len(mappings) > 0 {
			c["portMappings"] = mappings
		}
	}
	text, err := json.MarshalIndent(doc, "", "    ")
	if err != nil {
		return err
	}
	if m.Text = append(text, '\n'); len(all) == 0 {
		return nil
	}
	return k.define(m)
}

func publishes(mappings []any, port uint16) bool {
	return slices.ContainsFunc(mappings, func(v any) bool {
		p, _ := v.(map[string]any)
		protocol, _ := p["protocol"].(string)
		return fmt.Sprint(p["containerPort"]) == strconv.Itoa(int(port)) && (protocol == "" || protocol == "tcp")
	})
}

// requests makes what the agent is asked for, and the prints.
func (k call) requests(w *wanted) error {
	var errs []error
	for _, m := range w.Members {
		var request any
		var err error
		switch m.Kind {
		case stack.Job:
			t := m.job(w.Name)
			err = k.refer(m, &t.TaskSettings)
			request = t
		case stack.Schedule:
			t := scheduleRequest{NewTask: m.job(w.Name), Times: m.Times}
			err = k.refer(m, &t.TaskSettings)
			request = t
		default:
			var n api.NewService
			if n, err = m.service(w.Name); err == nil {
				err = k.refer(m, &n.TaskSettings)
			}
			request = n
		}
		if err == nil {
			m.Request, err = json.Marshal(request)
		}
		if err == nil {
			m.Print, err = m.print(k.filesOf(w.Name))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// job is the request for the task of a job.
func (m *member) job(name string) api.NewTask {
	t := api.NewTask{Namespace: namespace(name, m.task), TaskOptions: taskOptions(m)}
	if m.Settings != nil {
		t.TaskSettings, t.TaskOptions = m.Settings.TaskSettings, m.Settings.TaskOptions
	}
	return t
}

// refer adds the references of the flags, which come first, and of the member to its settings.
func (k call) refer(m *member, s *api.TaskSettings) error {
	given, err := command.ParseReferences(k.c)
	if err != nil {
		return err
	}
	own := slices.Concat(s.References, m.References)
	s.References = nil
	for _, r := range given {
		s.References = append(s.References, api.Reference{Match: r.Match, Source: r.Text()})
	}
	s.References = append(s.References, own...)
	return nil
}

// namespace is the one of a member: the name of the stack, and none for a task on the network of the host.
func namespace(stack string, t taskdef.Task) string {
	if t.Network == taskdef.NetworkHost || t.Network == taskdef.NetworkNone {
		return ""
	}
	return stack
}

func taskOptions(m *member) (o api.TaskOptions) {
	if m.PIDs > 0 {
		o.PIDsLimit = strconv.FormatInt(m.PIDs, 10)
	}
	return o
}

// service is the request for a service, with all settings, so that an update takes away what is not wanted any more.
func (m *member) service(name string) (api.NewService, error) {
	s := api.ServiceSettings{}
	if m.Settings != nil {
		s = *m.Settings
	}
	none, all := 0, 100
	least, most := all, all+(all+max(m.Copies, 1)-1)/max(m.Copies, 1) // one more copy while they are replaced
	if m.StopFirst {
		least, most = none, all
	}
	d := &s.DeploymentConfiguration
	orElse(&d.MinimumHealthyPercent, least)
	orElse(&d.MaximumPercent, most)
	orElse(&d.DeploymentCircuitBreaker, api.DeploymentCircuitBreaker{Enable: true, Rollback: true})
	listeners, err := m.listeners()
	if err != nil {
		return api.NewService{}, err
	}
	orElse(&s.Listeners, listeners)
	orElse(&s.TestListeners, []api.Listener{})
	space := namespace(name, m.task)
	names := m.serviceNames()
	if space == "" {
		names, space = []api.ServiceName{}, api.NoNamespace
	}
	orElse(&s.Names, names)
	if s.Namespace == "" {
		s.Namespace = space
	}
	m.Takes = nil
	for _, l := range *s.Listeners {
		m.Takes = append(m.Takes, "listen "+l.Address)
	}
	for _, n := range *s.Names {
		m.Takes = append(m.Takes, fmt.Sprintf("name %s:%d", n.Name, n.Port))
	}
	if m.PIDs > 0 {
		s.TaskOptions = taskOptions(m)
	}
	m.preview.settle(&s)
	return api.NewService{DesiredCount: m.Copies, ServiceSettings: s}, nil
}

// orElse sets what no file says.
func orElse[T any](to **T, v T) {
	if *to == nil {
		*to = &v
	}
}

func (m *member) listeners() ([]api.Listener, error) {
	all := []api.Listener{}
	for _, l := range m.Listen {
		listener, err := parseListen(l)
		if err != nil {
			return nil, err
		}
		all = append(all, listener)
	}
	return all, nil
}

// maxNames describes how many names a service may have.
const maxNames = 50

// serviceNames are the names of a member: those of Compose, else its own one, at the TCP ports that its definition has.
func (m *member) serviceNames() []api.ServiceName {
	all := []api.ServiceName{}
	add := func(name, container string, port uint16) {
		if len(all) < maxNames && !slices.ContainsFunc(all, func(n api.ServiceName) bool { return n.Name == name && n.Port == port }) {
			all = append(all, api.ServiceName{Name: name, Port: port, ContainerName: container, ContainerPort: port})
		}
	}
	for _, n := range m.Names {
		for _, p := range n.Ports {
			add(n.Name, n.Container, p)
		}
	}
	if m.Settings == nil {
		return all
	}
	for _, c := range m.task.Containers {
		for _, p := range c.Ports {
			if p.Protocol == "tcp" && p.ContainerPort > 0 && p.Count() == 1 {
				add(m.Name, c.Name, p.ContainerPort)
			}
		}
	}
	return all
}

// parseListen reads [IP:]PORT=CONTAINER:PORT.
func parseListen(text string) (l api.Listener, err error) {
	address, target, _ := strings.Cut(text, "=")
	container, port, _ := strings.Cut(target, ":")
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return l, fmt.Errorf("the address %q: %w", text, err)
	}
	if !strings.Contains(address, ":") {
		address = ":" + address
	}
	if host, p, err := net.SplitHostPort(address); err == nil && (host == "0.0.0.0" || host == "::") {
		address = net.JoinHostPort(host, p)
	}
	return api.Listener{Address: address, ContainerName: container, ContainerPort: uint16(n)}, nil
}

// prepare writes what the definitions need: files, secrets and volumes, and registers the definitions.
func (k call) prepare(ctx context.Context, w *wanted, current stack.Revision) error {
	for _, f := range w.Files {
		path := filepath.Join(k.store.Files(w.Name), f.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := atomicfile.Write(path, f.Data, 0o600); err != nil {
			return err
		}
	}
	podman, err := k.podman(ctx)
	if err != nil {
		return err
	}
	for _, s := range w.Secrets {
		if err := podman.EnsureSecret(ctx, s.Name, owner(w.Name), func(context.Context) ([]byte, error) { return s.Data, nil }); err != nil {
			return err
		}
	}
	if err := volumes(ctx, podman, w); err != nil {
		return err
	}
	if w.Preview != nil {
		if err := k.fill(ctx, w); err != nil {
			return err
		}
	}
	registered, err := k.catalog(k.c)
	if err != nil {
		return err
	}
	for _, m := range w.Members {
		doc := catalog.Document{Family: m.task.Family, Digest: m.digest, File: filepath.Join(m.Dir, filepath.Base(m.Place)), Dir: m.Dir, Source: m.Text}
		var r catalog.Revision
		if before := current.Find(m.Name); !m.finds.Definition.Manifest.Sensitive {
			r, _, err = registered.Register(ctx, doc, time.Now())
		} else if before != nil && before.Print == m.Print { // each registration of its Secrets is a new revision
			m.Definition = before.Definition
			continue
		} else {
			r, err = serve.SecretManifests{Catalog: registered, Engine: k.engine}.Register(ctx, doc, time.Now())
		}
		if err != nil {
			return err
		}
		m.Definition = catalog.Ref{Family: r.Family, Revision: r.Revision}.String()
	}
	return nil
}

// podmanStore makes and removes the volumes and secrets of stacks in Podman.
type podmanStore interface {
	HasVolume(ctx context.Context, name string) (bool, error)
	EnsureVolume(ctx context.Context, v libpod.VolumeSpec) error
	RemoveVolume(ctx context.Context, name, owner string) error
	RemoveVolumes(ctx context.Context, owner string) error
	EnsureSecret(ctx context.Context, name, owner string, read func(context.Context) ([]byte, error)) error
	RemoveSecrets(ctx context.Context, prefix, owner string) error
}

func (k call) podman(ctx context.Context) (podmanStore, error) {
	return conn.As[podmanStore](k.engine.Podman)(ctx)
}

// owner is the value of the label by which the volumes and secrets of a stack are found.
func owner(stack string) string { return "stack." + stack }

// ensureVolume makes a volume of the stack, if there is none. One that is there and is somebody else's is used as it is, and never removed.
func ensureVolume(ctx context.Context, podman podmanStore, v compose.StackVolume, stack string) (made bool, err error) {
	there, err := podman.HasVolume(ctx, v.Name)
	if err != nil || there {
		return false, err
	}
	return true, podman.EnsureVolume(ctx, libpod.VolumeSpec{Name: v.Name, TaskID: owner(stack), Labels: v.Labels, Options: v.Options})
}
