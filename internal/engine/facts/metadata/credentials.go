package metadata

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/podtask/podtask/internal/host/procgroup"
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

// refreshBefore is the time before their end at which credentials are fetched again. SDKs ask again about five minutes
// before.
const refreshBefore = 10 * time.Minute

// lasting is the lifetime of credentials without an expiration, because SDKs require one.
const lasting = time.Hour

// Helper fetches credentials from a program that prints them as a
// credential_process of the AWS configuration does: JSON with Version 1,
// AccessKeyId, SecretAccessKey and, for temporary ones, SessionToken and Expiration. Its
// other output and its errors are never logged.
type Helper struct {
	// Command is the program and its arguments; it is run without a shell.
	Command []string
	// Read returns what Command would print, and is used in its place; nil for Command. Its
	// errors are shown, and say what was read.
	Read func(context.Context) ([]byte, error)
	// Fresh: Read is called for each request, because reading costs nothing and others may replace what it reads at any
	// moment.
	Fresh bool
	// RoleARN is passed on unchanged.
	RoleARN string
	// Env are variables of the program besides those of this process.
	Env []string
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	timeout time.Duration // of a run; 0: helperTimeout
	group   singleflight.Group

	mu       sync.Mutex
	cache    Credentials
	failure  error // of the last run; nil: it succeeded
	failedAt time.Time
}

const (
	// helperTimeout limits one run of the program.
	helperTimeout = 30 * time.Second
	// helperOutput limits the output of the program, in bytes.
	helperOutput = 64 << 10
	// retryAfter is the time for which a failure is repeated without another run of the program.
	retryAfter = 5 * time.Second
)

// Credentials returns the present credentials. The program runs when they end within ten
// minutes, or at each call with Fresh. Concurrent calls share one run, which continues when a caller leaves: the next
// call needs its result. If a run fails, the previous credentials are returned while they
// are valid, and the program does not run again for five seconds.
func (h *Helper) Credentials(ctx context.Context) (Credentials, error) {
	if c, ok, err := h.known(); ok {
		return c, err
	}
	run := h.group.DoChan("", func() (any, error) { return h.renew(context.WithoutCancel(ctx)) })
	select {
	case <-ctx.Done():
		return Credentials{}, ctx.Err()
	case result := <-run:
		return result.Val.(Credentials), result.Err
	}
}

func (h *Helper) now() time.Time {
	if h.Now != nil {
		return h.Now()
	}
	return time.Now()
}

// known returns the answer if the program need not run; otherwise ok is false.
func (h *Helper) known() (c Credentials, ok bool, err error) {
	now := h.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	since := now.Sub(h.failedAt)
	switch failed := h.failure != nil && since >= 0 && since < retryAfter; {
	case !h.Fresh && h.cache.Expiration.Sub(now) > refreshBefore:
		return h.cache, true, nil
	case failed && h.cache.Expiration.After(now):
		return h.cache, true, nil
	case failed:
		return Credentials{}, true, h.failure
	}
	return Credentials{}, false, nil
}

// renew runs the program, unless another run has just ended.
func (h *Helper) renew(ctx context.Context) (Credentials, error) {
	if c, ok, err := h.known(); ok {
		return c, err
	}
	c, err := h.fetch(ctx, h.now())
	now := h.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failure, h.failedAt = err, now
	switch {
	case err == nil:
		h.cache = c
	case h.cache.Expiration.After(now):
		return h.cache, nil
	}
	return c, err
}

func (h *Helper) fetch(ctx context.Context, now time.Time) (Credentials, error) {
	out, what, err := h.output(ctx)
	if err != nil {
		return Credentials{}, err
	}
	var p struct {
		Version                                    int
		AccessKeyID, SecretAccessKey, SessionToken string
		Expiration                                 time.Time
	}
	if json.Unmarshal(out, &p) != nil || p.Version != 1 || p.AccessKeyID == "" || p.SecretAccessKey == "" {
		return Credentials{}, fmt.Errorf("%s no credentials: JSON with Version 1, AccessKeyId and SecretAccessKey, as a credential_process prints", what)
	}
	c := Credentials{RoleARN: h.RoleARN, AccessKeyID: p.AccessKeyID, SecretAccessKey: p.SecretAccessKey, Token: p.SessionToken, Expiration: p.Expiration}
	if c.Expiration.IsZero() {
		c.Expiration = now.Add(lasting).UTC()
	}
	return c, nil
}

// output returns the JSON of the credentials, and words for where it comes from.
func (h *Helper) output(ctx context.Context) (out []byte, what string, err error) {
	switch {
	case h.Read != nil:
		ctx, cancel := context.WithTimeout(ctx, helperTimeout)
		defer cancel()
		out, err = h.Read(ctx)
		return out, "the source of the role has", err
	case len(h.Command) == 0:
		return nil, "", errors.New("no credentials helper is configured")
	}
	if out, err = h.run(ctx); err != nil {
		err = fmt.Errorf("credentials helper %s: %w; run it by hand to see why", h.Command[0], err)
	}
	return out, "credentials helper " + h.Command[0] + " printed", err
}

// run returns what the program prints. At the timeout, and when the program prints too
// much, its whole process group is killed.
func (h *Helper) run(ctx context.Context) ([]byte, error) {
	timeout := h.timeout
	if timeout == 0 {
		timeout = helperTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("it did not end within %s", timeout))
	defer cancel()
	ctx, kill := context.WithCancelCause(ctx)
	defer kill(nil)
	cmd := exec.CommandContext(ctx, h.Command[0], h.Command[1:]...)
	cmd.WaitDelay = time.Second
	if len(h.Env) > 0 {
		cmd.Env = append(os.Environ(), h.Env...)
	}
	out := bounded{tooMuch: func() { kill(fmt.Errorf("it prints more than %d bytes", helperOutput)) }}
	cmd.Stdout = &out // its stderr may contain secrets and is discarded
	if err := procgroup.Run(cmd); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		return nil, err
	}
	return out.text, nil
}

// bounded accepts at most helperOutput bytes. It calls tooMuch if there are more.
type bounded struct {
	text    []byte
	tooMuch func()
}

func (b *bounded) Write(p []byte) (int, error) {
	if len(b.text)+len(p) > helperOutput {
		b.tooMuch()
		return 0, io.ErrShortWrite
	}
	b.text = append(b.text, p...)
	return len(p), nil
}

// failure is the form of an error on the credentials path.
type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (s *Server) credentials(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("id") != credentialsID(s.src.Key) {
		s.answer(w, http.StatusBadRequest, failure{"InvalidIdInRequest", "there are no credentials by that id"})
		return
	}
	done, ok := s.admit(w, r)
	if !ok {
		return
	}
	defer done()
	switch {
	case s.src.Credentials == nil:
		s.answer(w, http.StatusServiceUnavailable, failure{"CredentialsUninitialized", "this task has no role: no credentials helper is configured on this host"})
	default:
		c, err := s.src.Credentials(r.Context())
		if err != nil && r.Context().Err() != nil {
			return // the client has disconnected
		}
		if err != nil {
			s.src.Log.Warn("no credentials for the task", "error", err)
			s.answer(w, http.StatusServiceUnavailable, failure{"CredentialsUninitialized", err.Error()})
			return
		}
		s.answer(w, http.StatusOK, c)
	}
}
