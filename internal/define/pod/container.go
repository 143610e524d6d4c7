package pod

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// container reads container i.
func (b *reader) container(i int) {
	v, c := b.containers[i], &b.result.Task.Containers[i]
	image := v.at("image")
	if c.Image = image.str(); c.Image == "" {
		v.wrong("image is missing", "name the image to run")
	}
	c.Extensions.Kube.Pull = pullBehavior(v.at("imagePullPolicy"), c.Image)
	c.Extensions.Kube.StopSignal = b.stopSignal(v.at("lifecycle").at("stopSignal"))
	if c.WorkingDirectory = v.at("workingDir").str(); c.WorkingDirectory != "" && !strings.HasPrefix(c.WorkingDirectory, "/") {
		v.at("workingDir").wrong("workingDir is not an absolute path", "start it with /")
	}
	c.Interactive, c.PseudoTerminal = v.at("stdin").flag(false), v.at("tty").flag(false)
	c.StopTimeout = b.grace()
	c.Restart = b.restartPolicy(i)
	for _, p := range v.at("resizePolicy").items() { // it counts when the resources of the running Pod change
		p.at("resourceName").word("", "cpu", "memory")
		p.at("restartPolicy").word("", notRequired, restartContainer)
	}
	c.Labels = b.labels(c.Name)
	b.message(i)
	b.hostsFile(i)
	b.requests(i)
	b.environment(i)
	b.security(i)
	b.ports(i)
	b.mounts(i)
	b.probes(i)
}

// stopSignal is the signal that asks the container to stop.
func (b *reader) stopSignal(v value) string {
	text := v.str()
	switch {
	case text == "", taskdef.IsSignal(text):
		return text
	case taskdef.IsSignal("SIG" + strings.ToUpper(text)):
		v.wrong(doctree.Quote(text)+" is not a signal", "write SIG"+strings.ToUpper(text))
	default:
		v.wrong(doctree.Quote(text)+" is not a signal", "write a name as in SIGTERM or SIGRTMIN+3")
	}
	return ""
}

// labels are those of the Pod, and those by which the kubelet finds a container.
func (b *reader) labels(container string) map[string]string {
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
func (b *reader) security(i int) {
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
	c.Extensions.Kube.Unmasked = own.at("procMount").word("Default", "Default", "Unmasked") == "Unmasked"
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
func (b *reader) profiles(i int, pick func(string) value) {
	seccomp := pick("seccompProfile").at("type")
	switch seccomp.word("", "RuntimeDefault", "Unconfined", "Localhost") {
	case "Unconfined":
		b.result.Task.Containers[i].Extensions.Kube.SeccompUnconfined = true
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
func (b *reader) user(c *taskdef.Container, pick func(string) value) {
	const absent = -1
	uid, gid := pick("runAsUser"), pick("runAsGroup")
	u, g := uid.integer(0, maxID, absent), gid.integer(0, maxID, absent)
	b.ofThisHost(uid, "user", u)
	b.ofThisHost(gid, "group", g)
	switch {
	case u != absent && g != absent:
		c.User = strconv.FormatInt(u, 10) + ":" + strconv.FormatInt(g, 10)
	case u != absent:
		c.User = strconv.FormatInt(u, 10)
	case g != absent:
		c.Extensions.Kube.Group = &g
	}
	if nonRoot := pick("runAsNonRoot"); nonRoot.flag(false) {
		switch u {
		case 0:
			nonRoot.wrong("container "+c.Name+" runs as root: its runAsUser is 0", "choose another user")
		case absent:
			c.Extensions.Kube.NonRoot = true
		}
	}
	b.groups(c, g != absent)
}

// ofThisHost refuses the ID of a user or group that no container of this host can have.
func (b *reader) ofThisHost(v value, kind string, id int64) {
	if message, fix := b.options.IDs.Problem(kind, id); message != "" {
		v.wrong(message, fix)
	}
}

// groups reads the supplementary groups of a container, of which the group of the volumes
// is one. Primary says whether it has a group of its own.
func (b *reader) groups(c *taskdef.Container, primary bool) {
	const absent = -1
	pod, k := b.spec.at("securityContext"), &c.Extensions.Kube
	for _, v := range append(pod.at("supplementalGroups").items(), pod.at("fsGroup")) {
		g := v.integer(0, maxID, absent)
		b.ofThisHost(v, "group", g)
		if g != absent && !slices.Contains(k.Groups, g) {
			k.Groups = append(k.Groups, g)
		}
	}
	policy := pod.at("supplementalGroupsPolicy")
	switch merge := policy.word("", "Merge", "Strict"); {
	case merge == "Strict" && !primary:
		policy.wrong("container "+c.Name+" would have the groups of its user in the image: Podman leaves them out only where the group is given", "give runAsGroup")
	case merge == "Merge" && primary:
		policy.warn("container "+c.Name+" does not get the groups of its user in the image: Podman leaves them out where runAsGroup is given", "")
	}
}

const (
	messagePath    = "/dev/termination-log" // of Kubernetes
	messageFromLog = "FallbackToLogsOnError"
)

// message reads where container i leaves its termination message.
func (b *reader) message(i int) {
	v, k := b.containers[i], &b.result.Task.Containers[i].Extensions.Kube
	at := v.at("terminationMessagePath")
	k.MessagePath = cmp.Or(at.str(), messagePath)
	if !cleanAbsolute(k.MessagePath) || strings.Contains(k.MessagePath, ":") {
		at.wrong("terminationMessagePath must be an absolute path without \"..\" and \":\"", "leave it out for "+messagePath)
	} else if taskdef.HidesProc(k.MessagePath) {
		at.wrong("a file at "+doctree.Quote(k.MessagePath)+" would hide files of the kernel", "leave it out for "+messagePath)
	}
	k.MessageFromLog = v.at("terminationMessagePolicy").word("File", "File", messageFromLog) == messageFromLog
}

// hostsFile notes whether container i has the /etc/hosts of a node of Kubernetes, and none that it mounts.
func (b *reader) hostsFile(i int) {
	if b.texts("metadata.annotations")[taskdef.AnnotationNode] == "" {
		return
	}
	mounts := b.containers[i].at("volumeMounts").items()
	b.result.Task.Containers[i].Extensions.Kube.HostsFile = !slices.ContainsFunc(mounts, func(m value) bool { return path.Clean(m.at("mountPath").str()) == "/etc/hosts" })
}

// ports reads the ports of a container. Only those with a port of the host are published.
func (b *reader) ports(i int) {
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
		case v.at("name").present() && whyNoPortName(p.Name) != "":
			v.at("name").wrong(doctree.Quote(p.Name)+" is not a name of a port: "+whyNoPortName(p.Name), "use at most 15 lower-case letters, digits and single hyphens, at least one letter among them")
		case p.Name != "" && names[p.Name]:
			v.at("name").wrong("another port is named "+doctree.Quote(p.Name), "rename one of them")
		case host && p.HostPort != 0 && p.HostPort != p.ContainerPort:
			v.at("hostPort").wrong("with hostNetwork, hostPort must be the containerPort", "leave hostPort out")
		}
		names[p.Name] = true
		if host {
			p.HostPort = p.ContainerPort
		}
		switch {
		case p.HostPort != 0:
			c.Ports = append(c.Ports, p)
		case p.Protocol == "tcp" && !b.result.Pod.isInit(c.Name):
			b.result.Unpublished = append(b.result.Unpublished, ContainerPort{i, p})
		}
	}
}

// whyNoPortName explains why a text is not a name of a service of IANA (RFC 6335, 5.1); empty for one that is.
func whyNoPortName(s string) string {
	switch {
	case s == "":
		return "it is empty"
	case len(s) > 15:
		return "it has " + strconv.Itoa(len(s)) + " characters"
	case strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || !isDNSLabel(strings.ReplaceAll(s, "--", "-")):
		return "it has other characters, or a hyphen at an end"
	case strings.Contains(s, "--"):
		return "two hyphens stand together"
	case strings.Trim(s, "0123456789-") == "":
		return "it has no letter"
	}
	return ""
}

// network reads how the Pod is connected.
func (b *reader) network() {
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
	full, hostname := b.fullName(b.hostname())
	if full != "" {
		for i := range t.Containers {
			t.Containers[i].Net.ExtraHosts = append(t.Containers[i].Net.ExtraHosts, taskdef.Host{Name: full, Address: "127.0.0.1"})
			if b.ordinal != "" { // the search domains of a cluster would make it the full name
				short := strings.TrimSuffix(full, "."+b.result.Pod.Namespace+"."+clusterDomain)
				t.Containers[i].Net.ExtraHosts = append(t.Containers[i].Net.ExtraHosts, taskdef.Host{Name: short, Address: "127.0.0.1"})
			}
		}
	}
	servers, searches := b.resolver()
	for i := range t.Containers {
		n := &t.Containers[i].Net
		n.Hostname, n.DNSServers, n.DNSSearch, n.DNSOptions = hostname, servers, searches, b.resolverOptions()
	}
}

// hostname is the Pod's name unless it says otherwise; empty for that of the host.
func (b *reader) hostname() string {
	host := b.spec.at("hostNetwork").flag(false)
	for _, member := range []string{"hostnameOverride", "hostname"} {
		v := b.spec.at(member)
		if member == "hostname" && b.ordinal != "" {
			continue // the controller sets it
		}
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

// clusterDomain is what most clusters call theirs.
const clusterDomain = "svc.cluster.local"

// fullName is the name that the DNS of a cluster would have for the Pod; empty without a
// subdomain. The hostname is the whole of it where the Pod wants that.
func (b *reader) fullName(hostname string) (full, kernel string) {
	v := b.spec.at("subdomain")
	if service := b.owner.at("spec").at("serviceName"); b.kind.name == "StatefulSet" && service.str() != "" {
		v = service
	}
	sub := v.str()
	if sub == "" || hostname == "" {
		return "", hostname
	}
	if !isDNSLabel(sub) {
		v.wrong(doctree.Quote(sub)+" is not a subdomain", labelRule)
	}
	full = strings.Join([]string{hostname, sub, b.result.Pod.Namespace, clusterDomain}, ".")
	if whole := b.spec.at("setHostnameAsFQDN"); whole.flag(false) {
		if len(full) > 64 {
			whole.wrong(fmt.Sprintf("the full name %s has %d characters, and a host name has at most 64", doctree.Quote(full), len(full)), "shorten hostname or subdomain")
		}
		return full, full
	}
	return full, hostname
}

// resolverOptions are those of dnsConfig, as in resolv.conf.
func (b *reader) resolverOptions() (out []string) {
	for _, o := range b.spec.at("dnsConfig").at("options").items() {
		name := o.at("name").str()
		if name == "" || strings.ContainsAny(name+o.at("value").str(), " \t\n") {
			o.wrong("an option of the resolver has a name, and no white space in it", `write it as in {name: ndots, value: "2"}`)
			continue
		}
		if value := o.at("value").str(); value != "" {
			name += ":" + value
		}
		out = append(out, name)
	}
	return out
}

// resolver reads which name servers and search domains the Pod has; nil for those of the
// host.
func (b *reader) resolver() (servers, searches []string) {
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
