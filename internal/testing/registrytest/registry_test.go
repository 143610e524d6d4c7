package registrytest_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/podtask/podtask/internal/testing/registrytest"
)

const manifestPath = "/v2/team/app/manifests/1"

// login is what a request is sent with; the zero value is nothing.
type login struct{ user, password, bearer string }

// get asks for a path.
func get(t *testing.T, reg *registrytest.Registry, path string, l login) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+reg.Addr()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if l.user != "" {
		req.SetBasicAuth(l.user, l.password)
	}
	if l.bearer != "" {
		req.Header.Set("Authorization", "Bearer "+l.bearer)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, body
}

func sample(t *testing.T) v1.Image {
	t.Helper()
	img, err := registrytest.Image(
		v1.Config{Entrypoint: []string{"/bin/app"}, Healthcheck: &v1.HealthConfig{Test: []string{"CMD", "/bin/app", "-check"}}},
		registrytest.File{Path: "/bin/app", Data: []byte("binary")},
		registrytest.File{Path: "/etc/app/conf", Mode: 0o644, Data: []byte("a=1")},
		registrytest.File{Path: "/var/tmp/", Mode: 0o1777},
	)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func pushSample(t *testing.T, reg *registrytest.Registry) string {
	t.Helper()
	digest, err := reg.Push("team/app:1", sample(t))
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

func TestBasicAuthentication(t *testing.T) {
	t.Parallel()
	reg := registrytest.Start(t, registrytest.Options{Auth: registrytest.Basic, User: "u", Password: "p"})
	pushSample(t, reg)
	for _, tc := range []struct {
		user, password string
		want           int
	}{{"", "", 401}, {"u", "wrong", 401}, {"x", "p", 401}, {"u", "p", 200}} {
		res, _ := get(t, reg, manifestPath, login{tc.user, tc.password, ""})
		if res.StatusCode != tc.want {
			t.Errorf("%q %q: %d, want %d", tc.user, tc.password, res.StatusCode, tc.want)
		}
		if tc.want == 401 && !strings.HasPrefix(res.Header.Get("WWW-Authenticate"), "Basic realm=") {
			t.Errorf("challenge %q", res.Header.Get("WWW-Authenticate"))
		}
	}
}

func TestTokenAuthentication(t *testing.T) {
	t.Parallel()
	reg := registrytest.Start(t, registrytest.Options{Auth: registrytest.Token, User: "u", Password: "p"})
	pushSample(t, reg)
	res, _ := get(t, reg, manifestPath, login{})
	want := `Bearer realm="http://` + reg.Addr() + `/token",service="registrytest",scope="repository:team/app:pull"`
	if got := res.Header.Get("WWW-Authenticate"); res.StatusCode != 401 || got != want {
		t.Fatalf("%d %s, want 401 %s", res.StatusCode, got, want)
	}
	if res, _ := get(t, reg, "/token?scope=repository:team/app:pull", login{"u", "wrong", ""}); res.StatusCode != 401 {
		t.Errorf("a wrong password gets %d from the token endpoint", res.StatusCode)
	}
	token := func(scope string) string {
		var answer struct{ Token string }
		_, body := get(t, reg, "/token?scope="+scope, login{"u", "p", ""})
		if err := json.Unmarshal(body, &answer); err != nil || answer.Token == "" {
			t.Fatalf("token answer %q: %v", body, err)
		}
		return answer.Token
	}
	if res, _ := get(t, reg, manifestPath, login{"", "", token("repository:team/app:pull")}); res.StatusCode != 200 {
		t.Errorf("the right token gets %d", res.StatusCode)
	}
	if res, _ := get(t, reg, manifestPath, login{"u", "p", ""}); res.StatusCode != 401 {
		t.Errorf("the password instead of a token gets %d", res.StatusCode)
	}
	res, _ = get(t, reg, manifestPath, login{"", "", token("repository:other:pull")})
	if res.StatusCode != 401 || !strings.Contains(res.Header.Get("WWW-Authenticate"), "insufficient_scope") {
		t.Errorf("a token for another repository gets %d, %s", res.StatusCode, res.Header.Get("WWW-Authenticate"))
	}
}

func TestIdentityTokenInsteadOfAPassword(t *testing.T) {
	t.Parallel()
	reg := registrytest.Start(t, registrytest.Options{Auth: registrytest.Token, User: "u", Password: "p", IdentityToken: "identity"})
	pushSample(t, reg)
	ask := func(token string) (status int, answer struct{ Token string }) {
		t.Helper()
		form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}, "scope": {"repository:team/app:pull"}}
		res, err := http.PostForm("http://"+reg.Addr()+"/token", form)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, answer
	}
	if status, _ := ask("wrong"); status != 401 {
		t.Errorf("a wrong identity token gets %d", status)
	}
	status, answer := ask("identity")
	if res, _ := get(t, reg, manifestPath, login{"", "", answer.Token}); status != 200 || res.StatusCode != 200 {
		t.Errorf("the identity token gets %d, and what it is given %d", status, res.StatusCode)
	}
}

func TestTLSWithItsCertificate(t *testing.T) {
	t.Parallel()
	reg := registrytest.Start(t, registrytest.Options{TLS: true})
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(reg.CertPEM()) {
		t.Fatal("CertPEM holds no certificate")
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer client.CloseIdleConnections()
	res, err := client.Get("https://" + reg.Addr() + "/v2/")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 200 {
		t.Errorf("status %d", res.StatusCode)
	}
}

func TestPushStoresWhatItSays(t *testing.T) {
	t.Parallel()
	reg := registrytest.Start(t, registrytest.Options{})
	digest := pushSample(t, reg)
	res, body := get(t, reg, manifestPath, login{})
	if got := res.Header.Get("Docker-Content-Digest"); got != digest {
		t.Errorf("digest %s, want %s", got, digest)
	}
	var manifest v1.Manifest
	if err := json.Unmarshal(body, &manifest); err != nil {
		t.Fatal(err)
	}
	_, body = get(t, reg, "/v2/team/app/blobs/"+manifest.Config.Digest.String(), login{})
	var config v1.ConfigFile
	if err := json.Unmarshal(body, &config); err != nil {
		t.Fatal(err)
	}
	if config.OS != "linux" || config.Architecture != "amd64" ||
		!slices.Equal(config.Config.Entrypoint, []string{"/bin/app"}) || len(config.Config.Healthcheck.Test) != 3 {
		t.Errorf("config %+v", config)
	}
	if len(reg.Log()) != 2 {
		t.Errorf("pushing shows in the log: %+v", reg.Log())
	}
}

func TestImageIsReproducibleAndHasItsFiles(t *testing.T) {
	t.Parallel()
	first, err := sample(t).Digest()
	if err != nil {
		t.Fatal(err)
	}
	second, err := sample(t).Digest()
	if err != nil || first != second {
		t.Errorf("two equal images: %s and %s, %v", first, second, err)
	}
	layers, err := sample(t).Layers()
	if err != nil {
		t.Fatal(err)
	}
	contents, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer contents.Close()
	var got []string
	for r := tar.NewReader(contents); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, h.FileInfo().Mode().String()+" "+h.Name+" "+string(data))
	}
	want := []string{"drwxr-xr-x bin/ ", "drwxr-xr-x etc/ ", "drwxr-xr-x etc/app/ ", "drwxr-xr-x var/ ",
		"-rwxr-xr-x bin/app binary", "-rw-r--r-- etc/app/conf a=1", "dtrwxrwxrwx var/tmp/ "}
	if !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
}

func TestRandomDoesNotCompressAndRepeats(t *testing.T) {
	t.Parallel()
	a, b, c := registrytest.Random(1<<16, 1), registrytest.Random(1<<16, 1), registrytest.Random(1<<16, 2)
	if !bytes.Equal(a, b) || bytes.Equal(a, c) {
		t.Error("Random does not depend on its seed alone")
	}
	img, err := registrytest.Image(v1.Config{}, registrytest.File{Path: "/data", Data: a})
	if err != nil {
		t.Fatal(err)
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	if size, err := layers[0].Size(); err != nil || size < 1<<16 {
		t.Errorf("a layer with 64 KiB of it has %d bytes, %v", size, err)
	}
}

func TestFaultsCountAndEnd(t *testing.T) {
	t.Parallel()
	reg := registrytest.Start(t, registrytest.Options{})
	pushSample(t, reg)
	twice := reg.Fault("GET", "/manifests/", 2, registrytest.Status(503, "UNAVAILABLE", "later"))
	always := reg.Fault("GET", "/manifests/", 0, registrytest.TooManyRequests(7))
	var got []int
	for range 4 {
		res, _ := get(t, reg, manifestPath, login{})
		got = append(got, res.StatusCode)
		if res.StatusCode == 429 && res.Header.Get("Retry-After") != "7" {
			t.Errorf("Retry-After %q", res.Header.Get("Retry-After"))
		}
	}
	if !slices.Equal(got, []int{503, 503, 429, 429}) || twice.Hits() != 2 || always.Hits() != 2 {
		t.Errorf("statuses %v, hits %d and %d", got, twice.Hits(), always.Hits())
	}
	always.Remove()
	if res, _ := get(t, reg, manifestPath, login{}); res.StatusCode != 200 {
		t.Errorf("after the faults: %d", res.StatusCode)
	}
}

func TestFaultsThatEditOrCutTheAnswer(t *testing.T) {
	t.Parallel()
	reg := registrytest.Start(t, registrytest.Options{})
	pushSample(t, reg)
	_, whole := get(t, reg, manifestPath, login{})

	reg.Fault("", "/manifests/", 1, registrytest.NoDigest())
	if res, body := get(t, reg, manifestPath, login{}); res.Header.Get("Docker-Content-Digest") != "" || !bytes.Equal(body, whole) {
		t.Error("NoDigest: the header is there, or the body is not")
	}
	reg.Fault("", "/manifests/", 1, registrytest.ContentType("text/plain"))
	if res, body := get(t, reg, manifestPath, login{}); res.Header.Get("Content-Type") != "text/plain" || !bytes.Equal(body, whole) {
		t.Error("ContentType: another type, or the body is not whole")
	}
	reg.Fault("", "/manifests/", 1, registrytest.Slow(len(whole)/3, 1))
	if _, body := get(t, reg, manifestPath, login{}); !bytes.Equal(body, whole) {
		t.Error("Slow: the body is not whole")
	}

	release := make(chan struct{})
	reg.Fault("", "/manifests/", 1, registrytest.Halfway(1, release))
	half, err := http.Get("http://" + reg.Addr() + manifestPath)
	if err != nil {
		t.Fatal(err)
	}
	begin := make([]byte, len(whole)/40*20)
	if _, err := io.ReadFull(half.Body, begin); err != nil {
		t.Errorf("Halfway: no half of the body comes: %v", err)
	}
	close(release)
	if rest, err := io.ReadAll(half.Body); err != nil || !bytes.Equal(append(begin, rest...), whole) {
		t.Errorf("Halfway: the body is not whole: %v", err)
	}
	half.Body.Close()

	reg.Fault("", "/manifests/", 1, registrytest.Reset())
	res, err := http.Get("http://" + reg.Addr() + manifestPath)
	if err != nil {
		t.Fatalf("Reset: no head: %v", err)
	}
	body, err := io.ReadAll(res.Body)
	res.Body.Close()
	if !errors.Is(err, io.ErrUnexpectedEOF) || !bytes.Equal(body, whole[:len(whole)/2]) {
		t.Errorf("Reset: %d of %d bytes, %v", len(body), len(whole), err)
	}
	reg.Fault("", "/manifests/", 0, registrytest.Drop())
	if res, err := http.Get("http://" + reg.Addr() + manifestPath); err == nil {
		res.Body.Close()
		t.Errorf("Drop: status %d", res.StatusCode)
	}
}

func TestLogShowsWhatOverlapped(t *testing.T) {
	t.Parallel()
	var lines bytes.Buffer // written under the log's lock, read after Shutdown
	reg := registrytest.Start(t, registrytest.Options{Log: &lines})
	pushSample(t, reg)
	get(t, reg, "/v2/?password=hidden", login{})
	reg.Settle()
	reg.Fault("", "/manifests/", 0, registrytest.Gather(3))
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { get(t, reg, manifestPath, login{}) })
	}
	wg.Wait()
	if err := reg.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	log := reg.Log()
	if len(log) != 4 {
		t.Fatalf("%d requests in the log, want 4", len(log))
	}
	for i, r := range log {
		wantPath, wantOverlaps := manifestPath, 2
		if i == 0 {
			wantPath, wantOverlaps = "/v2/", 0
		}
		if r.Method != "GET" || r.Path != wantPath || r.Status != 200 || r.Overlaps != wantOverlaps || r.End.Before(r.Start) {
			t.Errorf("entry %d: %+v, want path %s and %d overlaps", i, r, wantPath, wantOverlaps)
		}
	}
	if text := lines.String(); strings.Count(text, "\n") != 4 || strings.Contains(text, "hidden") {
		t.Errorf("written log:\n%s", text)
	}
	reg.ResetLog()
	if len(reg.Log()) != 0 {
		t.Error("ResetLog left entries")
	}
}

func TestHangEndsByReleaseAndByClose(t *testing.T) {
	t.Parallel()
	reg := registrytest.Start(t, registrytest.Options{})
	pushSample(t, reg)
	release := make(chan struct{})
	rule := reg.Fault("", "/manifests/", 1, registrytest.Hang(release))
	status := make(chan int)
	ask := func() {
		res, err := http.Get("http://" + reg.Addr() + manifestPath)
		if err != nil {
			status <- 0
			return
		}
		res.Body.Close()
		status <- res.StatusCode
	}
	go ask()
	<-rule.Arrived()
	if log := reg.Log(); log[0].Status != 0 || !log[0].End.IsZero() {
		t.Errorf("a hung request looks finished: %+v", log[0])
	}
	close(release)
	if got := <-status; got != 200 {
		t.Errorf("after the release: %d", got)
	}
	rule = reg.Fault("", "/manifests/", 1, registrytest.Hang(nil))
	go ask()
	<-rule.Arrived()
	reg.Close()
	if got := <-status; got != 0 {
		t.Errorf("after Close: status %d, want a cut connection", got)
	}
}
