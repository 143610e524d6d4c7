//go:build !race

package certs_test

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/ingress/routefile"
	"github.com/podtask/podtask/pkg/taskdef"
)

// orderSteps are the requests of an order, by the beginnings of Pebble's paths.
var orderSteps = []string{"/dir", "/nonce-plz", "/sign-me-up", "/order-plz", "/authZ/", "/chalZ/", "/finalize-order/", "/my-order/", "/certZ/"}

// When a process is killed in a step.
const (
	unseen   = "before the server has seen the request"
	unheard  = "before the answer comes"
	answered = "after the answer"
)

// killing is an ACME server in whose first request of a step the client is killed.
type killing struct {
	step, when string
	server     *acmeServer
	dir, roots string // of the state, and a file
	victim     chan *os.Process
	done       atomic.Bool
	accounts   atomic.Int64

	plain, secure int
}

// ServeHTTP serves a request by next, and kills the process if it is time.
func (k *killing) ServeHTTP(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if strings.HasPrefix(r.URL.Path, "/sign-me-up") {
		k.accounts.Add(1)
	}
	if !strings.HasPrefix(r.URL.Path, k.step) || k.done.Swap(true) {
		next.ServeHTTP(w, r)
		return
	}
	answer := httptest.NewRecorder()
	if k.when != unseen {
		next.ServeHTTP(answer, r)
	}
	if k.when == answered {
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
		_ = http.NewResponseController(w).Flush()
		_ = (<-k.victim).Kill()
		return
	}
	_ = (<-k.victim).Kill()
	panic(http.ErrAbortHandler)
}

// start starts podtask-ingress with the state of the processes before. What it says is complete when ended is closed.
func (k *killing) start() (c *exec.Cmd, said *bytes.Buffer, ended <-chan struct{}, err error) {
	c = exec.Command(os.Args[0], "--http", fmt.Sprintf("127.0.0.1:%d", k.plain), "--https", fmt.Sprintf("127.0.0.1:%d", k.secure), "--state-dir", k.dir,
		"--socket", filepath.Join(k.dir, "run", "ingress.sock"), "--acme-directory", k.server.directory, "--acme-roots", k.roots)
	said = new(bytes.Buffer)
	c.Env, c.Stderr = append(os.Environ(), asIngress+"=1"), said
	if err := c.Start(); err != nil {
		return nil, nil, nil, err
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = c.Wait() }()
	return c, said, done, nil
}

// run has a process killed in the step, and the next one obtain the certificate.
func (k *killing) run() error {
	first, said, ended, err := k.start()
	if err != nil {
		return err
	}
	k.victim <- first.Process
	select {
	case <-ended:
	case <-time.After(5 * time.Minute):
		_ = first.Process.Kill()
		<-ended
		return fmt.Errorf("the first process was not killed: %s", said)
	}
	if first.ProcessState.ExitCode() != -1 {
		return fmt.Errorf("the first process ended by itself: %s", said)
	}
	second, said, ended, err := k.start()
	if err != nil {
		return err
	}
	defer func() { _ = second.Process.Kill(); <-ended }()
	for end := time.After(5 * time.Minute); ; {
		if leaf, err := (&host{secure: k.secure}).leaf("app.example.com"); err == nil && leaf.VerifyHostname("app.example.com") == nil {
			return k.check()
		}
		select {
		case <-time.After(100 * time.Millisecond): // nothing tells a client that there is a certificate
			continue
		case <-ended:
		case <-end:
			_ = second.Process.Kill()
			<-ended
		}
		return fmt.Errorf("the second process has no certificate: %s", said)
	}
}

// mostOrders are one of the process that is killed, one of the next, and two that this one repeats: a validation that
// comes too late on a busy host fails, and is tried again with the other kind of challenge.
const mostOrders = 4

// check looks at what the processes left.
func (k *killing) check() error {
	if n := k.accounts.Load(); n > 2 {
		return fmt.Errorf("%d accounts were asked for", n)
	}
	if n := k.server.orders.Load(); n > mostOrders {
		return fmt.Errorf("%d orders were made", n)
	}
	return filepath.WalkDir(filepath.Join(k.dir, "ingress", "acme"), func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(path) != ".json" {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil && !json.Valid(data) {
			err = fmt.Errorf("%s is damaged: %q", path, data)
		}
		return err
	})
}

// A process that is killed in any step of an order leaves what the next one needs: it gets the certificate, with at
// most one more account, and does not order again and again.
func TestACMEIsKilledAtEachStep(t *testing.T) {
	var all []*killing
	for _, step := range orderSteps {
		for _, when := range []string{unseen, unheard, answered} {
			k := &killing{step: step, when: when, plain: freePort(t), secure: freePort(t), dir: t.TempDir(), victim: make(chan *os.Process, 1)}
			k.server = newACME(t, k.plain, k.secure, time.Hour*24*90, k.ServeHTTP)
			k.roots = filepath.Join(k.dir, "roots.pem")
			certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: k.server.certificate.Raw})
			err := errors.Join(os.WriteFile(k.roots, certificate, 0o600), os.MkdirAll(filepath.Join(k.dir, "ingress"), 0o700))
			if err == nil {
				err = routefile.Write(routefile.Path(k.dir), routes(t, taskdef.Ingress{URL: "https://app.example.com"}))
			}
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, k)
		}
	}
	// At the same time, because each waits until the lock of the process that was killed is old.
	var running sync.WaitGroup
	for _, k := range all {
		running.Go(func() {
			if err := k.run(); err != nil {
				t.Errorf("killed in %s %s: %v", k.step, k.when, err)
			}
		})
	}
	running.Wait()
}
