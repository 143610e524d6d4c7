package proxy

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"sync"

	"github.com/podtask/podtask/internal/ingress/routefile"
)

// verifier checks names and passwords. A check costs much, so that a password cannot be guessed from
// the file of routes; what was right is remembered, and few checks run at a time.
type verifier struct {
	once  sync.Once
	key   []byte
	slots chan struct{}

	mu    sync.Mutex
	known map[[sha256.Size]byte]bool
}

const (
	// checksAtOnce is the number of passwords that are checked at a time.
	checksAtOnce = 2
	// maxKnown is how many right answers are remembered.
	maxKnown = 1024
)

// allows reports whether who sends a request may.
func (v *verifier) allows(r *http.Request, route routefile.Route) bool {
	if route.Auth == "" {
		return true
	}
	v.once.Do(func() {
		v.key = make([]byte, sha256.Size)
		_, _ = rand.Read(v.key) // never fails
		v.slots = make(chan struct{}, checksAtOnce)
		v.known = map[[sha256.Size]byte]bool{}
	})
	name, password, given := r.BasicAuth()
	if !given || len(name) > 256 || len(password) > 1024 {
		return false
	}
	for _, u := range route.Users {
		if subtle.ConstantTimeCompare([]byte(u.Name), []byte(name)) == 1 {
			return v.matches(r, u, password)
		}
	}
	return false
}

// matches checks the password of a user.
func (v *verifier) matches(r *http.Request, u routefile.User, password string) bool {
	mac := hmac.New(sha256.New, v.key)
	for _, part := range [][]byte{u.Salt, u.Hash, []byte(password)} {
		sum := sha256.Sum256(part)
		mac.Write(sum[:])
	}
	var seen [sha256.Size]byte
	mac.Sum(seen[:0])
	v.mu.Lock()
	known := v.known[seen]
	v.mu.Unlock()
	if known {
		return true
	}
	select {
	case v.slots <- struct{}{}:
		defer func() { <-v.slots }()
	case <-r.Context().Done():
		return false
	}
	hash, err := pbkdf2.Key(sha256.New, password, u.Salt, u.Iterations, len(u.Hash))
	if err != nil || len(u.Hash) == 0 || subtle.ConstantTimeCompare(hash, u.Hash) != 1 {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.known) >= maxKnown {
		clear(v.known)
	}
	v.known[seen] = true
	return true
}
