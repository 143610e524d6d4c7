package serve

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/define/catalog"
	"github.com/podtask/podtask/internal/define/pod"
	"github.com/podtask/podtask/internal/engine/act/tasksecrets"
	"github.com/podtask/podtask/internal/engine/run/services"
	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"

	svc "github.com/podtask/podtask/pkg/service"
)

// ServiceBackend implements api.ServiceBackend for an agent.
type ServiceBackend struct {
	// Controller runs the services.
	Controller *services.Services
	// stateDir is where task definitions are registered.
	stateDir string
	reader   define.Reader
	secrets  *tasksecrets.Store
	images   localImages
}

// localImages refuses the images of a task that only local storage can have, and does not, and resolves tags.
type localImages interface {
	CheckLocal(ctx context.Context, t taskdef.Task, o lifecycle.Options) error
	Allow(ctx context.Context, s lifecycle.State, ref, digest string) error
	TakeTags(ctx context.Context, s lifecycle.State) (digests map[string]string, failed map[string]error)
}

// Services implements api.ServiceBackend.
func (k ServiceBackend) Services(context.Context) ([]api.Service, error) {
	all, now := []api.Service{}, time.Now()
	for _, s := range k.Controller.States() {
		all = append(all, api.FromService(s, now))
	}
	return all, nil
}

// wireService converts a service and an error to those of the API.
func wireService(s svc.State, err error) (api.Service, error) {
	switch {
	case err == nil:
		return api.FromService(s, time.Now()), nil
	case errors.Is(err, services.ErrNoService):
		err = api.Failed(api.NotFound, "%v", err)
	case errors.Is(err, services.ErrServiceExists), errors.As(err, new(*services.BadServiceError)):
		err = api.Failed(api.Conflict, "%v", err)
	}
	return api.Service{}, err
}

// Service implements api.ServiceBackend.
func (k ServiceBackend) Service(_ context.Context, name string) (api.Service, error) {
	return wireService(k.Controller.State(name))
}

// CreateService implements api.ServiceBackend.
func (k ServiceBackend) CreateService(ctx context.Context, n api.NewService) (api.Service, error) {
	spec, err := k.startable(ctx, n.TaskDefinition, n.ServiceSettings, n.DesiredCount)
	if err == nil {
		spec, err = k.Follow(ctx, n.ServiceName, n.ServiceSettings, spec, svc.Spec{})
	}
	if err != nil {
		return api.Service{}, err
	}
	if err := n.DeploymentConfiguration.Check(""); err != nil {
		return api.Service{}, err
	}
	config := configured(svc.Config{Breaker: svc.Breaker{Enable: true, Rollback: true}}, spec, n.ServiceSettings)
	return wireService(k.Controller.Create(ctx, n.ServiceName, spec, n.DesiredCount, config))
}

// UpdateService implements api.ServiceBackend.
func (k ServiceBackend) UpdateService(ctx context.Context, name string, u api.ServiceUpdate) (api.Service, error) {
	for tries := 0; ; tries++ {
		s, err := k.update(ctx, name, u)
		if tries == services.MaxTries || !errors.Is(err, services.ErrChanged) {
			return s, err
		}
	}
}

// update makes a change of the present state of a service.
func (k ServiceBackend) update(ctx context.Context, name string, u api.ServiceUpdate) (api.Service, error) {
	now, err := k.Controller.State(name)
	if err != nil {
		return wireService(now, err)
	}
	if err := checkAutoUpdate(u.AutoUpdate); err != nil {
		return api.Service{}, err
	}
	auto := cmp.Or(u.AutoUpdate, now.Config.AutoUpdate)
	again := auto != "" && auto != api.NoAutoUpdate && (u.ForceNewDeployment || now.Config.AutoUpdate == "")
	if u.TaskDefinition == "" && (again || !u.TaskSettings.Empty() || u.TaskOptions != (api.TaskOptions{})) {
		u.TaskDefinition, u.KeepChanges = now.Primary().TaskDefinition, true
	}
	if before := api.FromService(now, time.Now()).Changes; u.KeepChanges && before != nil {
		kept := api.TaskChanges{TaskSettings: u.TaskSettings, TaskOptions: u.TaskOptions}.Over(*before)
		u.TaskSettings, u.TaskOptions = kept.TaskSettings, kept.TaskOptions
	}
	spec := now.Primary().Spec
	c := services.Change{From: &now, DesiredCount: u.DesiredCount, Force: u.ForceNewDeployment}
	if u.TaskDefinition == "" {
		if c.Grown, err = k.grown(ctx, now, u.DesiredCount); err != nil {
			return api.Service{}, err
		}
	} else {
		count := now.DesiredCount
		if u.DesiredCount != nil {
			count = *u.DesiredCount
		}
		if spec, err = k.startable(ctx, u.TaskDefinition, u.ServiceSettings, count); err == nil {
			follow := api.ServiceSettings{AutoUpdate: auto, Digests: u.Digests}
			spec, err = k.Follow(ctx, name, follow, spec, now.Primary().Spec)
		}
		if err != nil {
			return api.Service{}, err
		}
		switch present := now.Primary().Spec; {
		case !u.ForceNewDeployment && grow(present, spec) != nil:
			c.Grown = grow(present, spec)
		case u.ForceNewDeployment || !sameSpec(spec, present):
			c.Spec = &spec
		}
	}
	if err := u.DeploymentConfiguration.Check(now.Config.Method.Strategy); err != nil {
		return api.Service{}, err
	}
	if d := u.DeploymentConfiguration; d != (api.DeploymentConfiguration{}) || u.AutoUpdate != "" || u.HealthCheckGracePeriodSeconds != nil || u.Listeners != nil || u.TestListeners != nil || u.Ingress != nil || u.DrainSeconds != nil || u.SleepAfterSeconds != nil || u.HoldSeconds != nil || u.Namespace != "" || u.Names != nil {
		c.Config = func(present svc.Config) svc.Config { return configured(present, spec, u.ServiceSettings) }
	}
	return wireService(k.Controller.Update(ctx, name, c))
}

// sameSpec reports whether copies of two specs are the same. A record of an earlier version has no changes.
func sameSpec(next, present svc.Spec) bool {
	if present.Changes == nil {
		next.Changes = nil
	}
	a, err := fingerprint(next)
	b, err2 := fingerprint(present)
	return err == nil && err2 == nil && bytes.Equal(a, b)
}

// podFile finds the names of files of Pods.
var podFile = lazy.MustCompile(pod.SecretPrefix + "[0-9a-f]+")

// fingerprint is a spec as JSON, without what differs each time a Pod is read: its UID, and names that follow from that.
func fingerprint(s svc.Spec) ([]byte, error) {
	files := s.Files
	s.Files = nil
	data, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	for _, t := range s.Tasks() {
		if p, err := pod.From("", t); err == nil && p.UID != "" {
			data = bytes.ReplaceAll(data, []byte(p.UID), []byte("UID"))
		}
	}
	var names [][]byte
	data = podFile.Get().ReplaceAllFunc(data, func(name []byte) []byte {
		i := slices.IndexFunc(names, func(known []byte) bool { return bytes.Equal(known, name) })
		if i < 0 {
			i, names = len(names), append(names, name)
		}
		return strconv.AppendInt(nil, int64(i), 10)
	})
	for _, name := range names {
		data = append(append(data, 0), files[string(name)]...)
	}
	return data, nil
}

// RollbackService implements api.ServiceBackend.
func (k ServiceBackend) RollbackService(ctx context.Context, name string, gradual bool) (api.Service, error) {
	return wireService(k.Controller.Rollback(ctx, name, gradual))
}

// ContinueService implements api.ServiceBackend.
func (k ServiceBackend) ContinueService(ctx context.Context, name string, q api.ContinueRequest) (api.Service, error) {
	return wireService(k.Controller.Continue(ctx, name, q.Hook, q.Rollback))
}

// WakeService implements api.ServiceBackend.
func (k ServiceBackend) WakeService(ctx context.Context, name, by string) (api.Service, error) {
	return wireService(k.Controller.Wake(ctx, name, by))
}

// RemoveService implements api.ServiceBackend.
func (k ServiceBackend) RemoveService(ctx context.Context, name string, force bool) error {
	_, err := wireService(k.Controller.Remove(ctx, name, force))
	return err
}

// WatchService implements api.ServiceBackend.
func (k ServiceBackend) WatchService(ctx context.Context, name string, fn func(api.Service) bool) error {
	return k.Controller.Watch(ctx, name, func(s svc.State) bool { return fn(api.FromService(s, time.Now())) })
}

// Reader reads documents as the configuration of the agent says.
func (k ServiceBackend) Reader() define.Reader { return k.reader }

// startable is Spec for a request of a user, who learns at once that an image is not there: a copy could only fail. A
// request to the API of ECS is accepted, as ECS does, and its deployment fails.
func (k ServiceBackend) startable(ctx context.Context, definition string, s api.ServiceSettings, count int) (svc.Spec, error) {
	spec, err := k.Spec(ctx, definition, s, count)
	if err != nil {
		return spec, err
	}
	options, err := k.Controller.OptionsOf(spec)
	if err != nil {
		return spec, api.Failed(api.BadRequest, "%v", err)
	}
	if err := k.images.CheckLocal(ctx, spec.Task, options); err != nil {
		return spec, api.Failed(api.Conflict, "%v", err)
	}
	return spec, nil
}

// Spec makes what copies of a service have in common of a registered definition, and of that of a StatefulSet a number of
// copies, at least one. Errors about it are those of the API.
func (k ServiceBackend) Spec(ctx context.Context, definition string, s api.ServiceSettings, count int) (svc.Spec, error) {
	ref, err := catalog.ParseRef(definition)
	if err != nil {
		return svc.Spec{}, api.Failed(api.BadRequest, "taskDefinition: %v", err)
	}
	registered, err := define.OpenCatalog(k.stateDir, "podtask agent")
	if err != nil {
		return svc.Spec{}, err
	}
	r, src, err := registered.Find(ref)
	if errors.Is(err, catalog.ErrNotFound) {
		return svc.Spec{}, api.Failed(api.BadRequest, "task definition %v; `podtask taskdef ls` lists what is", err)
	}
	if err != nil {
		return svc.Spec{}, err
	}
	changes, err := ChangesOf(s.TaskSettings, s.TaskOptions)
	if err != nil {
		return svc.Spec{}, err
	}
	d, err := read(k.reader, define.Registered(r, src), changes)
	if err != nil {
		return svc.Spec{}, err
	}
	task, files, err := d.PrepareCopies(ctx, k.secrets)
	if err != nil {
		return svc.Spec{}, api.Failed(api.BadRequest, "%v", err)
	}
	task = d.PublishAll(task)
	if files == nil {
		files = make(map[string][]byte)
	}
	given, err := json.Marshal(api.TaskChanges{TaskSettings: s.TaskSettings, TaskOptions: s.TaskOptions})
	if err != nil {
		return svc.Spec{}, err
	}
	spec := svc.Spec{TaskDefinition: d.Document.Name, Task: task, Options: changes.Options, Files: files, Changes: given}
	err = k.number(ctx, d, changes, count, &spec)
	return spec, err
}

// number adds the copies of a controller that numbers its Pods to a spec that has the first one, and their files.
func (k ServiceBackend) number(ctx context.Context, d define.Definition, changes define.Changes, count int, spec *svc.Spec) error {
	set := d.Manifest.Numbered
	if set == nil {
		return nil
	}
	if count > svc.MaxNumbered {
		return api.Failed(api.BadRequest, "a StatefulSet has up to %d copies here, not %d", svc.MaxNumbered, count)
	}
	spec.Numbered = &svc.Numbered{First: set.First, Parallel: set.Parallel, Tasks: []taskdef.Task{spec.Task}}
	for changes.Copy = 1; changes.Copy < count; changes.Copy++ {
		next, err := read(k.reader, d.Document, changes)
		if err != nil {
			return err
		}
		task, files, err := next.PrepareCopies(ctx, k.secrets)
		if err != nil {
			return api.Failed(api.BadRequest, "%v", err)
		}
		maps.Copy(spec.Files, files)
		spec.Numbered.Tasks = append(spec.Numbered.Tasks, next.PublishAll(task))
	}
	return nil
}

// grown returns the spec of a service with other numbered copies behind those that it has, where a count asks for more; nil
// if none is needed.
func (k ServiceBackend) grown(ctx context.Context, now svc.State, count *int) (*svc.Spec, error) {
	p := now.Primary()
	if p.Numbered == nil || count == nil || *count <= p.Limit() {
		return nil, nil
	}
	var changes api.TaskChanges
	if len(p.Changes) > 0 {
		if err := json.Unmarshal(p.Changes, &changes); err != nil {
			return nil, err
		}
	}
	spec, err := k.startable(ctx, p.TaskDefinition, api.ServiceSettings{TaskSettings: changes.TaskSettings, TaskOptions: changes.TaskOptions}, *count)
	if err != nil {
		return nil, err
	}
	grown := grow(p.Spec, spec.PinAs(p.Spec))
	if grown == nil {
		return nil, api.Failed(api.Conflict, "%s would not be made as the copies that run, because this host has changed: `podtask service update %s FILE --count %d` replaces them", p.TaskDefinition, now.Name, *count)
	}
	return grown, nil
}

// grow returns a spec with the numbered copies that the next one has behind those of the present one; nil if it has none, or
// differs otherwise.
func grow(present, next svc.Spec) *svc.Spec {
	if next.Numbered == nil || present.Numbered == nil || next.Limit() <= present.Limit() {
		return nil
	}
	first, more := *next.Numbered, next.Numbered.Tasks[present.Limit():]
	first.Tasks = next.Numbered.Tasks[:present.Limit()]
	same := next
	same.Numbered, same.Changes = &first, present.Changes
	if !sameSpec(same, present) {
		return nil
	}
	grown, numbered := present, *present.Numbered
	numbered.Tasks = append(slices.Clone(numbered.Tasks), more...)
	grown.Numbered, grown.Changes, grown.Files = &numbered, next.Changes, maps.Clone(next.Files)
	maps.Copy(grown.Files, present.Files)
	return &grown
}

// configured returns a configuration with the changes of a request. Spec is that of the copies.
func configured(c svc.Config, spec svc.Spec, s api.ServiceSettings) svc.Config {
	d := s.DeploymentConfiguration
	c.Bounds = c.Bounds.Override(d.MinimumHealthyPercent, d.MaximumPercent)
	if b := d.DeploymentCircuitBreaker; b != nil {
		c.Breaker = b.Breaker()
	}
	if g := s.HealthCheckGracePeriodSeconds; g != nil {
		c.HealthCheckGracePeriod = taskdef.Span(*g, time.Second)
	}
	c.Method = d.Method(c.Method)
	if s.Listeners != nil {
		c.Listeners = listeners(*s.Listeners)
	}
	if s.TestListeners != nil {
		c.TestListeners = listeners(*s.TestListeners)
	}
	c.Names = namesOf(c.Names, s)
	if s.Ingress != nil {
		all := []taskdef.Ingress{}
		for _, i := range *s.Ingress {
			all = append(all, i.Ingress())
		}
		c.Ingress = &all
	}
	if s.SleepAfterSeconds != nil || s.HoldSeconds != nil {
		sleep := c.SleepOf(spec.Task)
		if n := s.SleepAfterSeconds; n != nil {
			sleep.After = taskdef.Span(*n, time.Second)
		}
		if n := s.HoldSeconds; n != nil {
			sleep.Hold = taskdef.Span(*n, time.Second)
		}
		c.Sleep = &sleep
	}
	if n := s.DrainSeconds; n != nil {
		c.DrainTimeout = taskdef.Span(*n, time.Second)
	}
	switch s.AutoUpdate {
	case "":
	case api.NoAutoUpdate:
		c.AutoUpdate = ""
	default:
		c.AutoUpdate = s.AutoUpdate
	}
	return c
}

// namesOf returns names with the changes of a request.
func namesOf(n svc.Names, s api.ServiceSettings) svc.Names {
	if s.Names != nil {
		n.Offered = nil
		for _, o := range *s.Names {
			n.Offered = append(n.Offered, svc.Name{Name: o.Name, Port: o.Port, PortName: o.PortName, Container: o.ContainerName, ContainerPort: o.ContainerPort})
		}
	}
	switch {
	case s.Namespace == api.NoNamespace:
		n.Namespace = ""
	case s.Namespace != "":
		n.Namespace = s.Namespace
	}
	return n
}

func listeners(given []api.Listener) (all []svc.Listener) {
	for _, l := range given {
		all = append(all, svc.Listener{Address: l.Address, Container: l.ContainerName, Port: l.ContainerPort, ProxyProtocol: l.ProxyProtocol})
	}
	return all
}
