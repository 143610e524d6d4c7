package authority_test

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/ingress/authority"
)

func TestAuthority(t *testing.T) {
	t.Parallel()
	path := authority.Path(t.TempDir())
	now := time.Now()
	clock := func() time.Time { return now }
	// Several processes that begin at once get the same one.
	var all sync.WaitGroup
	var mu sync.Mutex
	prints := map[string]bool{}
	for range 8 {
		all.Go(func() {
			a, err := authority.Open(path, clock)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			prints[a.Fingerprint()] = true
		})
	}
	all.Wait()
	if len(prints) != 1 {
		t.Errorf("there are the authorities %v", prints)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has the mode %v, %v", info.Mode(), err)
	}
	a, err := authority.Open(path, clock)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(a.PEM()) {
		t.Fatal("no certificate")
	}
	for name, client := range map[string]string{"app.localhost": "app.localhost", "*.app.localhost": "x.app.localhost", "192.0.2.1": "192.0.2.1", "::1": "::1"} {
		c, err := a.Certificate(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: client, CurrentTime: now}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if again, err := a.Certificate(name); err != nil || again != c {
			t.Errorf("%s: another certificate within the time of the first, %v", name, err)
		}
	}
	first, err := a.Certificate("app.localhost")
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(6 * 24 * time.Hour)
	next, err := a.Certificate("app.localhost")
	if err != nil || !next.Leaf.NotAfter.After(first.Leaf.NotAfter) {
		t.Errorf("a day before its end it is not replaced: %v", err)
	}
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := authority.Open(path, clock); err == nil {
		t.Error("a damaged file is an authority")
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
