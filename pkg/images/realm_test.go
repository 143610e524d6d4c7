package images_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/podtask/podtask/internal/testing/registrytest"
	"github.com/podtask/podtask/pkg/images"
)

// A registry over TLS that names a token server without TLS gets no credentials sent there in the clear.
func TestTokenServersWithoutTLSGetNoCredentials(t *testing.T) {
	t.Parallel()
	var asked, shown atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if _, _, ok := r.BasicAuth(); ok {
			shown.Add(1)
		}
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(other.Close)
	options := tokenAuth()
	options.TLS = true
	reg := registrytest.Start(t, options)
	push(t, reg, "app:1")
	reg.Fault("", "^/v2/", 0, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+other.URL+`/token",service="x"`)
		w.WriteHeader(http.StatusUnauthorized)
	})
	strict := optionsFor(t, reg)
	strict.RegistriesConf = file(t, "registries.conf", nil)
	ca := filepath.Join(strict.CertsDir, reg.Addr(), "ca.crt")
	if err := os.MkdirAll(filepath.Dir(ca), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ca, reg.CertPEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	resolver := images.New(strict)
	_, err := resolver.Resolve(t.Context(), reg.Ref("app:1"), images.Login{})
	_, describeErr := resolver.Describe(t.Context(), reg.Ref("app:1"), images.Login{}, images.Here())
	if err == nil || describeErr == nil || shown.Load() > 0 || asked.Load() > 0 {
		t.Errorf("%v, %v: %d requests, %d with credentials", err, describeErr, asked.Load(), shown.Load())
	}
	if e := failure(t, describeErr, images.TLS, false); strings.Contains(e.Hint, "insecure") {
		t.Errorf("the hint %q would send them", e.Hint)
	}
}
