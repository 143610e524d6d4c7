package doctor

import (
	"context"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
)

// The values of containers.conf's firewall_driver, for netavark.
const (
	byIptables = "iptables"
	byNftables = "nftables"
	byNothing  = "none"
)

// firewallSince is a Podman that surely reads firewall_driver; 4.3 does not.
var firewallSince = semver.MustParse("4.8.0")

// cniPlugins are those that Podman's configuration of a bridge names (cni), and where
// it looks for them.
var (
	cniPlugins = []string{"bridge", "firewall", "host-local", "portmap"}
	cniDirs    = []string{"/usr/libexec/cni", "/usr/lib/cni", "/usr/local/lib/cni", "/opt/cni/bin"}
)

// packagesOf names the package of a program where it is not called like it.
var packagesOf = map[string]string{"nft": "nftables", "CNI plugin": "containernetworking-plugins"}

// checkBridge: the containers of a task in bridge mode, where it has several, lie on a
// network that Podman makes.
func checkBridge(_ context.Context, h Host) Finding {
	if h.Podman == nil {
		return ok("not looked at, because Podman does not answer")
	}
	var lack []string
	if h.Podman.NetworkBackend == "cni" {
		lack = h.withoutCNI()
	} else {
		lack = h.withoutNetavark()
	}
	if len(lack) == 0 {
		return ok("containers may have networks of their own, by %s", firstOf(h.Podman.NetworkBackend, "netavark"))
	}
	var packages []string
	for _, program := range lack {
		packages = append(packages, firstOf(packagesOf[program], program))
	}
	all := strings.Join(packages, " ")
	return warn("apt-get install "+all+", or dnf install "+all,
		"tasks of several containers cannot run in bridge mode: there is no %s", strings.Join(lack, ", no "))
}

// withoutNetavark are the programs that netavark's networks want and that are not there.
func (h Host) withoutNetavark() (lack []string) {
	for _, program := range []string{"netavark", "aardvark-dns"} {
		if !h.has(program) {
			lack = append(lack, program)
		}
	}
	driver := ""
	if h.Podman.Version.GE(firewallSince) {
		driver = h.firewall()
	}
	switch {
	case driver == byNothing:
	case driver == byNftables:
		lack = append(lack, h.without("nft")...)
	case driver == byIptables, h.Podman.Version.Major < 5: // which knows no other
		lack = append(lack, h.without("iptables")...)
	case !h.has("nft") && !h.has("iptables"): // which is the default differs between distributions
		lack = append(lack, "nft")
	}
	return lack
}

func (h Host) withoutCNI() (lack []string) {
	there := func(plugin string) bool {
		return slices.ContainsFunc(cniDirs, func(dir string) bool { return h.exists(path.Join(dir, plugin)) })
	}
	for _, plugin := range cniPlugins {
		if !there(plugin) {
			lack = []string{"CNI plugin"}
		}
	}
	return append(lack, h.without("iptables")...)
}

// without is the program where it is not there.
func (h Host) without(program string) []string {
	if h.has(program) {
		return nil
	}
	return []string{program}
}

var firewallDriver = regexp.MustCompile(`(?m)^\s*firewall_driver\s*=\s*["']([a-z]*)["']`)

// firewall is the driver that containers.conf names; empty for none. The last file
// wins (containers.conf(5)).
func (h Host) firewall() (driver string) {
	for _, name := range []string{"/usr/share/containers", "/etc/containers", h.config() + "/containers"} {
		files := []string{name + "/containers.conf"}
		if name != "/usr/share/containers" {
			more, _ := fs.Glob(h.Root, strings.TrimPrefix(path.Clean(name), "/")+"/containers.conf.d/*.conf") // sorted
			files = append(files, more...)
		}
		for _, file := range files {
			text, _ := h.read(file)
			if m := firewallDriver.FindStringSubmatch(text); m != nil {
				driver = m[1]
			}
		}
	}
	return driver
}
