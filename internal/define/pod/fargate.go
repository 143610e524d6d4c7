package pod

import "strings"

// fargateLacks are members of a Pod that Fargate has nothing for (Amazon ECS developer guide,
// task definition differences for Fargate), by their path: "[]" stands for each item of a
// list.
var fargateLacks = []struct{ path, why string }{
	{"dnsConfig", "a task has the name servers of its VPC"},
	{"hostAliases", "with the network mode awsvpc a task has no hosts of its own"},
	{"hostIPC", "tasks share nothing with their host"},
	{"hostNetwork", "each task has a network interface of its own"},
	{"hostPID", "tasks share nothing with their host"},
	{"hostname", "with the network mode awsvpc a task has no host name of its own"},
	{"hostnameOverride", "with the network mode awsvpc a task has no host name of its own"},
	{"securityContext.fsGroup", "a volume has no group"},
	{"securityContext.seLinuxOptions", "there is no SELinux"},
	{"securityContext.seccompProfile", "the profile is that of the platform"},
	{"securityContext.supplementalGroups", "a container has the groups of its image"},
	{"setHostnameAsFQDN", "with the network mode awsvpc a task has no host name of its own"},
	{"volumes[].emptyDir.medium", "there are no volumes in memory"},
	{"volumes[].hostPath", "tasks do not see the file system of their host"},
	{"volumes[].image", "only containers have images"},
	{"containers[].imagePullPolicy", "every task pulls its images"},
	{"containers[].ports[].hostIP", "each task has a network interface of its own"},
	{"containers[].securityContext.privileged", "no container is privileged"},
	{"containers[].securityContext.procMount", "what of /proc is hidden is the same for all"},
	{"containers[].securityContext.seLinuxOptions", "there is no SELinux"},
	{"containers[].securityContext.seccompProfile", "the profile is that of the platform"},
	{"containers[].volumeMounts[].subPath", "volumes are mounted whole"},
	{"containers[].volumeMounts[].subPathExpr", "volumes are mounted whole"},
}

// warnFargate names what the Pod would lose on Fargate. Values that ask for nothing, such as
// false, are no loss.
func (b *reader) warnFargate() {
	for _, row := range fargateLacks {
		paths := []string{row.path}
		if rest, ok := strings.CutPrefix(row.path, "containers[]"); ok {
			paths = append(paths, "initContainers[]"+rest)
		}
		for _, p := range paths {
			each(b.spec, strings.Split(p, "."), func(v value, name string) {
				if v.filled() && v.node.Text != "false" {
					v.warn(name+" has no counterpart on Fargate: "+row.why, "")
				}
			})
		}
	}
	for i := range b.containers {
		for _, c := range b.containers[i].at("securityContext").at("capabilities").at("add").items() {
			if name := strings.TrimPrefix(c.str(), "CAP_"); name != "SYS_PTRACE" {
				c.warn("Fargate adds no capability but SYS_PTRACE", "")
			}
		}
		for _, p := range b.containers[i].at("ports").items() {
			if h := p.at("hostPort").integer(0, 65535, 0); h != 0 && h != p.at("containerPort").integer(1, 65535, 0) {
				p.at("hostPort").warn("on Fargate hostPort is the containerPort", "")
			}
		}
	}
}

// each calls f for every value at a path, with the name of the member.
func each(v value, path []string, f func(value, string)) {
	if len(path) == 0 {
		return
	}
	name, list := strings.CutSuffix(path[0], "[]")
	in := v.at(name)
	all := []value{in}
	if list {
		all = in.items()
	}
	for _, one := range all {
		if len(path) == 1 {
			f(one, name)
			continue
		}
		each(one, path[1:], f)
	}
}
