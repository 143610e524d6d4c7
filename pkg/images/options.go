package images

import (
	"path/filepath"

	"github.com/containers/image/v5/types"
)

// Options say where containers/image finds its configuration. An empty field
// means its default search (containers-auth.json(5), containers-registries.conf(5),
// containers-certs.d(5)).
type Options struct {
	// AuthFile is the one file credentials are read from, credential helpers
	// named in it included.
	AuthFile string
	// RegistriesConf replaces the system's and the user's registries.conf.
	RegistriesConf string
	// RegistriesConfDir replaces registries.conf.d.
	RegistriesConfDir string
	// CertsDir replaces the certs.d directories; it holds one directory per host:port.
	CertsDir string
	// UserAgent is sent with each request.
	UserAgent string
}

// OptionsFromEnv reads the variables Podman's command reads and containers/image
// itself does not: REGISTRY_AUTH_FILE, else DOCKER_CONFIG (a directory), and
// CONTAINERS_REGISTRIES_CONF, else its older name REGISTRIES_CONFIG_PATH.
func OptionsFromEnv(getenv func(string) string) Options {
	var o Options
	o.AuthFile = getenv("REGISTRY_AUTH_FILE")
	if dir := getenv("DOCKER_CONFIG"); o.AuthFile == "" && dir != "" {
		o.AuthFile = filepath.Join(dir, "config.json")
	}
	o.RegistriesConf = getenv("CONTAINERS_REGISTRIES_CONF")
	if o.RegistriesConf == "" {
		o.RegistriesConf = getenv("REGISTRIES_CONFIG_PATH")
	}
	return o
}

func (o Options) systemContext() *types.SystemContext {
	return &types.SystemContext{
		AuthFilePath:                o.AuthFile,
		SystemRegistriesConfPath:    o.RegistriesConf,
		SystemRegistriesConfDirPath: o.RegistriesConfDir,
		DockerPerHostCertDirPath:    o.CertsDir,
		DockerRegistryUserAgent:     o.UserAgent,
	}
}
