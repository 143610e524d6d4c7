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
	byIptables  = "iptables"
	byNftables  = "nftables"
	byFirewalld = "firewalld" // a service, asked over D-Bus
	byNothing   = "none"
)

// nameServer is netavark's.
const nameServer = "aardvark-dns"

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

// checkBridge: tasks of one container can do without.
func checkBridge(_ context.Context, h Host) Finding {
	if h.Podman == nil {
		return ok("not looked at, because Podman does not answer")
	}
	f := BridgeFinding(h)
	if f.Level == Fail {
		f.Level = Warn
	}
	return f
}

// BridgeFinding judges whether containers may have networks of their own, on a host
// whose Podman is known: those of a task in bridge mode, where it has several, need them.
func BridgeFinding(h Host) Finding {
	lack, level := h.withoutNetavark(), Fail
	if h.Podman.NetworkBackend == "cni" {
		lack = h.withoutCNI()
	}
	text := "tasks of several containers cannot run in bridge mode: there is no "
	if slices.Equal(lack, []string{nameServer}) {
		// Podman 5.4 goes on, and fails to take the container off the network.
		level = Warn
		text = "networks of containers have no name server, and Podman removes them with errors: there is no "
	}
	if len(lack) == 0 {
		return Finding{Check: "bridge", Level: OK, Text: "containers may have networks of their own, by " + firstOf(h.Podman.NetworkBackend, "netavark")}
	}
	var packages []string
	for _, program := range lack {
		packages = append(packages, firstOf(packagesOf[program], program))
	}
	all := strings.Join(packages, " ")
	return Finding{
		Check: "bridge", Level: level, Text: text + strings.Join(lack, ", no "),
		Mend: "apt-get install " + all + ", or dnf install " + all,
	}
}

// withoutNetavark are the programs that netavark's networks want and that are not there.
func (h Host) withoutNetavark() []string {
	lack := append(h.without("netavark"), h.without(nameServer)...)
	driver := ""
	if h.Podman.Version.GE(firewallSince) {
		driver = h.firewall()
	}
	switch {
	case driver == byNothing, driver == byFirewalld:
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
