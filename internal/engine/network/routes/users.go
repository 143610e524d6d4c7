package routes

import (
	"bytes"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/podtask/podtask/internal/ingress/routefile"
)

const (
	// maxUsers is how many may send requests to an address.
	maxUsers = 64
	// iterations make it slow to guess passwords by the file of routes: some 20 ms for each.
	iterations = 100_000
	saltSize   = 16
)

// Users reads a secret with a line USER:PASSWORD for each user, and returns what the proxy needs to
// check passwords. Empty lines and those that begin with # are left out. Errors never hold the text.
func Users(secret []byte) (users []routefile.User, err error) {
	number := 0
	for line := range bytes.Lines(secret) {
		number++
		line = bytes.TrimRight(line, "\r\n")
		if len(bytes.TrimSpace(line)) == 0 || line[0] == '#' {
			continue
		}
		name, password, found := bytes.Cut(line, []byte(":"))
		switch {
		case !found || len(name) == 0 || len(password) == 0 || len(name) > 256 || len(password) > 1024:
			return nil, fmt.Errorf("line %d is not USER:PASSWORD", number)
		case slices.ContainsFunc(users, func(u routefile.User) bool { return u.Name == string(name) }):
			return nil, fmt.Errorf("line %d names a user for the second time", number)
		case len(users) == maxUsers:
			return nil, fmt.Errorf("there are more than %d users", maxUsers)
		}
		u := routefile.User{Name: string(name), Salt: make([]byte, saltSize), Iterations: iterations}
		_, _ = rand.Read(u.Salt) // never fails
		if u.Hash, err = pbkdf2.Key(sha256.New, string(password), u.Salt, iterations, sha256.Size); err != nil {
			return nil, err
		}
		users = append(users, u)
	}
	if len(users) == 0 {
		return nil, errors.New("there is no line USER:PASSWORD")
	}
	return users, nil
}
