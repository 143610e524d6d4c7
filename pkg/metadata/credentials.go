package metadata

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"sync"
	"time"
)

// Credentials are what a container's AWS SDK gets. They are never stored.
type Credentials struct {
	RoleARN         string `json:"RoleArn"`
	AccessKeyID     string `json:"AccessKeyId"`
	SecretAccessKey string
	Token           string
	Expiration      time.Time
}

// String keeps secrets out of logs and error texts.
func (Credentials) String() string { return "credentials (hidden)" }

// refreshBefore is how long before their end credentials are fetched anew. SDKs
// ask again about five minutes before.
const refreshBefore = 10 * time.Minute

// lasting is the life given to credentials that come without an end, because an
// SDK refuses those.
const lasting = time.Hour

// Helper fetches credentials from a program that prints them as a
// credential_process of the AWS configuration does: JSON with Version 1,
// AccessKeyId, SecretAccessKey and, where they are temporary, SessionToken and
// Expiration. What it prints besides and its errors never reach a log.
type Helper struct {
	// Command is the program and its arguments; it is run without a shell.
	Command []string
	// RoleARN is handed on as it is.
	RoleARN string
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	mu    sync.Mutex
	cache Credentials
}

// Credentials returns the present credentials, fetched anew when they end within
// ten minutes. Concurrent calls share one run of the program. Should that fail
// while older ones still hold, these are returned.
func (h *Helper) Credentials(ctx context.Context) (Credentials, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now
	if h.Now != nil {
		now = h.Now
	}
	if h.cache.Expiration.Sub(now()) > refreshBefore {
		return h.cache, nil
	}
	c, err := h.fetch(ctx, now())
	if err != nil && h.cache.Expiration.After(now()) {
		return h.cache, nil
	}
	if err == nil {
		h.cache = c
	}
	return c, err
}

func (h *Helper) fetch(ctx context.Context, now time.Time) (Credentials, error) {
	if len(h.Command) == 0 {
		return Credentials{}, errors.New("no credentials helper is configured")
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.Command[0], h.Command[1:]...)
	var out bytes.Buffer
	cmd.Stdout = &out // its stderr may hold secrets and is dropped
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return Credentials{}, fmt.Errorf("credentials helper %s: %w; run it by hand to see why", h.Command[0], err)
	}
	var p struct {
		Version                                    int
		AccessKeyID, SecretAccessKey, SessionToken string
		Expiration                                 time.Time
	}
	if json.Unmarshal(out.Bytes(), &p) != nil || p.Version != 1 || p.AccessKeyID == "" || p.SecretAccessKey == "" {
		return Credentials{}, fmt.Errorf("credentials helper %s did not print credentials: JSON with Version 1, AccessKeyId and SecretAccessKey, as a credential_process does", h.Command[0])
	}
	c := Credentials{RoleARN: h.RoleARN, AccessKeyID: p.AccessKeyID, SecretAccessKey: p.SecretAccessKey, Token: p.SessionToken, Expiration: p.Expiration}
	if c.Expiration.IsZero() {
		c.Expiration = now.Add(lasting).UTC()
	}
	return c, nil
}

// failure is the form of an error on the credentials path.
type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (s *Server) credentials(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.PathValue("id") != credentialsID(s.src.Key):
		s.answer(w, http.StatusBadRequest, failure{"InvalidIdInRequest", "there are no credentials by that id"})
	case s.src.Credentials == nil:
		s.answer(w, http.StatusServiceUnavailable, failure{"CredentialsUninitialized", "this task has no role: no credentials helper is configured on this host"})
	default:
		c, err := s.src.Credentials(r.Context())
		if err != nil {
			s.src.Log.Warn("no credentials for the task", "error", err)
			s.answer(w, http.StatusServiceUnavailable, failure{"CredentialsUninitialized", err.Error()})
			return
		}
		s.answer(w, http.StatusOK, c)
	}
}
