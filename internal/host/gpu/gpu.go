package gpu

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/pkg/parser"
	specs "tags.cncf.io/container-device-interface/specs-go"
)

// CheckName returns an error for a name that is neither a kind, VENDOR/CLASS, nor a device,
// VENDOR/CLASS=NAME.
func CheckName(name string) error {
	kind, device, isDevice := strings.Cut(name, "=")
	vendor, class, _ := strings.Cut(kind, "/")
	// The parser of CDI takes no names of one letter.
	if len(vendor) < 2 || len(class) < 2 || parser.ValidateVendorName(vendor) != nil || parser.ValidateClassName(class) != nil ||
		isDevice && parser.ValidateDeviceName(device) != nil {
		return fmt.Errorf("%q is no kind of CDI devices, such as nvidia.com/gpu, and no CDI device, such as nvidia.com/gpu=0", name)
	}
	return nil
}

// Find returns the qualified names of the devices that the specifications in the directories
// describe and that names stand for. A kind stands for its devices in the order of their
// names, without those that are others under another name, or several together (such as
// nvidia.com/gpu=all). It returns what it finds, and an error for files that cannot be read and
// for named devices that are not described.
func Find(dirs, names []string) ([]string, error) {
	cache, err := cdi.NewCache(cdi.WithSpecDirs(dirs...), cdi.WithAutoRefresh(false))
	if err != nil {
		return nil, err
	}
	var problems []error
	for _, file := range slices.Sorted(maps.Keys(cache.GetErrors())) {
		problems = append(problems, cache.GetErrors()[file]...)
	}
	var found []string
	add := func(name string) {
		if !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	for _, name := range names {
		if !parser.IsQualifiedName(name) {
			for _, device := range ofKind(cache, name) {
				add(device)
			}
			continue
		}
		if cache.GetDevice(name) == nil {
			problems = append(problems, fmt.Errorf("no file in %s describes %s", strings.Join(dirs, ", "), name))
			continue
		}
		add(name)
	}
	if len(found) == 0 && len(problems) == 0 {
		problems = append(problems, fmt.Errorf("no file in %s describes one", strings.Join(dirs, ", ")))
	}
	return found, errors.Join(problems...)
}

// ofKind returns the separate devices of a kind.
func ofKind(cache *cdi.Cache, kind string) []string {
	var devices []*cdi.Device
	for _, name := range cache.ListDevices() {
		if strings.HasPrefix(name, kind+"=") {
			devices = append(devices, cache.GetDevice(name))
		}
	}
	slices.SortFunc(devices, func(a, b *cdi.Device) int { return compareNames(a.Name, b.Name) })
	var names []string
	for i, d := range devices {
		if d.Name != "all" && !repeats(d, i, devices) {
			names = append(names, d.GetQualifiedName())
		}
	}
	return names
}

// compareNames sorts numbers by their value and before other names.
func compareNames(a, b string) int {
	m, errA := strconv.Atoi(a)
	n, errB := strconv.Atoi(b)
	switch {
	case errA == nil && errB == nil:
		return m - n
	case errA == nil:
		return -1
	case errB == nil:
		return 1
	}
	return strings.Compare(a, b)
}

// repeats reports whether device i has the same nodes as an earlier one, or all nodes of another
// one and more.
func repeats(d *cdi.Device, i int, all []*cdi.Device) bool {
	own := nodes(d.Device)
	for j, other := range all {
		theirs := nodes(other.Device)
		if j == i || len(theirs) == 0 || !contains(own, theirs) {
			continue
		}
		if len(theirs) < len(own) || j < i {
			return true
		}
	}
	return false
}

// nodes are the device nodes of the host that only this device has: not those of its
// specification, which all have.
func nodes(d *specs.Device) []string {
	var paths []string
	for _, n := range d.ContainerEdits.DeviceNodes {
		path := n.HostPath
		if path == "" {
			path = n.Path
		}
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

func contains(all, some []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}
