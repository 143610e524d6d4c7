package awskey

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/podtask/podtask/internal/atomicfile"
	"github.com/podtask/podtask/internal/aws/sigv4"
)

const (
	file = "aws-key"
	// The lengths of AWS' own keys; some clients check them.
	idLength, secretLength = 20, 40
	// prefix is that of AWS' long-lived keys.
	prefix = "AKIA"
)

// Load returns the key of a state directory. It makes one if there is none.
func Load(stateDir string) (sigv4.Key, error) {
	path := filepath.Join(stateDir, file)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := create(path); err != nil {
			return sigv4.Key{}, fmt.Errorf("make the key for AWS clients: %w", err)
		}
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return sigv4.Key{}, fmt.Errorf("read the key for AWS clients: %w", err)
	}
	id, secret, _ := strings.Cut(strings.TrimSpace(string(data)), " ")
	if len(id) != idLength || len(secret) != secretLength {
		return sigv4.Key{}, fmt.Errorf("%s is not a key: `podtask aws key --new` makes a new one", path)
	}
	return sigv4.Key{ID: id, Secret: secret}, nil
}

// create makes the file unless another process has made it meanwhile.
func create(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+file+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.WriteString(text(generate()))
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := os.Link(tmp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// Replace makes a new key. The old one is not accepted anymore.
func Replace(stateDir string) (sigv4.Key, error) {
	k := generate()
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return k, err
	}
	return k, atomicfile.Write(filepath.Join(stateDir, file), []byte(text(k)), 0o600)
}

func text(k sigv4.Key) string { return k.ID + " " + k.Secret + "\n" }

// generate makes a random key: 80 bits in the identifier, 200 in the secret.
func generate() sigv4.Key {
	random := rand.Text() + rand.Text() + rand.Text() // 26 letters and digits each
	return sigv4.Key{ID: prefix + random[:idLength-len(prefix)], Secret: random[26 : 26+secretLength]}
}
