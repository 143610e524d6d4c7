package images

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"go.podman.io/image/v5/pkg/sysregistriesv2"
	"go.podman.io/image/v5/types"
)

// registriesConf remembers which files containers/image has read: it reads registries.conf once in a
// process, and an agent lives long.
var registriesConf struct {
	mu   sync.Mutex
	read map[string]string // the versions of the files, by the path of registries.conf
}

// findRegistry is what registries.conf says of an image's registry now; nil if it says nothing.
func findRegistry(sys *types.SystemContext, name string) (*sysregistriesv2.Registry, error) {
	path := sysregistriesv2.ConfigPath(sys)
	now := registriesVersion(path, sysregistriesv2.ConfigDirPath(sys), sys.SystemRegistriesConfDirPath, "/etc/containers/registries.conf.d")
	registriesConf.mu.Lock()
	if before, ok := registriesConf.read[path]; ok && before != now {
		sysregistriesv2.InvalidateCache()
	}
	if registriesConf.read == nil {
		registriesConf.read = make(map[string]string)
	}
	registriesConf.read[path] = now
	registriesConf.mu.Unlock()
	return sysregistriesv2.FindRegistry(sys, name)
}

// registriesVersion tells versions of registries.conf and the files of its directories apart.
func registriesVersion(path string, dirs ...string) string {
	files := []string{path}
	for _, dir := range dirs {
		more, _ := filepath.Glob(filepath.Join(dir, "*.conf")) // the pattern is good
		if dir != "" {
			files = append(files, more...)
		}
	}
	var b strings.Builder
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			continue // containers/image reports what it cannot read
		}
		var inode uint64
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			inode = s.Ino
		}
		fmt.Fprintln(&b, file, inode, info.Size(), info.ModTime().UnixNano())
	}
	return b.String()
}
