package libpod

import "github.com/containers/common/pkg/config"

// KeyringEnabled reports whether Podman gives each container a session keyring: unless
// containers.conf says keyring = false. It reads the files once in the life of the process.
func KeyringEnabled() bool {
	conf, err := config.Default()
	return err != nil || conf.Containers.EnableKeyring
}
