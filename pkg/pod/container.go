package pod

import (
	"maps"
	"strconv"
	"strings"

	"github.com/podtask/podtask/internal/doctree"
	"github.com/podtask/podtask/pkg/taskdef"
)

// container reads container i.
func (b process) container(i int) {
	v, c := b.containers[i], &b.result.Task.Containers[i]
	image := v.at("image")
	if c.Image = image.str(); c.Image == "" {
		v.wrong("image is missing", "name the image to run")
	}
	b.policies[pullPolicy(v.at("imagePullPolicy"), c.Image)] = true
	if c.WorkingDirectory = v.at("workingDir").str(); c.WorkingDirectory != "" && !strings.HasPrefix(c.WorkingDirectory, "/") {
		v.at("workingDir").wrong("workingDir is not an absolute path", "start it with /")
	}
	c.Interactive, c.PseudoTerminal = v.at("stdin").flag(false), v.at("tty").flag(false)
	c.StopTimeout = b.grace()
	c.Restart = b.restartPolicy(i)
	c.Labels = b.labels(c.Name)
	b.requests(i)
	b.environment(i)
	b.security(i)
	b.ports(i)
	mounting(b).mounts(i)
	probing(b).probes(i)
}

// labels are those of the Pod, and those by which the kubelet finds a container.
func (b process) labels(container string) map[string]string {
	out := make(map[string]string)
	for _, f := range b.meta.at("labels").entries() {
		for _, reserved := range []string{"podtask.", "com.amazonaws.ecs.", "io.kubernetes."} {
			if strings.HasPrefix(f.Key, reserved) {
				b.meta.at("labels").field(f).atKey(f).wrong("labels that start with "+doctree.Quote(reserved)+" are reserved", "rename it")
			}
		}
		out[f.Key] = f.Value.Text
	}
	p := b.result.Pod
	maps.Copy(out, map[string]string{LabelNamespace: p.Namespace, LabelName: p.Name, LabelContainer: container})
	if p.UID != "" {
		out[LabelUID] = p.UID
	}
	return out
}

// security reads the security context of a container on top of that of the Pod.
func (b process) security(i int) {
	pod, own, c := b.spec.at("securityContext"), b.containers[i].at("securityContext"), &b.result.Task.Containers[i]
	pick := func(name string) value {
		if own.at(name).present() {
			return own.at(name)
		}
		return pod.at(name)
	}
	b.user(c, pick)
	c.Privileged = own.at("privileged").flag(false)
	c.ReadonlyRootFS = own.at("readOnlyRootFilesystem").flag(false)
	escalation := own.at("allowPrivilegeEscalation")
	c.Security.NoNewPrivileges = !escalation.flag(true)
	if c.Security.NoNewPrivileges && c.Privileged {
		escalation.wrong("allowPrivilegeEscalation cannot be false for a privileged container", "remove one of the two")
	}
	c.Linux.CapAdd = capabilities(own.at("capabilities").at("add"))
	c.Linux.CapDrop = capabilities(own.at("capabilities").at("drop"))
	se := pick("seLinuxOptions")
	for _, part := range []string{"user", "role", "type", "level"} {
		if s := se.at(part).str(); s != "" {
			c.Security.Labels = append(c.Security.Labels, part+":"+s)
		}
	}
	b.profiles(i, pick)
	for _, s := range pod.at("sysctls").items() {
		if c.Linux.Sysctls == nil {
			c.Linux.Sysctls = make(map[string]string)
		}
		c.Linux.Sysctls[strings.ReplaceAll(s.at("name").str(), "/", ".")] = s.at("value").str()
	}
}

// capabilities takes the names with CAP_ before them too.
func capabilities(v value) []string {
	names := texts(v)
	for i, n := range names {
		names[i] = strings.TrimPrefix(strings.ToUpper(n), "CAP_")
	}
	return names
}

// profiles answers seccomp and AppArmor profiles.
func (b process) profiles(i int, pick func(string) value) {
	name := b.result.Task.Containers[i].Name
	seccomp := pick("seccompProfile").at("type")
	switch seccomp.word("", "RuntimeDefault", "Unconfined", "Localhost") {
	case "Unconfined":
		seccomp.warn("container "+name+" keeps Podman's seccomp profile", "")
	case "Localhost":
		seccomp.wrong("podtask has no directory of seccomp profiles", "use RuntimeDefault")
	}
	armor := pick("appArmorProfile").at("type")
	switch armor.word("", "RuntimeDefault", "Unconfined", "Localhost") {
	case "RuntimeDefault":
		armor.warn("a rootless container has no AppArmor profile", "")
	case "Localhost":
		armor.wrong("a rootless container cannot be given an AppArmor profile", "use Unconfined")
	}
}

const maxID = 1<<31 - 1

// user reads who the processes of a container are.
func (b process) user(c *taskdef.Container, pick func(string) value) {
	const absent = -1
	uid, gid := pick("runAsUser"), pick("runAsGroup")
	u, g := uid.integer(0, maxID, absent), gid.integer(0, maxID, absent)
	switch {
	case u != absent && g != absent:
		c.User = strconv.FormatInt(u, 10) + ":" + strconv.FormatInt(g, 10)
	case u != absent:
		c.User = strconv.FormatInt(u, 10)
	case g != absent:
		gid.wrong("runAsGroup needs runAsUser", "give both")
	}
	if nonRoot := pick("runAsNonRoot"); nonRoot.flag(false) {
		switch u {
		case 0:
			nonRoot.wrong("container "+c.Name+" runs as root: its runAsUser is 0", "choose another user")
		case absent:
			nonRoot.warn("the user of the image of container "+c.Name+" is not checked; rootless it is never root of the host", "give runAsUser")
		}
	}
	group := b.spec.at("securityContext").at("fsGroup")
	if f := group.integer(0, maxID, absent); f != absent && g != f {
		group.wrong("container "+c.Name+" would not be in the group "+strconv.FormatInt(f, 10)+": podtask cannot add a group yet", "give the same runAsGroup")
	}
}

// ports reads the ports of a container. Only those with a port of the host are published.
func (b process) ports(i int) {
	c := &b.result.Task.Containers[i]
	host := b.spec.at("hostNetwork").flag(false)
	names := make(map[string]bool)
	for _, v := range b.containers[i].at("ports").items() {
		inner := v.at("containerPort")
		p := taskdef.Port{
			ContainerPort: uint16(inner.integer(1, 65535, 0)),
			HostPort:      uint16(v.at("hostPort").integer(0, 65535, 0)),
			Protocol:      strings.ToLower(v.at("protocol").word("TCP", "TCP", "UDP", "SCTP")),
			HostIP:        v.at("hostIP").str(),
			Name:          v.at("name").str(),
		}
		switch {
		case !inner.present():
			v.wrong("containerPort is missing", "")
		case p.Protocol == "sctp":
			v.at("protocol").wrong("rootless Podman publishes no SCTP ports", "use TCP or UDP")
		case p.Name != "" && names[p.Name]:
			v.at("name").wrong("another port is named "+doctree.Quote(p.Name), "rename one of them")
		case host && p.HostPort != 0 && p.HostPort != p.ContainerPort:
			v.at("hostPort").wrong("with hostNetwork, hostPort must be the containerPort", "leave hostPort out")
		}
		names[p.Name] = true
		if host {
			p.HostPort = p.ContainerPort
		}
		if p.HostPort != 0 {
			c.Ports = append(c.Ports, p)
		}
	}
}

// network reads how the Pod is connected.
func (b networking) network() {
	t := &b.result.Task
	if b.spec.at("hostNetwork").flag(false) {
		t.Network, t.Extensions.Network = taskdef.NetworkHost, ""
	}
	for _, alias := range b.spec.at("hostAliases").items() {
		for _, name := range texts(alias.at("hostnames")) {
			for i := range t.Containers {
				t.Containers[i].Net.ExtraHosts = append(t.Containers[i].Net.ExtraHosts, taskdef.Host{Name: name, Address: alias.at("ip").str()})
			}
		}
	}
	hostname := b.hostname()
	servers, searches := b.resolver()
	for i := range t.Containers {
		n := &t.Containers[i].Net
		n.Hostname, n.DNSServers, n.DNSSearch = hostname, servers, searches
	}
}

// hostname is the Pod's name unless it says otherwise; empty for that of the host.
func (b networking) hostname() string {
	host := b.spec.at("hostNetwork").flag(false)
	for _, member := range []string{"hostnameOverride", "hostname"} {
		v := b.spec.at(member)
		if s := v.str(); s != "" {
			if !dnsName.MatchString(s) || len(s) > 64 {
				v.wrong(doctree.Quote(s)+" is not a host name", labelRule)
			}
			return s
		}
	}
	if host {
		return ""
	}
	name := b.result.Pod.Name
	return strings.TrimRight(name[:min(len(name), 63)], "-.")
}

// resolver reads which name servers and search domains the Pod has; nil for those of the
// host.
func (b networking) resolver() (servers, searches []string) {
	config, policy := b.spec.at("dnsConfig"), b.spec.at("dnsPolicy")
	servers, searches = texts(config.at("nameservers")), texts(config.at("searches"))
	switch p := policy.word("", "Default", "ClusterFirst", "ClusterFirstWithHostNet", "None"); p {
	case "ClusterFirst", "ClusterFirstWithHostNet":
		policy.warn("there is no cluster DNS: names are resolved as on the host", "")
	case "None":
		if len(servers) == 0 {
			policy.wrong("dnsPolicy None needs name servers", "give dnsConfig.nameservers")
		}
	}
	return servers, searches
}
