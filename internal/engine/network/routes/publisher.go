package routes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/podtask/podtask/internal/forward"
	"github.com/podtask/podtask/internal/ingress"
	"github.com/podtask/podtask/internal/ingress/routefile"
	"github.com/podtask/podtask/internal/sleep"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Publisher writes the routes of all services. Its methods may be called concurrently.
type Publisher struct {
	log          *slog.Logger
	file, socket string
	client       *http.Client

	mu sync.Mutex
	// routes are what the file has, or had before the agent started.
	routes    []routefile.Route
	listeners []routefile.Listener
	written   bool // the file is as routes have it
	status    *ingress.Status
	// certificates are the files of certificates from secrets. Those with true are of no route yet.
	certificates map[string]bool
}

// Open reads the routes that the agent before has left. A file that cannot be read is replaced with the
// first change.
func Open(stateDir, runtimeDir string, log *slog.Logger) *Publisher {
	p := &Publisher{log: log, file: routefile.Path(stateDir), socket: ingress.SocketPath(runtimeDir)}
	p.client = ingress.Client(p.socket)
	p.findCertificates()
	t, err := routefile.Read(p.file)
	if err != nil {
		log.Warn("the routes of the ingress proxy are written anew", "error", err)
		return p
	}
	p.routes, p.listeners, p.written = t.Routes, t.Listeners, true
	if len(t.Listeners) > 0 { // so that the agent does not open those that the proxy has
		ctx, cancel := context.WithTimeout(context.Background(), firstAnswer)
		defer cancel()
		if p.status, err = p.Ask(ctx); err != nil {
			log.Warn("the ingress proxy does not say where it listens", "error", err)
		}
	}
	return p
}

// Keep forgets the routes of services that are not among these.
func (p *Publisher) Keep(services []string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := slices.DeleteFunc(slices.Clone(p.routes), func(r routefile.Route) bool { return !slices.Contains(services, r.Service) })
	listeners := slices.DeleteFunc(slices.Clone(p.listeners), func(l routefile.Listener) bool { return !slices.Contains(services, l.Service) })
	return p.replace(kept, listeners)
}

// firstAnswer limits the time that a proxy may take to answer an agent that starts.
const firstAnswer = 2 * time.Second

// Set replaces the routes and listeners of a service. Those with an address that another service has are left out, and
// returned.
func (p *Publisher) Set(name string, routes []routefile.Route, listeners ...routefile.Listener) (refused []service.Unheard, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(p.routes), func(r routefile.Route) bool { return r.Service == name })
	taken := make(map[taskdef.Address]string)
	for _, r := range all {
		if a, err := taskdef.ParseAddress(r.URL); err == nil {
			taken[a] = r.Service
		}
	}
	for _, r := range routes {
		a, err := taskdef.ParseAddress(r.URL)
		if err != nil {
			refused = append(refused, service.Unheard{Address: r.URL, Problem: err.Error()})
			continue
		}
		if other, is := taken[a]; is {
			refused = append(refused, service.Unheard{Address: r.URL, Problem: fmt.Sprintf("service %s uses it already", other)})
			continue
		}
		taken[a] = name
		r.Service = name
		all = append(all, r)
	}
	listen := slices.DeleteFunc(slices.Clone(p.listeners), func(l routefile.Listener) bool { return l.Service == name })
	for _, l := range listeners {
		if i := slices.IndexFunc(listen, func(o routefile.Listener) bool { return o.Address == l.Address }); i >= 0 {
			refused = append(refused, service.Unheard{Address: l.Address, Problem: fmt.Sprintf("service %s uses it already", listen[i].Service)})
			continue
		}
		l.Service = name
		listen = append(listen, l)
	}
	return refused, p.replace(all, listen)
}

// Listens reports whether the proxy listens at an address for a service.
func (p *Publisher) Listens(name, address string) bool {
	status := p.Status()
	return status != nil && !status.Ending && slices.ContainsFunc(status.Listeners, func(l ingress.Listener) bool {
		return l.Service == name && l.Address == address && l.Problem == ""
	})
}

// Awaits reports whether the proxy would listen at an address for a service, and another process, perhaps this one, has the port.
func (p *Publisher) Awaits(name, address string) bool {
	status := p.Status()
	return status != nil && !status.Ending && slices.ContainsFunc(status.Listeners, func(l ingress.Listener) bool {
		return l.Service == name && l.Address == address && l.Awaited
	})
}

// Pass hands a listener at an address of a service to the proxy, which also accepts its connections when Pass returns.
func (p *Publisher) Pass(ctx context.Context, address string, l *net.TCPListener) error {
	if err := ingress.Pass(ctx, p.socket, address, l); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.status != nil { // until it says so itself
		now := *p.status
		now.Listeners = slices.Clone(now.Listeners)
		for i := range now.Listeners {
			if l := &now.Listeners[i]; l.Address == address && l.Awaited {
				l.Awaited, l.Problem = false, ""
			}
		}
		p.status = &now
	}
	return nil
}

// Take takes the listeners at an address from a proxy that ends; none from any other.
func (p *Publisher) Take(ctx context.Context, address string) (all []net.Listener) {
	if status := p.Status(); status == nil || !status.Ending {
		return nil
	}
	for {
		l, err := ingress.Take(ctx, p.socket, address)
		if err != nil {
			if !errors.Is(err, ingress.ErrNotGiven) {
				p.log.Warn("a listener is not taken from the ingress proxy, which ends", "address", address, "error", err)
			}
			return all
		}
		all = append(all, l)
	}
}

// replace writes the routes, if they differ. The caller holds mu.
func (p *Publisher) replace(all []routefile.Route, listeners []routefile.Listener) error {
	t := routefile.Table{Routes: all, Listeners: listeners}
	t.Sort()
	if p.written && sameRoutes(p.routes, t.Routes) && sameListeners(p.listeners, t.Listeners) || !p.written && len(all)+len(listeners) == 0 && !exists(p.file) {
		return nil
	}
	p.routes, p.listeners, p.written = t.Routes, t.Listeners, false
	dir := filepath.Dir(p.file)
	if slices.ContainsFunc(all, func(r routefile.Route) bool { return r.CertificateSource != "" }) {
		dir = p.certificateDir() // the proxy follows it before the first file is there
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := routefile.Write(p.file, t); err != nil {
		return fmt.Errorf("write the routes of the ingress proxy: %w", err)
	}
	p.written = true
	p.removeCertificates()
	return nil
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

func sameRoutes(a, b []routefile.Route) bool {
	return slices.EqualFunc(a, b, func(x, y routefile.Route) bool {
		return x.Service == y.Service && x.Ingress == y.Ingress && x.CertificateSource == y.CertificateSource && x.Sleep == y.Sleep && reflect.DeepEqual(x.Users, y.Users) && reflect.DeepEqual(x.Groups, y.Groups)
	})
}

func sameListeners(a, b []routefile.Listener) bool {
	return slices.EqualFunc(a, b, func(x, y routefile.Listener) bool { return reflect.DeepEqual(x, y) })
}

// Users returns those that an address of a service has, or had before the agent started, from the same
// secret.
func (p *Publisher) Users(name string, i taskdef.Ingress) []routefile.User {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.routes {
		if r.Service == name && r.URL == i.URL && r.Auth == i.Auth {
			return r.Users
		}
	}
	return nil
}

// Drain waits until the proxy, and those that have left their listeners to it, have no request to a task
// any more, which the routes no longer have. It reports whether that is so: without a proxy there are none.
func (p *Publisher) Drain(ctx context.Context, task string) bool {
	drained := drain(ctx, p.client, task)
	for _, old := range ingress.OldSockets(p.socket) {
		drained = drain(ctx, ingress.Client(old), task) && drained
	}
	return drained
}

func drain(ctx context.Context, c *http.Client, task string) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://ingress/v1/drain?task="+url.QueryEscape(task), nil)
	if err != nil {
		return true
	}
	answer, err := c.Do(r)
	if err != nil {
		return ctx.Err() == nil
	}
	answer.Body.Close()
	return answer.StatusCode == http.StatusNoContent
}

// Ask returns what the proxy says about itself now; nil if none runs.
func (p *Publisher) Ask(ctx context.Context) (*ingress.Status, error) {
	return ingress.Ask(ctx, p.socket)
}

// Status is what the proxy has said last; nil if it does not run.
func (p *Publisher) Status() *ingress.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}

// Problems are why addresses of a service are not served, in the order of the routes.
func (p *Publisher) Problems(addresses []taskdef.Ingress) (all []service.Unheard) {
	status := p.Status()
	for _, i := range addresses {
		a, err := taskdef.ParseAddress(i.URL)
		if err != nil {
			continue
		}
		switch {
		case status == nil:
			all = append(all, service.Unheard{Address: i.URL, Problem: ingress.NotRunning()})
		case a.Secure && len(status.Secure) == 0 || !a.Secure && len(status.Plain) == 0:
			all = append(all, service.Unheard{Address: i.URL, Problem: "the ingress proxy does not listen on a port for it: see `podtask ingress status`"})
		case status.Problem != "":
			all = append(all, service.Unheard{Address: i.URL, Problem: "the ingress proxy cannot read its routes: " + status.Problem})
		case a.Secure:
			for _, c := range status.Certificates {
				switch {
				case c.Name != a.Host || c.Problem == "":
				case c.Pending:
					all = append(all, service.Unheard{Address: i.URL, Problem: "its certificate is being issued, which usually takes some seconds", Pending: true})
				default:
					all = append(all, service.Unheard{Address: i.URL, Problem: "certificate: " + c.Problem, Certificate: true, Served: c.Usable})
				}
			}
		}
	}
	return all
}

// askPause is between two questions to a proxy that ends its answers.
const askPause = 100 * time.Millisecond

// Run follows what the proxy says until ctx ends, and calls changed after each change, and used with the services whose use
// alone has changed.
func (p *Publisher) Run(ctx context.Context, changed func(), used func(services []string)) error {
	dir := filepath.Dir(p.socket)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer w.Close()
	if err := w.Add(dir); err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := p.listen(ctx, changed, used); err != nil && ctx.Err() == nil {
			p.log.Debug("the ingress proxy does not answer", "error", err)
		}
		if p.answers(ctx) { // after a handover another process does
			sleep.For(ctx, askPause)
			continue
		}
		p.mu.Lock()
		was := p.status
		p.status = nil
		p.removeCertificates()
		p.mu.Unlock()
		if was != nil && ctx.Err() == nil {
			changed()
		}
		if !p.await(ctx, w) {
			break
		}
	}
	return ctx.Err()
}

// answers reports whether a process listens on the socket of the proxy.
func (p *Publisher) answers(ctx context.Context) bool {
	c, err := api.DialSocket(ctx, p.socket)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// await waits until the socket of the proxy is made; false: ctx has ended.
func (p *Publisher) await(ctx context.Context, w *fsnotify.Watcher) bool {
	for {
		if p.answers(ctx) {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case e, ok := <-w.Events:
			if !ok {
				return false
			}
			if e.Name != p.socket {
				continue
			}
		case <-w.Errors:
		}
	}
}

// Use returns what use the proxy says there is of the addresses of a service, and of those that processes serve which have left
// theirs to it, which are not followed: if one of them has use, again says that it is worth another look later. Without a proxy
// there is none. What a proxy does not say, because it is an earlier version, may be use.
func (p *Publisher) Use(ctx context.Context, name string) (use forward.Usage, again bool) {
	use, known := useOf(p.Status(), name)
	use.Busy = use.Busy || !known
	for _, old := range ingress.OldSockets(p.socket) {
		status, err := ingress.Ask(ctx, old)
		if err != nil || status == nil {
			continue
		}
		before, known := useOf(status, name)
		use.Waiting = use.Waiting || before.Waiting
		if before.Busy || !known {
			use.Busy, again = true, true
		}
		if before.IdleSince.After(use.IdleSince) {
			use.IdleSince = before.IdleSince
		}
	}
	return use, again
}

// useOf returns the use of a service by a status of the proxy; nil stands for a proxy that does not run.
func useOf(status *ingress.Status, name string) (use forward.Usage, known bool) {
	if status == nil {
		return use, true
	}
	for _, u := range status.Uses {
		if u.Service == name {
			return forward.Usage{Busy: u.Busy, IdleSince: u.IdleSince, Waiting: u.Waiting}, true
		}
	}
	return use, false
}

// maxStatus is the longest status that is read.
const maxStatus = 16 << 20

// listen reads what the proxy says until it ends.
func (p *Publisher) listen(ctx context.Context, changed func(), used func([]string)) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://ingress/v1/watch", nil)
	if err != nil {
		return err
	}
	answer, err := p.client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body := &io.LimitedReader{R: answer.Body}
	d := json.NewDecoder(body)
	for {
		body.N = maxStatus
		var s ingress.Status
		if err := d.Decode(&s); err != nil {
			return err
		}
		p.mu.Lock()
		before := p.status
		p.status = &s
		p.removeCertificates()
		p.mu.Unlock()
		switch {
		case before == nil || said(*before) != said(s):
			changed()
		default:
			if services := usedOtherwise(*before, s); len(services) > 0 {
				used(services)
			}
		}
	}
}

// usedOtherwise are the services whose use differs between two statuses.
func usedOtherwise(before, now ingress.Status) (services []string) {
	was := make(map[string]ingress.Use, len(before.Uses))
	for _, u := range before.Uses {
		was[u.Service] = u
	}
	for _, u := range now.Uses {
		if was[u.Service] != u {
			services = append(services, u.Service)
		}
	}
	return services
}

// said is the part of a status that services see.
func said(s ingress.Status) string {
	var listeners []string
	for _, l := range s.Listeners {
		listeners = append(listeners, l.Service, l.Address, l.Problem, strconv.FormatBool(l.Awaited))
	}
	data, err := json.Marshal([]any{s.Ending, s.Problem, s.Certificates, s.Plain, s.Secure, listeners})
	if err != nil {
		return err.Error()
	}
	return string(data)
}
