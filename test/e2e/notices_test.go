//go:build e2e

//e2e:bed systemd

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/podtask/podtask/internal/notice/deliver"
)

// hook is a webhook that keeps what it gets.
type hook struct {
	mu   sync.Mutex // guards the fields below
	down bool
	got  []string // TITLE ID, of those that were taken
	lost []string // of those that were not
	bad  []string // what is wrong with requests
}

const hookKey = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	var d deliver.Document
	if err == nil {
		err = json.Unmarshal(body, &d)
	}
	id := r.Header.Get("Webhook-Id")
	if sign := deliver.Sign(hookKey, id, r.Header.Get("Webhook-Timestamp"), body); err != nil || d.ID != id || r.Header.Get("Webhook-Signature") != sign {
		h.bad = append(h.bad, fmt.Sprintf("%v: %v %s", err, r.Header, body))
	}
	if line := d.Title + " " + d.ID; h.down {
		w.WriteHeader(http.StatusServiceUnavailable)
		h.lost = append(h.lost, line)
	} else {
		h.got = append(h.got, line)
	}
}

func (h *hook) set(down bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.down = down
}

// lines returns what was taken, and what was not.
func (h *hook) lines() (got, lost []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.got...), append([]string(nil), h.lost...)
}

// configure gives the box a configuration of its own.
func (b *box) configure(text string) {
	b.t.Helper()
	config := filepath.Join(b.dir, "config")
	home, err := os.UserHomeDir()
	if err == nil {
		err = os.MkdirAll(filepath.Join(config, "podtask"), 0o700)
	}
	if err == nil { // how registries are reached
		err = os.Symlink(filepath.Join(home, ".config", "containers"), filepath.Join(config, "containers"))
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(config, "podtask", "podtask.toml"), []byte(text), 0o600)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	b.env = append(b.env, "XDG_CONFIG_HOME="+config)
}

func TestNotices(t *testing.T) {
	b := newBox(t)
	h := &hook{}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	key := filepath.Join(b.dir, "key")
	if err := os.WriteFile(key, []byte(hookKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.configure(fmt.Sprintf("[[notify]]\nname = \"hook\"\non = [\"failed\", \"crash-loop\"]\nto = %q\nkey = \"file:%s\"\n", server.URL+"/secret-path", key))
	agent := b.agent()
	b.want(0, "notify", "test", "hook")
	fails := b.define(ctr{Name: "app", Command: words("exit 3")})
	b.detach("--name", "one", fails)
	eventually(t, "a notice of the first failure", func() bool {
		got, _ := h.lines()
		return len(got) == 2 && strings.HasPrefix(got[1], "task one has failed ")
	})

	h.set(true)
	b.detach("--name", "two", fails)
	eventually(t, "an attempt to tell of the second", func() bool {
		_, lost := h.lines()
		return len(lost) > 0
	})
	agent.signalAll(syscall.SIGKILL)
	<-agent.ended
	h.set(false)
	agent = b.agent()
	eventually(t, "the notice after the kill", func() bool {
		got, _ := h.lines()
		return len(got) == 3
	})
	got, lost := h.lines()
	if got[2] != lost[0] || !strings.HasPrefix(got[2], "task two has failed ") || len(h.bad) > 0 {
		t.Errorf("taken %q, not taken %q, wrong %q", got, lost, h.bad)
	}
	log := b.want(0, "notify", "log", "--format", "json").out
	list := b.want(0, "notify", "ls", "--format", "wide").out
	for _, secret := range []string{hookKey, "secret-path"} {
		if strings.Contains(log+list, secret) {
			t.Errorf("%s is shown:\n%s%s", secret, log, list)
		}
	}
	if strings.Count(log, `"status": "delivered"`) != 2 {
		t.Errorf("the log is\n%s", log)
	}
	agent.signalAll(syscall.SIGTERM)
	agent.wait()
}
