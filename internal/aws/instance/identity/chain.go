package identity

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/shlex"

	"github.com/podtask/podtask/internal/aws/instance/awscall"
)

// ErrNone is the error of a host without credentials.
var ErrNone = errors.New("no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write a profile into ~/.aws/credentials, or give an activation of Systems Manager (docs/ecs-anywhere.md)")

const (
	// early is how long before their end credentials are asked for again.
	early = 5 * time.Minute
	// reread is how long credentials of a file are used that do not say when they end: another
	// program may rotate them.
	reread = time.Minute
	// processLimit limits the time that a credential_process may take.
	processLimit = time.Minute
	// maxFile is the most that a file, or what a program prints, may have, in bytes.
	maxFile = 1 << 20
)

// Chain finds credentials. It is safe for concurrent use.
type Chain struct {
	Getenv func(string) string
	// Profile is that of the files; empty for AWS_PROFILE, else default.
	Profile string
	// Hybrid provides the credentials of an activation; nil: there is none.
	Hybrid awscall.Provider

	mu    sync.Mutex
	have  awscall.Credentials
	until time.Time
}

// Get returns credentials that are valid now. Calls share them.
func (c *Chain) Get(ctx context.Context) (awscall.Credentials, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Before(c.until) {
		return c.have, nil
	}
	got, err := c.find(ctx)
	if err != nil {
		if c.have.AccessKeyID != "" && now.Before(c.have.Expires) {
			return c.have, nil // they hold a little longer
		}
		return got, err
	}
	c.have, c.until = got, now.Add(reread)
	if !got.Expires.IsZero() {
		c.until = got.Expires.Add(-early)
	}
	return got, nil
}

func (c *Chain) find(ctx context.Context) (awscall.Credentials, error) {
	if id, secret := c.Getenv("AWS_ACCESS_KEY_ID"), c.Getenv("AWS_SECRET_ACCESS_KEY"); id != "" || secret != "" {
		if id == "" || secret == "" {
			return awscall.Credentials{}, errors.New("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY belong together: set both or none")
		}
		return awscall.Credentials{AccessKeyID: id, SecretAccessKey: secret, SessionToken: c.Getenv("AWS_SESSION_TOKEN")}, nil
	}
	if c.Hybrid != nil {
		return c.Hybrid(ctx)
	}
	return c.files(ctx)
}

// Settings choose endpoints and trust; the environment and the profile have them.
type Settings struct {
	FIPS, DualStack bool
	// DualStackSet: it was chosen, whichever way.
	DualStackSet bool
	// CABundle is a file with certificates of authorities; empty for none.
	CABundle string
}

// Settings reads the settings, those of the environment before those of the profile.
func (c *Chain) Settings() (s Settings, err error) {
	values, _, _, _, err := c.profile()
	if err != nil {
		return s, err
	}
	choice := func(variable, key string) (on, set bool) {
		text := c.Getenv(variable)
		if text == "" {
			text = values[key]
		}
		switch strings.ToLower(text) {
		case "":
			return false, false
		case "true":
			return true, true
		case "false":
			return false, true
		}
		err = errors.Join(err, fmt.Errorf("%s (%s in the profile): %q is neither true nor false", variable, key, text))
		return false, true
	}
	s.FIPS, _ = choice("AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint")
	s.DualStack, s.DualStackSet = choice("AWS_USE_DUALSTACK_ENDPOINT", "use_dualstack_endpoint")
	if s.CABundle = c.Getenv("AWS_CA_BUNDLE"); s.CABundle == "" {
		s.CABundle = values["ca_bundle"]
	}
	return s, err
}

// profile returns the values of the profile, its name, and the files that they are read from.
func (c *Chain) profile() (values map[string]string, profile, credentials, config string, err error) {
	profile = c.Profile
	for _, name := range []string{c.Getenv("AWS_PROFILE"), "default"} {
		if profile == "" {
			profile = name
		}
	}
	home := c.Getenv("HOME")
	credentials, config = c.Getenv("AWS_SHARED_CREDENTIALS_FILE"), c.Getenv("AWS_CONFIG_FILE")
	if credentials == "" {
		credentials = filepath.Join(home, ".aws", "credentials")
	}
	if config == "" {
		config = filepath.Join(home, ".aws", "config")
	}
	inConfig := "profile " + profile
	if profile == "default" {
		inConfig = profile
	}
	values = make(map[string]string)
	for _, f := range []struct{ path, section string }{{config, inConfig}, {credentials, profile}} { // the second goes first
		found, err := section(f.path, f.section)
		if err != nil {
			return nil, profile, credentials, config, err
		}
		maps.Copy(values, found)
	}
	return values, profile, credentials, config, nil
}

// files reads the profile from the files of the AWS command line.
func (c *Chain) files(ctx context.Context) (awscall.Credentials, error) {
	values, profile, credentials, config, err := c.profile()
	if err != nil {
		return awscall.Credentials{}, err
	}
	switch id, secret := values["aws_access_key_id"], values["aws_secret_access_key"]; {
	case id != "" && secret != "":
		return awscall.Credentials{AccessKeyID: id, SecretAccessKey: secret, SessionToken: values["aws_session_token"]}, nil
	case id != "" || secret != "":
		return awscall.Credentials{}, fmt.Errorf("the profile %q in %s needs both aws_access_key_id and aws_secret_access_key", profile, credentials)
	case values["credential_process"] != "":
		return run(ctx, values["credential_process"])
	case c.Profile != "" || c.Getenv("AWS_PROFILE") != "":
		return awscall.Credentials{}, fmt.Errorf("the profile %q has no keys and no credential_process, neither in %s nor in %s", profile, credentials, config)
	}
	return awscall.Credentials{}, ErrNone
}

// section reads a section of a file with lines as NAME = VALUE.
func section(path, name string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return parseSection(text, name), nil
}

// parseSection returns the values of a section. Lines that are no values are left out: these files
// are of other programs.
func parseSection(text []byte, name string) map[string]string {
	out, in := make(map[string]string), false
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxFile+1)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if header, ok := strings.CutPrefix(line, "["); ok {
			header, _, _ = strings.Cut(header, "]")
			in = strings.Join(strings.Fields(header), " ") == name
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if in && ok && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, ";") {
			out[strings.ToLower(strings.TrimSpace(key))] = strings.TrimSpace(value)
		}
	}
	return out
}

// run runs a credential_process. What it prints is in no error.
func run(ctx context.Context, command string) (c awscall.Credentials, err error) {
	words, err := shlex.Split(command)
	if err != nil || len(words) == 0 {
		return c, errors.New("credential_process is not a program with arguments")
	}
	ctx, cancel := context.WithTimeout(ctx, processLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return c, fmt.Errorf("credential_process %s: %w", words[0], err)
	}
	if c, err = ParseProcess(out); err != nil {
		return c, fmt.Errorf("credential_process %s: %w", words[0], err)
	}
	return c, nil
}

// ParseProcess reads what a credential_process prints.
func ParseProcess(text []byte) (c awscall.Credentials, err error) {
	var p struct {
		Version         int
		AccessKeyID     string `json:"AccessKeyId"`
		SecretAccessKey string
		SessionToken    string
		Expiration      *time.Time
	}
	if len(text) > maxFile || json.Unmarshal(text, &p) != nil {
		return c, errors.New("it does not print the JSON of a credential_process")
	}
	switch {
	case p.Version != 1:
		return c, fmt.Errorf("it prints version %d, and only 1 is known", p.Version)
	case p.AccessKeyID == "" || p.SecretAccessKey == "":
		return c, errors.New("it prints no AccessKeyId or SecretAccessKey")
	}
	c = awscall.Credentials{AccessKeyID: p.AccessKeyID, SecretAccessKey: p.SecretAccessKey, SessionToken: p.SessionToken}
	if p.Expiration != nil {
		c.Expires = *p.Expiration
	}
	return c, nil
}
