package libpod

import (
	"slices"

	"github.com/blang/semver/v4"
	"go.podman.io/common/pkg/config"
)

// CDISince is the first Podman that reads CDI files as vendors' tools write them today: older
// ones refuse members that they do not know (4.9.3). CDISpecDirsSince is the first that looks
// in the directories of cdi_spec_dirs.
var (
	CDISince         = semver.Version{Major: 5}
	CDISpecDirsSince = semver.Version{Major: 5, Minor: 5}
)

// CDISpecDirs are the directories in which Podman looks for CDI specifications: those of
// cdi_spec_dirs in containers.conf, else the usual ones. Usual reports the latter. It reads the
// files once in the life of the process.
func CDISpecDirs() (dirs []string, usual bool) {
	dirs = config.DefaultCdiSpecDirs
	if conf, err := config.Default(); err == nil {
		dirs = conf.Engine.CdiSpecDirs.Get()
	}
	return dirs, slices.Equal(dirs, config.DefaultCdiSpecDirs)
}

// KeyringEnabled reports whether Podman gives each container a session keyring: unless
// containers.conf says keyring = false. It reads the files once in the life of the process.
func KeyringEnabled() bool {
	conf, err := config.Default()
	return err != nil || conf.Containers.EnableKeyring
}
