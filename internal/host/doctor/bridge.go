package doctor

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/blang/semver/v4"

	"github.com/podtask/podtask/internal/lazy"
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

// firewallSince is a Podman version that reads firewall_driver; 4.3 does not.
var firewallSince = semver.MustParse("4.8.0")

// cniPlugins are the plugins in Podman's configuration of a bridge (cni), and cniDirs
// where Podman looks for them.
var (
	cniPlugins = []string{"bridge", "firewall", "host-local", "portmap"}
	cniDirs    = []string{"/usr/libexec/cni", "/usr/lib/cni", "/usr/local/lib/cni", "/opt/cni/bin"}
)

// packagesOf maps programs to packages whose name differs.
var packagesOf = map[string]string{"nft": "nftables", "CNI plugin": "containernetworking-plugins"}

// checkBridge warns only, because tasks of one container need no networks.
func checkBridge(_ context.Context, h Host) Finding {
	if h.Podman == nil {
		return ok("not checked, because Podman does not answer")
	}
	f := BridgeFinding(h)
	if f.Level == Fail {
		f.Level = Warn
	}
	return f
}

// BridgeFinding checks whether containers can have their own networks, on a host whose
// Podman is known. Tasks of several containers in bridge mode need them.
func BridgeFinding(h Host) Finding {
	if old := h.netavarkTooOld(); old != "" {
		return Finding{Check: "bridge", Level: Fail, Text: old, Fix: "install netavark and aardvark-dns 2 from the same source as Podman"}
	}
	lack, level := h.withoutNetavark(), Fail
	if h.Podman.NetworkBackend == "cni" {
		lack = h.withoutCNI()
	}
	text := "tasks of several containers cannot run in bridge mode: missing "
	if slices.Equal(lack, []string{nameServer}) {
		// Podman 5.4 continues, and fails to disconnect the container from the network.
		level = Warn
		text = "networks of containers have no name server, and Podman reports errors when it removes them: missing "
	}
	if len(lack) == 0 {
		return Finding{Check: "bridge", Level: OK, Text: "containers can have their own networks, with " + cmp.Or(h.Podman.NetworkBackend, "netavark")}
	}
	var packages []string
	for _, program := range lack {
		packages = append(packages, cmp.Or(packagesOf[program], program))
	}
	all := strings.Join(packages, " ")
	return Finding{
		Check: "bridge", Level: level, Text: text + strings.Join(lack, ", "),
		Fix: "apt-get install " + all + ", or dnf install " + all,
	}
}

// netavarkSince is the netavark that Podman 6 needs: it gets no answer from an older one
// and reports "netavark: : EOF".
var netavarkSince = semver.MustParse("2.0.0")

// netavarkTooOld says so in a sentence; it is empty for a version that fits, or that is
// not known.
func (h Host) netavarkTooOld() string {
	program, err := h.LookPath("netavark")
	if err != nil || h.Podman.Version.LT(slirpUntil) {
		return ""
	}
	words := strings.Fields(h.Output(context.Background(), program, "--version"))
	if len(words) == 0 {
		return ""
	}
	v, err := semver.ParseTolerant(words[len(words)-1])
	if err != nil || v.GE(netavarkSince) {
		return ""
	}
	return fmt.Sprintf("networks of containers do not work: netavark %s is too old for Podman %s, which needs netavark %d", v, h.Podman.Version, netavarkSince.Major)
}

// withoutNetavark returns the missing programs that netavark's networks need.
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
	case driver == byIptables, h.Podman.Version.Major < 5: // 4.x supports no other
		lack = append(lack, h.without("iptables")...)
	case !h.has("nft") && !h.has("iptables"): // the default differs between distributions
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

// without returns the program if it is missing.
func (h Host) without(program string) []string {
	if h.has(program) {
		return nil
	}
	return []string{program}
}

var firewallDriver = lazy.MustCompile(`(?m)^\s*firewall_driver\s*=\s*["']([a-z]*)["']`)

// firewall returns the driver set in containers.conf; empty if none is set. The last
// file wins (containers.conf(5)).
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
