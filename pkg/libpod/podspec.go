package libpod

import (
	"fmt"

	"github.com/blang/semver/v4"
	"github.com/containers/podman/v5/pkg/specgen"
)

// PodSpec describes a task's pod.
type PodSpec struct {
	// Name is the pod's name; pods and containers share one name space.
	Name string
	// TaskID becomes the TaskLabel.
	TaskID string
	// Labels are further labels. They are on the infra container as well.
	Labels map[string]string
	// CgroupParent is the task's slice, a bare name ending in .slice and without a
	// dash (a dashed one fails at start from Podman 5 on: systemd nests it, Podman
	// computes another path); "" means Podman's default. Under the cgroupfs manager
	// leave it empty.
	CgroupParent string
	// Network is as in podman pod create --network: none, host, pasta (Podman 4.4),
	// slirp4netns, bridge, private, or the name of a network, with options after a
	// colon; "" leaves it to the server (slirp4netns in 4.x, pasta in 5.x).
	Network string
	// Aliases are names of the pod on a network that Network names.
	Aliases []string `json:",omitempty"`
	// Hostname is the pod's host name; "" means the pod's name.
	Hostname string
	// Ports are published by the infra container. Members cannot publish.
	Ports []Port

	// What follows is left out of the digest in specLabel when it is not used, so
	// that pods made before it existed are still recognised.

	// Choose is asked, just before the pod is made, for the host ports of Ports; nil
	// leaves those that are 0 to Podman, which gives a container port that is asked
	// for twice only one (4.3.1 to 5.x).
	Choose func([]Port) ([]Port, error) `json:"-"`
	// ShareIPC and SharePID make one namespace for all members. Without, each has its
	// own, as in Docker; Podman's own default is to share IPC.
	ShareIPC bool `json:",omitzero"`
	// OwnNetworks: members have network namespaces of their own, and the pod none; then
	// Network, Ports, Hosts and DNS have no effect.
	OwnNetworks bool `json:",omitzero"`
	SharePID    bool `json:",omitzero"`
	// ShmSize is that of /dev/shm in bytes; 0 means Podman's default. Without ShareIPC
	// it has an effect on 4.3.1 only, where it is that of every member, whatever the
	// member's own specification says.
	ShmSize int64 `json:",omitzero"`
	// Hosts are entries of /etc/hosts in the form name:address. They, DNSServers (IP
	// addresses) and DNSSearch have no effect on a pod in the host's network.
	Hosts                 []string `json:",omitzero"`
	DNSServers, DNSSearch []string `json:",omitzero"`
}

// pastaSince is the first Podman that knows the network mode pasta.
var pastaSince = semver.Version{Major: 4, Minor: 4}

// podSpec builds what is sent to Podman. It is pure but for PodSpec.Choose and
// specgen.ParseNetworkFlag, which reads containers.conf.
func podSpec(p PodSpec, server semver.Version) (*specgen.PodSpecGenerator, error) {
	s := specgen.NewPodSpecGenerator()
	s.Name = p.Name
	s.InfraName = InfraName(p.Name)
	s.Hostname = p.Hostname
	// podtask decides when the task ends; Podman's "stop" would act when the last
	// container exits, even between two attempts.
	s.ExitPolicy = "continue"
	s.CgroupParent = p.CgroupParent
	s.SharedNamespaces = sharedNamespaces(p)
	if p.ShmSize > 0 {
		s.ShmSize = ptr(p.ShmSize)
	}
	var err error
	s.Labels, err = labels(p.Labels, p.TaskID, p)
	if err != nil || p.OwnNetworks {
		s.NetNS.NSMode = specgen.NoNetwork
		return s, err
	}
	s.HostAdd, s.DNSSearch = p.Hosts, p.DNSSearch
	if s.DNSServer, err = addresses(p.DNSServers); err != nil {
		return nil, err
	}
	if p.Network != "" {
		ns, networks, options, err := specgen.ParseNetworkFlag([]string{p.Network})
		if err != nil {
			return nil, &Error{Class: InvalidSpec, Cause: fmt.Sprintf("network %q: %v", p.Network, err)}
		}
		if ns.NSMode == specgen.Pasta && server.LT(pastaSince) {
			return nil, &Error{Class: InvalidSpec, Cause: fmt.Sprintf("network pasta needs Podman %d.%d, this is %s; use slirp4netns", pastaSince.Major, pastaSince.Minor, server)}
		}
		for name, o := range networks {
			o.Aliases = append(o.Aliases, p.Aliases...)
			networks[name] = o
		}
		s.NetNS, s.Networks, s.NetworkOptions = ns, networks, options
	}
	s.PortMappings, err = portMappings(p.Ports, p.Choose)
	return s, err
}

// sharedNamespaces are the pod's in Podman's words.
func sharedNamespaces(p PodSpec) []string {
	shared := []string{"uts"} // with none at all Podman shares its default set
	if !p.OwnNetworks {
		shared = append(shared, "net")
	}
	if p.ShareIPC {
		shared = append(shared, "ipc")
	}
	if p.SharePID {
		shared = append(shared, "pid")
	}
	return shared
}
