package routefile

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

// Format is the version of the file's format.
const Format = 1

// maxFile is the most bytes that are read of a file.
const maxFile = 16 << 20

// Table is the content of the file.
type Table struct {
	Format int `json:"format"`
	// Boot is the id of the boot of the host in which the copies run: after another one, their ports belong to
	// others.
	Boot   string  `json:"boot"`
	Routes []Route `json:"routes"`
	// Listeners are addresses of TCP connections.
	Listeners []Listener `json:"listeners,omitempty"`
}

// Listener is an address, HOST:PORT, whose TCP connections go to copies of a service.
type Listener struct {
	Service string `json:"service"`
	Address string `json:"address"`
	// ProxyProtocol has connections begin with the client's address, in a header of the PROXY protocol.
	ProxyProtocol bool `json:"proxyProtocol,omitempty"`
	// Sleep configures the sleep of the service.
	Sleep Sleep `json:"sleep,omitzero"`
	// Groups are the revisions that have healthy copies.
	Groups []Group `json:"groups,omitempty"`
}

// Sleep configures the sleep of the service of an address.
type Sleep struct {
	// After is the time without use after which it sleeps; 0 if it never sleeps.
	After time.Duration `json:"after"`
	// Hold bounds the wait of a connection for a copy.
	Hold time.Duration `json:"hold"`
}

// Route is where the requests for a host and a path go.
type Route struct {
	Service string `json:"service"`
	// Its certificate, if it is from a secret, is in a file that the agent has written.
	taskdef.Ingress
	// CertificateSource is that secret; empty for other certificates.
	CertificateSource string `json:"certificateSource,omitempty"`
	// Users are the accounts of basic auth. Without any, all requests are served, unless the ingress has Auth: then
	// none is.
	Users []User `json:"users,omitempty"`
	// Sleep configures the sleep of the service.
	Sleep Sleep `json:"sleep,omitzero"`
	// Groups are the revisions that have healthy copies.
	Groups []Group `json:"groups,omitempty"`

	address taskdef.Address
}

// User is one who may send requests.
type User struct {
	Name string `json:"name"`
	// Salt and Hash are of the password: PBKDF2 with SHA-256 and Iterations.
	Salt       []byte `json:"salt"`
	Hash       []byte `json:"hash"`
	Iterations int    `json:"iterations"`
}

// Group are the copies of a revision, which share the requests of a weight.
type Group struct {
	Deployment string   `json:"deployment"`
	Weight     int      `json:"weight"`
	Targets    []Target `json:"targets"`
}

// Target is the port of a copy.
type Target struct {
	// ID is that of the task, Address IP:PORT of this host.
	ID      string `json:"id"`
	Address string `json:"address"`
}

// Address is the URL of the route.
func (r Route) Address() taskdef.Address { return r.address }

// Key names the route: its URL in its one spelling.
func (r Route) Key() string { return r.address.String() }

// Path returns where the file is below a state directory.
func Path(stateDir string) string { return filepath.Join(stateDir, "ingress", "routes.json") }

// bootID returns the id of the present boot; "" if it cannot be read.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// Read reads a file. A file that is missing is an empty table. Routes of an earlier boot have no copies.
func Read(path string) (Table, error) {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return Table{Format: Format}, nil
	}
	if err != nil {
		return Table{}, err
	}
	if info.Size() > maxFile {
		return Table{}, fmt.Errorf("%s is larger than %d MiB", path, maxFile>>20)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return Table{}, err
	}
	t, err := Parse(data)
	if err != nil {
		return t, fmt.Errorf("%s: %w", path, err)
	}
	if t.Boot != bootID() {
		for i := range t.Routes {
			t.Routes[i].Groups = nil
		}
		for i := range t.Listeners {
			t.Listeners[i].Groups = nil
		}
	}
	return t, nil
}

// Parse reads the content of a file.
func Parse(data []byte) (Table, error) {
	var t Table
	if err := json.Unmarshal(data, &t); err != nil {
		return t, err
	}
	if t.Format != Format {
		return t, fmt.Errorf("the format is %d, and this version of podtask knows %d", t.Format, Format)
	}
	return t, t.check()
}

// check fills in the addresses and returns what is wrong.
func (t *Table) check() error {
	var errs []error
	seen := make(map[taskdef.Address]string)
	for i := range t.Routes {
		r := &t.Routes[i]
		var err error
		if r.address, err = taskdef.ParseAddress(r.URL); err != nil {
			errs = append(errs, err)
			continue
		}
		for _, p := range r.Check() {
			errs = append(errs, fmt.Errorf("%s: %s", r.URL, p.Text))
		}
		if other, taken := seen[r.address]; taken {
			errs = append(errs, fmt.Errorf("%s belongs to the services %s and %s", r.address, other, r.Service))
		}
		seen[r.address] = r.Service
		errs = append(errs, checkGroups(r.URL, r.Groups))
	}
	listens := make(map[string]string)
	for _, l := range t.Listeners {
		if _, port, err := net.SplitHostPort(l.Address); err != nil || port == "" {
			errs = append(errs, fmt.Errorf("the listener %q of service %s is no HOST:PORT", l.Address, l.Service))
		}
		if other, taken := listens[l.Address]; taken {
			errs = append(errs, fmt.Errorf("the listener %s belongs to the services %s and %s", l.Address, other, l.Service))
		}
		listens[l.Address] = l.Service
		errs = append(errs, checkGroups(l.Address, l.Groups))
	}
	return errors.Join(errs...)
}

// checkGroups returns what is wrong with the targets of an address.
func checkGroups(address string, groups []Group) error {
	var errs []error
	for _, g := range groups {
		for _, target := range g.Targets {
			if a, err := netip.ParseAddrPort(target.Address); err != nil || a.Port() == 0 || target.ID == "" || g.Weight < 0 {
				errs = append(errs, fmt.Errorf("%s: the target %q is no IP:PORT of a task with a weight", address, target.Address))
			}
		}
	}
	return errors.Join(errs...)
}

// Write replaces the file at path durably. Its directory exists.
func Write(path string, t Table) error {
	t.Format, t.Boot = Format, bootID()
	data, err := json.MarshalIndent(t, "", "\t")
	if err != nil {
		return err
	}
	return Replace(path, data)
}

// Replace replaces the file at path durably, with mode 0600. Its directory exists.
func Replace(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the rename
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Find returns the route for a request. Host is in lower case, without port and final dot, and path is
// decoded. An exact name goes before a wildcard, and the longest path before others.
func (t Table) Find(secure bool, host, path string) (best Route, found bool) {
	return t.find(secure, host, func(r Route) bool { return under(r.address.Path, path) })
}

// FindFold is Find for a program that ignores case in paths.
func (t Table) FindFold(secure bool, host, path string) (best Route, found bool) {
	path = strings.ToLower(path)
	return t.find(secure, host, func(r Route) bool { return under(strings.ToLower(r.address.Path), path) })
}

// Single reports whether at most one route has the host.
func (t Table) Single(secure bool, host string) bool {
	n := 0
	t.find(secure, host, func(Route) bool { n++; return false })
	return n <= 1
}

func (t Table) find(secure bool, host string, matches func(Route) bool) (best Route, found bool) {
	for _, r := range t.Routes {
		if r.address.Secure == secure && covers(r.address.Host, host) && matches(r) && (!found || rank(r, best) > 0) {
			best, found = r, true
		}
	}
	return best, found
}

// HasHost returns a route with https for a name; the first of those with the same name.
func (t Table) HasHost(host string) (best Route, found bool) {
	for _, r := range t.Routes {
		if r.address.Secure && covers(r.address.Host, host) && (!found || len(r.address.Host) > len(best.address.Host) || !strings.HasPrefix(r.address.Host, "*.") && strings.HasPrefix(best.address.Host, "*.")) {
			best, found = r, true
		}
	}
	return best, found
}

// rank is positive if a goes before b.
func rank(a, b Route) int {
	exact := func(r Route) int {
		if strings.HasPrefix(r.address.Host, "*.") {
			return 0
		}
		return 1
	}
	return cmp.Or(exact(a)-exact(b), len(a.address.Path)-len(b.address.Path))
}

// covers reports whether the host of a route, perhaps a wildcard, is or contains a name.
func covers(pattern, host string) bool {
	rest, wild := strings.CutPrefix(pattern, "*")
	if !wild {
		return pattern == host
	}
	label, _ := strings.CutSuffix(host, rest)
	return strings.HasSuffix(host, rest) && label != "" && !strings.Contains(label, ".")
}

// under reports whether a path is a prefix of whole segments.
func under(prefix, path string) bool {
	return prefix == "/" || path == prefix || strings.HasPrefix(path, prefix+"/")
}

// BodyPause is the longest pause within a body.
func (r Route) BodyPause() time.Duration { return cmp.Or(r.ReadTimeout, taskdef.DefaultReadTimeout) }

// Idle is the longest time in which neither side sends anything.
func (r Route) Idle() time.Duration { return cmp.Or(r.IdleTimeout, taskdef.DefaultIdleTimeout) }

// Sort puts the routes into the order of their URLs, and the listeners into that of their addresses.
func (t Table) Sort() {
	slices.SortFunc(t.Routes, func(a, b Route) int {
		return cmp.Or(strings.Compare(a.URL, b.URL), strings.Compare(a.Service, b.Service))
	})
	slices.SortFunc(t.Listeners, func(a, b Listener) int { return strings.Compare(a.Address, b.Address) })
}
