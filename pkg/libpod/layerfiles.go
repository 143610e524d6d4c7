package libpod

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// layerView is what can be seen of the layers that the user's Podman processes on this
// machine bring, of whatever pull. Views that are equal mean that nothing moved.
type layerView struct {
	// visible: there is such a process, and its open files can be seen.
	visible bool
	// writing: a layer is on its way.
	writing bool
	// files are those open, with the place in each that was last read or written.
	files string
}

// layerFile matches the temporary file of a layer (containers/image, the destination
// containers-storage: blobs are written there, and read again to be unpacked).
var layerFile = regexp.MustCompile(`/(container_images_)?storage\d+/\d+$`)

// viewLayers looks into proc, which is /proc.
func viewLayers(proc string) layerView {
	var v layerView
	var files strings.Builder
	processes, _ := filepath.Glob(filepath.Join(proc, "[0-9]*/comm"))
	for _, comm := range processes {
		name, err := os.ReadFile(comm)
		if err != nil || string(name) != "podman\n" {
			continue
		}
		dir := filepath.Dir(comm)
		open, err := os.ReadDir(filepath.Join(dir, "fd"))
		if err != nil {
			continue // somebody else's, or it has ended
		}
		v.visible = true
		for _, fd := range open {
			path, err := os.Readlink(filepath.Join(dir, "fd", fd.Name()))
			if err != nil || !layerFile.MatchString(path) {
				continue
			}
			place, flags := fileState(filepath.Join(dir, "fdinfo", fd.Name()))
			v.writing = v.writing || flags&syscall.O_ACCMODE != syscall.O_RDONLY
			fmt.Fprintln(&files, path, place)
		}
	}
	v.files = files.String()
	return v
}

// fileState reads proc_pid_fdinfo(5).
func fileState(fdinfo string) (place string, flags int) {
	text, err := os.ReadFile(fdinfo)
	if err != nil {
		return "closed", 0
	}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); key {
		case "pos":
			place = value
		case "flags":
			n, _ := strconv.ParseInt(value, 8, 0)
			flags = int(n)
		}
	}
	return place, flags
}
