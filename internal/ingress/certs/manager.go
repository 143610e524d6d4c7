package certs

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/caddyserver/certmagic"
	"github.com/fsnotify/fsnotify"
	"github.com/mholt/acmez/v3/acme"
	"github.com/podtask/podtask/internal/ingress"
	"github.com/podtask/podtask/internal/ingress/authority"
	"github.com/podtask/podtask/internal/ingress/routefile"
	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/taskdef"
	"go.uber.org/zap"
)

// Config is how certificates are obtained.
type Config struct {
	Log *slog.Logger
	// Dir is the directory of the ingress below the state directory.
	Dir string
	// Directory is the URL of the ACME server; empty for that of Let's Encrypt. Roots are the authorities
	// that its own certificate may be of; nil for those of the host.
	Directory string
	Roots     *x509.CertPool
	// Email is where the authority writes when something is wrong; it may be empty.
	Email string
	// DNSProgram, with arguments, makes TXT records; then all names are proved by DNS-01, also wildcards.
	DNSProgram []string
	// PlainPort and SecurePort are where this host listens for requests without and with TLS; the authority
	// comes to 80 and 443.
	PlainPort, SecurePort int
	// CheckEvery is how often certificates of the ACME server are looked at, whether they have to be renewed (10 min).
	CheckEvery time.Duration
	// Now is the clock for the internal authority and for warnings; nil for time.Now.
	Now func() time.Time
	// Changed is called when the status of a certificate has changed.
	Changed func()
}

// Manager has the certificates of all names. Its methods may be called concurrently.
type Manager struct {
	cfg    Config
	ctx    context.Context
	cache  *certmagic.Cache
	acme   *certmagic.Config
	issuer *certmagic.ACMEIssuer

	watcher *fsnotify.Watcher

	mu        sync.Mutex
	table     routefile.Table
	authority *authority.Authority
	files     map[pair]loaded
	managed   map[string]bool
	failures  map[string]failure // by name, of ACME
}

// failure explains why a certificate was not obtained, and when that was.
type failure struct {
	text string
	at   time.Time
	// notBefore is the time at which the server may be asked again; zero: at the next attempt.
	notBefore time.Time
}

// New returns a manager that works until ctx ends.
func New(ctx context.Context, cfg Config) (*Manager, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Changed == nil {
		cfg.Changed = func() {}
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	m := &Manager{cfg: cfg, ctx: ctx, watcher: watcher, files: map[pair]loaded{}, managed: map[string]bool{}, failures: map[string]failure{}}
	go m.watch()
	return m, nil
}

// startACME prepares what obtains certificates. The caller holds mu.
func (m *Manager) startACME() {
	if m.acme != nil {
		return
	}
	logger := zap.NewNop() // what fails is an event
	m.cache = certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return m.acme, nil }, Logger: logger, RenewCheckInterval: m.cfg.CheckEvery,
	})
	context.AfterFunc(m.ctx, m.cache.Stop)
	m.acme = certmagic.New(m.cache, certmagic.Config{
		Storage: &certmagic.FileStorage{Path: filepath.Join(m.cfg.Dir, "acme")}, Logger: logger, OnEvent: m.event,
		OCSP: certmagic.OCSPConfig{DisableStapling: true},
	})
	template := certmagic.ACMEIssuer{
		CA: m.cfg.Directory, Email: m.cfg.Email, Agreed: true, TrustedRoots: m.cfg.Roots, AltHTTPPort: m.cfg.PlainPort, AltTLSALPNPort: m.cfg.SecurePort, Logger: logger,
	}
	if len(m.cfg.DNSProgram) > 0 {
		template.DNS01Solver = dnsProgram(m.cfg.DNSProgram)
	}
	if template.CA == "" {
		template.CA = certmagic.LetsEncryptProductionCA
	}
	m.issuer = certmagic.NewACMEIssuer(m.acme, template)
	m.acme.Issuers = []certmagic.Issuer{m.issuer}
}

// explain explains why there is no other certificate than one, which is nil if there is none.
func (f failure) explain(leaf *x509.Certificate) string {
	text := f.text
	if !f.notBefore.IsZero() {
		text += fmt.Sprintf("; because of the limit the server is not asked before %s", f.notBefore.UTC().Format(time.RFC3339))
	}
	if leaf != nil {
		text = fmt.Sprintf("it was not renewed, and ends on %s: %s", leaf.NotAfter.UTC().Format(time.RFC3339), text)
	}
	return text
}

// event notes how an attempt to obtain a certificate ended. An attempt that would come too early after the server has
// refused one for a limit is given up: it comes again.
func (m *Manager) event(_ context.Context, event string, data map[string]any) error {
	name, _ := data["identifier"].(string)
	switch event {
	case "cert_obtaining":
		m.mu.Lock()
		defer m.mu.Unlock()
		if until := m.failures[name].notBefore; m.cfg.Now().Before(until) {
			return fmt.Errorf("the server has a limit: it is not asked before %s", until.UTC().Format(time.RFC3339))
		}
		return nil
	case "cert_obtained":
		m.mu.Lock()
		delete(m.failures, name)
		m.mu.Unlock()
		m.cfg.Log.Info("a certificate was obtained", "name", name)
	case "cert_failed":
		err, _ := data["error"].(error)
		now := m.cfg.Now()
		f := failure{short(err), now, limitedUntil(err, now)}
		m.mu.Lock()
		m.failures[name] = f
		m.mu.Unlock()
		m.cfg.Log.Warn("a certificate was not obtained; it is tried again", "name", name, "error", f.text, "notBefore", f.notBefore)
	default:
		return nil
	}
	m.cfg.Changed()
	return nil
}

// limitPause is the time for which a server is not asked that has refused a request for a limit, and does not say for how long.
// Longest is the longest time that is believed.
const (
	limitPause   = time.Hour
	longestPause = 8 * 24 * time.Hour // the limits of Let's Encrypt are for up to a week
)

// retryAfter is how Let's Encrypt writes when a limit ends.
var retryAfter = lazy.MustCompile(`retry after (\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d) ?(?:UTC|Z)`)

// limitedUntil returns when a server that refused a request for a limit may be asked again; zero for another error.
func limitedUntil(err error, now time.Time) time.Time {
	var problem acme.Problem
	if !errors.As(err, &problem) || problem.Type != acme.ProblemTypeRateLimited {
		return time.Time{}
	}
	if found := retryAfter.FindStringSubmatch(problem.Detail); found != nil {
		if until, err := time.Parse(time.DateTime, found[1]+" "+found[2]); err == nil && until.After(now) && until.Before(now.Add(longestPause)) {
			return until
		}
	}
	return now.Add(limitPause)
}

// short is an error in at most a few lines without control characters: it contains what a server said.
func short(err error) string {
	if err == nil {
		return "unknown error"
	}
	text := strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	return strings.ToValidUTF8(text[:min(len(text), 500)], "")
}

// Follow has the manager serve the names of a table.
func (m *Manager) Follow(t routefile.Table) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.table = t
	files, wanted := map[pair]loaded{}, []string{}
	for _, r := range t.Routes {
		if !r.Address().Secure {
			continue
		}
		switch issuer := r.Issuer(r.Address()); issuer {
		case taskdef.CertificateACME:
			if host := r.Address().Host; !slices.Contains(wanted, host) && m.provable(host) {
				wanted = append(wanted, host)
			}
		case taskdef.CertificateInternal:
		default:
			p := pair{r.Certificate, r.CertificateKey}
			files[p] = p.load(m.files[p])
			for _, dir := range p.dirs() {
				if err := m.watcher.Add(dir); err != nil {
					m.cfg.Log.Warn("the files of a certificate are not followed", "directory", dir, "error", err)
				}
			}
		}
	}
	m.files = files
	var fresh []string
	for _, name := range wanted {
		if !m.managed[name] {
			fresh = append(fresh, name)
			m.managed[name] = true
		}
	}
	for name := range m.managed {
		if !slices.Contains(wanted, name) {
			m.cache.RemoveManaged([]certmagic.SubjectIssuer{{Subject: name}})
			delete(m.managed, name)
			delete(m.failures, name)
		}
	}
	if len(fresh) == 0 {
		return
	}
	m.startACME()
	if err := m.acme.ManageAsync(m.ctx, fresh); err != nil {
		for _, name := range fresh {
			m.failures[name] = failure{text: short(err), at: m.cfg.Now()}
		}
	}
}

// provable reports whether a name can be proved: wildcards only by DNS-01.
func (m *Manager) provable(host string) bool {
	return len(m.cfg.DNSProgram) > 0 || !strings.HasPrefix(host, "*.")
}

// watch reads files of certificates again when they change.
func (m *Manager) watch() {
	defer m.watcher.Close()
	for {
		select {
		case <-m.ctx.Done():
			return
		case _, ok := <-m.watcher.Events:
			if !ok {
				return
			}
			m.reload()
		case _, ok := <-m.watcher.Errors:
			if !ok {
				return
			}
			m.reload() // events may be lost
		}
	}
}

func (m *Manager) reload() {
	m.mu.Lock()
	for p, before := range m.files {
		m.files[p] = p.load(before)
	}
	m.mu.Unlock()
	m.cfg.Changed()
}

// errUnknownName is for clients that ask for a name without a route.
var errUnknownName = errors.New("no service has this name")

// Get returns the certificate for a connection; it is a tls.Config.GetCertificate.
func (m *Manager) Get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := strings.TrimSuffix(strings.ToLower(hello.ServerName), ".")
	if name == "" && hello.Conn != nil { // a client that connected to an IP address
		if host, _, err := net.SplitHostPort(hello.Conn.LocalAddr().String()); err == nil {
			name = host
		}
	}
	m.mu.Lock()
	acme := m.acme
	if acme != nil && slices.Contains(hello.SupportedProtos, challengeProtocol) {
		m.mu.Unlock()
		return acme.GetCertificate(hello)
	}
	route, found := m.table.HasHost(name)
	if !found {
		m.mu.Unlock()
		return nil, errUnknownName
	}
	switch issuer := route.Issuer(route.Address()); issuer {
	case taskdef.CertificateACME:
		m.mu.Unlock()
		if acme == nil {
			return nil, errUnknownName // a wildcard that cannot be proved
		}
		return acme.GetCertificate(hello)
	case taskdef.CertificateInternal:
		issuing, err := m.internal()
		m.mu.Unlock()
		if err != nil {
			return nil, err
		}
		return issuing.Certificate(route.Address().Host)
	default:
		file := m.files[pair{route.Certificate, route.CertificateKey}]
		m.mu.Unlock()
		if file.cert == nil {
			return nil, file.err
		}
		return file.cert, nil
	}
}

// internal returns the authority of this host. The caller holds mu.
func (m *Manager) internal() (*authority.Authority, error) {
	if m.authority == nil {
		a, err := authority.Open(filepath.Join(m.cfg.Dir, "authority.pem"), m.cfg.Now)
		if err != nil {
			m.cfg.Log.Error("there are no certificates of the internal authority", "error", err)
			return nil, err
		}
		m.authority = a
	}
	return m.authority, nil
}

// Challenge answers a request of an ACME server. It reports whether the request was one.
func (m *Manager) Challenge(w http.ResponseWriter, r *http.Request) bool {
	if !certmagic.LooksLikeHTTPChallenge(r) {
		return false
	}
	m.mu.Lock()
	issuer := m.issuer
	m.mu.Unlock()
	return issuer != nil && issuer.HandleHTTPChallenge(w, r)
}

// endsSoon is the time at which a certificate that is not renewed is a problem.
const endsSoon = 7 * 24 * time.Hour

// Statuses returns those of all names, in the order of the routes.
func (m *Manager) Statuses() []ingress.Certificate {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, all := m.cfg.Now(), []ingress.Certificate{}
	for _, r := range m.table.Routes {
		host := r.Address().Host
		if !r.Address().Secure || slices.ContainsFunc(all, func(s ingress.Certificate) bool { return s.Name == host }) {
			continue
		}
		s := ingress.Certificate{Name: host, Issuer: r.Issuer(r.Address())}
		var leaf *x509.Certificate
		switch s.Issuer {
		case taskdef.CertificateACME:
			leaf = m.managedLeaf(host)
			if !m.provable(host) {
				s.Problem = "wildcards need a program that makes DNS records (acme-dns-program), or a certificate from files or of the internal authority"
			} else if f, failed := m.failures[host]; failed {
				s.Problem = f.explain(leaf)
			} else if leaf == nil {
				s.Problem, s.Pending = "it is being issued", true
			}
		case taskdef.CertificateInternal:
			a, err := m.internal()
			if err == nil {
				var c *tls.Certificate
				if c, err = a.Certificate(host); err == nil {
					leaf = c.Leaf
				}
			}
			if err != nil {
				s.Problem = short(err)
			}
		default:
			file := m.files[pair{r.Certificate, r.CertificateKey}]
			if file.cert != nil {
				leaf = file.cert.Leaf
			}
			if file.err != nil {
				s.Problem = short(file.err)
			}
			s.File, s.Issuer = r.Certificate, cmp.Or(r.CertificateSource, s.Issuer)
		}
		describe(&s, leaf, host, now)
		all = append(all, s)
	}
	return all
}

// describe adds what the certificate itself says.
func describe(s *ingress.Certificate, leaf *x509.Certificate, host string, now time.Time) {
	if leaf == nil {
		return
	}
	s.NotAfter = leaf.NotAfter.UTC()
	probe := host
	if rest, wild := strings.CutPrefix(host, "*."); wild {
		probe = "any." + rest
	}
	fits := leaf.VerifyHostname(probe) == nil
	s.Usable = fits && now.Before(leaf.NotAfter)
	switch {
	case s.Problem != "":
	case !fits:
		s.Problem = fmt.Sprintf("it is for %s only", strings.Join(leaf.DNSNames, ", "))
	case now.After(leaf.NotAfter):
		s.Problem = "it has expired"
	case s.Issuer != taskdef.CertificateInternal && now.After(leaf.NotAfter.Add(-endsSoon)):
		s.Problem = "it expires soon"
	}
}

// managedLeaf is the certificate that was obtained for a name; nil if there is none. The caller holds mu.
func (m *Manager) managedLeaf(name string) *x509.Certificate {
	if m.cache == nil {
		return nil
	}
	for _, c := range m.cache.AllMatchingCertificates(name) {
		if c.Leaf != nil {
			return c.Leaf
		}
	}
	return nil
}
