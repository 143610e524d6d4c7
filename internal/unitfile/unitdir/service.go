package unitdir

import (
	"fmt"
	"slices"
	"strings"
)

// Quote writes a word for a unit file, as systemd.syntax(7) reads it. Variables are expanded in arguments only.
func Quote(word string, variables bool) (string, error) {
	if strings.ContainsFunc(word, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", fmt.Errorf("%q has a control character", word)
	}
	word = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%").Replace(word)
	if variables {
		word = strings.ReplaceAll(word, "$", "$$")
	}
	return `"` + word + `"`, nil
}

// unitVariables are the variables that a service file has: those that say where podtask and Podman are. The file
// lies on disk, so proxies and what else may contain a password is not among them.
var unitVariables = []string{"PATH", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "CONTAINER_HOST", "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "STORAGE_DRIVER", "STORAGE_OPTS", "CONTAINERS_REGISTRIES_CONF", "REGISTRY_AUTH_FILE", "DOCKER_CONFIG", "SSL_CERT_FILE", "SSL_CERT_DIR"}

// Environment returns the variables of an environment that the file of a service may have.
func Environment(environ []string) (env []string) {
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		if slices.Contains(unitVariables, name) || strings.HasPrefix(name, "PODTASK_") {
			env = append(env, e)
		}
	}
	slices.Sort(env)
	return env
}
