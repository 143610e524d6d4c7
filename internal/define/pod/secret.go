package pod

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/distribution/reference"

	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// Secret is content that the task's containers are given. No verb of fmt and no encoding
// shows it; Value does.
type Secret struct {
	// Name is that of the source env:NAME in the task. It follows from the names of the
	// Pod and of what the content is from, never from the content.
	Name     string
	value    []byte
	ofSecret bool
}

// Sensitive reports whether the content is that of a Secret, not of a ConfigMap or the downward API.
func (s Secret) Sensitive() bool { return s.ofSecret }

// Value returns the content.
func (s Secret) Value() []byte { return bytes.Clone(s.value) }

// Format implements fmt.Formatter: no verb shows the content.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "[secret "+s.Name+"]") }

// MarshalText keeps the content out of JSON.
func (s Secret) MarshalText() ([]byte, error) { return []byte("[secret " + s.Name + "]"), nil }

// SecretPrefix begins the names of all Secrets. They are no variables of the environment:
// who runs the task answers for them.
const SecretPrefix = "PODTASK_POD_"

// maxSecret is what Podman takes as one secret (internal/host/secretsource: maxSecretSize).
const maxSecret = 512000 - 1

// secret notes content, and returns its source.
func (b *reader) secret(kind, name, key string, c content) *taskdef.SecretValue {
	if c.source != "" {
		return &taskdef.SecretValue{ValueFrom: c.source, Source: c.source}
	}
	s := Secret{Name: b.secretName(kind, name, key), value: c.bytes, ofSecret: kind == "Secret" || kind == "logins"}
	if !slices.ContainsFunc(b.result.Secrets, func(o Secret) bool { return o.Name == s.Name }) {
		b.result.Secrets = append(b.result.Secrets, s)
	}
	source := "env:" + s.Name
	return &taskdef.SecretValue{ValueFrom: source, Source: source}
}

// secretName is the name of content of the Pod.
func (b *reader) secretName(kind, name, key string) string {
	p := b.result.Pod
	sum := sha256.Sum256([]byte(strings.Join([]string{p.Namespace, p.Name, p.UID, kind, name, key}, "\x00")))
	return SecretPrefix + hex.EncodeToString(sum[:12])
}

// The types of Secrets that hold logins of registries.
const (
	dockerConfigJSON = "kubernetes.io/dockerconfigjson"
	dockerConfig     = "kubernetes.io/dockercfg"
)

// logins gathers what the imagePullSecrets know about registries, by the key of the
// registry.
func (b *reader) logins() map[string]json.RawMessage {
	all := make(map[string]json.RawMessage)
	for _, ref := range b.spec.at("imagePullSecrets").items() {
		name := ref.at("name").str()
		doc, ok := b.secrets[name]
		if !ok {
			ref.warn("the Secret "+doctree.Quote(name)+" is not in the file: images are pulled with the logins of the host", "")
			continue
		}
		if kept := keptOf(doc).Logins; kept.Source != "" {
			b.keptLogins = append(b.keptLogins, kept)
			continue
		}
		entries, isLogins := loginsOf(doc)
		switch {
		case !isLogins:
			ref.wrong("the Secret "+doctree.Quote(name)+" holds no logins: its type is "+doctree.Quote(doc.at("type").str()), "use one of the type "+dockerConfigJSON)
		case len(entries) == 0:
			ref.wrong("the Secret "+doctree.Quote(name)+" holds no logins as its type promises", "make it with `kubectl create secret docker-registry`")
		}
		for key, entry := range entries {
			if _, known := all[key]; !known {
				all[key] = entry
			}
		}
	}
	return all
}

// loginsOf returns the entries of a Secret of one of the types for logins; none if it does
// not hold what its type promises.
func loginsOf(doc value) (entries map[string]json.RawMessage, isLogins bool) {
	var err error
	switch data := secretData(doc); doc.at("type").str() {
	case dockerConfigJSON:
		var file struct{ Auths map[string]json.RawMessage }
		err = json.Unmarshal(data[".dockerconfigjson"].bytes, &file)
		entries = file.Auths
	case dockerConfig:
		err = json.Unmarshal(data[".dockercfg"].bytes, &entries)
	default:
		return nil, false
	}
	if err != nil {
		return nil, true
	}
	return entries, true
}

// credentials gives a container the logins for the registry of its image, if there are
// any.
func (b *reader) credentials(c *taskdef.Container, logins map[string]json.RawMessage) {
	named, err := reference.ParseNormalizedNamed(c.Image)
	if err != nil {
		return
	}
	registry := reference.Domain(named)
	mine := make(map[string]json.RawMessage)
	for _, key := range slices.Sorted(maps.Keys(logins)) {
		if host, place := loginPlace(key); host == registry {
			mine[place] = logins[key]
		}
	}
	if len(mine) == 0 {
		if i := slices.IndexFunc(b.keptLogins, func(k keptLogins) bool { return slices.Contains(k.Registries, registry) }); i >= 0 {
			c.RepositoryCredentials = b.secret("logins", registry, "", content{source: b.keptLogins[i].Source})
		}
		return
	}
	file, err := json.Marshal(map[string]any{"auths": mine})
	if err != nil {
		return // the entries were JSON before
	}
	c.RepositoryCredentials = b.secret("logins", registry, "", content{bytes: file})
}

// loginPlace returns the registry that the key of a login names, and the key as
// containers-auth.json(5) writes it.
func loginPlace(key string) (host, place string) {
	host, path, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(key, "https://"), "http://"), "/")
	switch {
	case host == "index.docker.io" || host == "docker.io":
		return "docker.io", "docker.io"
	case path == "" || path == "v1/" || path == "v2/":
		return host, host
	}
	return host, host + "/" + strings.TrimSuffix(path, "/")
}
