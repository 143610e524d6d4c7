package libpod_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/host/libpod"
)

func TestSecret(t *testing.T) {
	t.Parallel()
	answer := func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/secrets/login/json") && r.URL.Query().Get("showsecret") == "true":
			reply(w, 200, `{"ID":"1","SecretData":"hunter2"}`)
		case strings.HasSuffix(r.URL.Path, "/secrets/broken/json"):
			reply(w, 200, `{"SecretData":"hunter2`)
		default:
			reply(w, 404, `{"cause":"no such secret","message":"no such secret","response":404}`)
		}
	}
	c := recorded(t, "5.4.2", answer)
	if b, err := c.Secret(soon(t), "login"); err != nil || string(b) != "hunter2" {
		t.Errorf("got %q, %v", b, err)
	}
	if _, err := c.Secret(soon(t), "none"); !errors.Is(err, libpod.NotFound) {
		t.Errorf("got %v", err)
	}
	if _, err := c.Secret(soon(t), "broken"); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
	old := recorded(t, "4.3.1", func(http.ResponseWriter, *http.Request) { t.Error("4.3.1 was asked") })
	if _, err := old.Secret(soon(t), "login"); err == nil || !strings.Contains(err.Error(), "file:/PATH") {
		t.Errorf("got %v", err)
	}
}
