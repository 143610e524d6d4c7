package foreign

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/podtask/podtask/internal/define/calendar"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// serviceMembers are the members of a service in ECS's spelling, as in CreateService. Values that are lost are
// not evaluated.
type serviceMembers struct {
	fields []doctree.Field
	eval   func(*doctree.Node) *doctree.Node
}

// at returns the value of a member; nil for none.
func (m serviceMembers) at(key string) *doctree.Node {
	for _, f := range m.fields {
		if f.Key == key && f.Value.Kind != doctree.Null {
			if v := m.eval(f.Value); v != nil && !v.Empty() {
				return v
			}
		}
	}
	return nil
}

// ofNode are the members of a value that needs no evaluation.
func ofNode(n *doctree.Node) serviceMembers {
	return serviceMembers{n.Fields, func(v *doctree.Node) *doctree.Node { return v }}
}

// lostMember is a member that podtask has no use for, and what is lost with it.
type lostMember struct{ member, what, fix string }

// find returns what is lost with a member; nil for a member that is not in the list.
func find(all []lostMember, member string) *lostMember {
	for i := range all {
		if all[i].member == member {
			return &all[i]
		}
	}
	return nil
}

// lostOfService says what becomes of the members of a service that podtask has no use for.
var lostOfService = []lostMember{
	{"capacityProviderStrategy", "capacityProviderStrategy: all copies run on this host", ""},
	{"networkConfiguration", "networkConfiguration: there are no subnets, security groups or public addresses here", "publish ports with --listen, and restrict them with an IP address, as in --listen 127.0.0.1:8080=app:80"},
	{"placementConstraints", "placementConstraints: all copies run on this host", ""},
	{"placementStrategy", "placementStrategy: all copies run on this host", ""},
	{"placementStrategies", "placementStrategies: all copies run on this host", ""},
	{"serviceRegistries", "serviceRegistries: the copies are not registered in Cloud Map", "reach the service by the address of --listen"},
	{"serviceConnectConfiguration", "serviceConnectConfiguration: there is no proxy of Service Connect; other services are not reachable by their names of it", "reach the service by the address of --listen"},
	{"volumeConfigurations", "volumeConfigurations: EBS volumes cannot be attached here", "give --map-volume NAME=PATH"},
	{"vpcLatticeConfigurations", "vpcLatticeConfigurations: there is no VPC Lattice here", ""},
	{"tags", "tags of the service: a service has none here; those of the task definition stay", ""},
	{"monitoring", "monitoring: `podtask agent --metrics-listen` has metrics of Prometheus", ""},
}

// quietOfService are members that lose nothing: a service here has them without being asked, or they only describe it.
var quietOfService = []string{
	"serviceName", "cluster", "taskDefinition", "clientToken", "forceNewDeployment", "enableExecuteCommand", "platformVersion", "role",
	"enableECSManagedTags", "propagateTags", "availabilityZoneRebalancing", "launchType", "deploymentController", "serviceArn", "clusterArn", "status",
	"runningCount", "pendingCount", "deployments", "events", "createdAt", "createdBy", "roleArn", "platformFamily", "taskSets",
	"currentServiceDeployment", "currentServiceRevisions", "resourceManagementType",
}

// service turns a service into a command line. Def is its task definition, whose fixed ports it may take out.
func (r *reader) service(res *Result, m serviceMembers, def *doctree.Node) {
	s := &Service{}
	flag := func(words ...string) { s.Flags = append(s.Flags, words...) }
	count := 1
	if n := m.at("desiredCount"); n != nil {
		if v, ok := intOf(n); ok && v >= 0 {
			count = v
		} else {
			r.wrong(n, "desiredCount is a whole number, not "+doctree.Quote(textOf(n)), "")
		}
	}
	if n := m.at("schedulingStrategy"); n != nil && textOf(n) == "DAEMON" {
		count = 1
		r.lose(n, "schedulingStrategy DAEMON: one copy runs on this host, and on no other", "")
	}
	flag("--count", strconv.Itoa(count))
	if n := m.at("healthCheckGracePeriodSeconds"); n != nil && textOf(n) != "0" {
		flag("--health-grace", textOf(n)+"s")
	}
	if n := m.at("deploymentConfiguration"); n != nil {
		s.Flags = append(s.Flags, r.deployment(n)...)
	}
	if n := m.at("deploymentController"); n != nil {
		if kind := textOf(n.Member("type")); kind != "" && kind != "ECS" {
			r.lose(n, "deploymentController "+kind+": podtask replaces the copies itself", "--strategy blue-green, linear or canary shifts connections in steps")
		}
	}
	s.Flags = append(s.Flags, r.listeners(m, def, count)...)
	for _, f := range m.fields {
		if lost := find(lostOfService, f.Key); lost != nil && !f.Value.Empty() {
			r.lose(f.Value, lost.what, lost.fix)
		} else if lost == nil && !slices.Contains(quietOfService, f.Key) && !slices.Contains(honoredOfService, f.Key) && !f.Value.Empty() {
			r.lose(f.Value, "the member "+f.Key+" of the service is not known here", "")
		}
	}
	res.Service = s
}

// honoredOfService are the members that service reads.
var honoredOfService = []string{"desiredCount", "schedulingStrategy", "healthCheckGracePeriodSeconds", "deploymentConfiguration", "loadBalancers"}

// deployment turns a deploymentConfiguration into flags.
func (r *reader) deployment(n *doctree.Node) (flags []string) {
	for _, f := range []struct{ member, flag string }{{"minimumHealthyPercent", "--min-healthy"}, {"maximumPercent", "--max"}} {
		if v := n.Member(f.member); v != nil {
			flags = append(flags, f.flag, textOf(v))
		}
	}
	if b := n.Member("deploymentCircuitBreaker"); isTrue(b.Member("enable")) && !isTrue(b.Member("rollback")) {
		flags = append(flags, "--no-rollback")
	}
	strategy := strings.ToLower(strings.ReplaceAll(textOf(n.Member("strategy")), "_", "-"))
	if strategy != "" && strategy != "rolling" {
		flags = append(flags, "--strategy", strategy)
		if v := n.Member("bakeTimeInMinutes"); v != nil {
			flags = append(flags, "--bake", textOf(v)+"m")
		}
	}
	for _, f := range []struct{ in, member, flag, unit string }{
		{"linearConfiguration", "stepPercent", "--step-percent", ""}, {"linearConfiguration", "stepBakeTimeInMinutes", "--step-bake", "m"},
		{"canaryConfiguration", "canaryPercent", "--canary-percent", ""}, {"canaryConfiguration", "canaryBakeTimeInMinutes", "--canary-bake", "m"},
	} {
		if v := n.Member(f.in).Member(f.member); v != nil {
			flags = append(flags, f.flag, textOf(v)+f.unit)
		}
	}
	if a := n.Member("alarms"); isTrue(a.Member("enable")) {
		r.lose(a, "deploymentConfiguration.alarms: no alarm of CloudWatch is asked here", "write a reference for each alarm, and give --alarm NAME (docs/references.md)")
	}
	if h := n.Member("lifecycleHooks"); h != nil && !h.Empty() {
		r.lose(h, "deploymentConfiguration.lifecycleHooks: no Lambda function is called", "write a reference for each function, and give --hook (docs/services.md)")
	}
	return flags
}

// listeners turns load balancers into addresses of the service. With several copies the fixed host ports of bridge
// mode become addresses too, because only one copy could have each.
func (r *reader) listeners(m serviceMembers, def *doctree.Node, count int) (flags []string) {
	taken := map[int]bool{}
	listen := func(port int, container string, to int) {
		for taken[port] {
			port++
		}
		taken[port] = true
		flags = append(flags, "--listen", fmt.Sprintf("%d=%s:%d", port, container, to))
	}
	fixed := map[string]bool{} // ports of containers that need no other address
	if mode := textOf(def.Member("networkMode")); def != nil && (mode == "" || mode == "bridge") {
		for _, c := range items(def.Member("containerDefinitions")) {
			for _, p := range items(c.Member("portMappings")) {
				host, _ := intOf(p.Member("hostPort"))
				to, _ := intOf(p.Member("containerPort"))
				if host == 0 || to == 0 {
					continue
				}
				name := textOf(c.Member("name"))
				fixed[fmt.Sprint(name, ":", to)] = true
				if count < 2 {
					continue
				}
				if strings.EqualFold(textOf(p.Member("protocol")), "udp") {
					r.lose(p, fmt.Sprintf("port %d/udp: each copy gets a free port, because a service forwards TCP only", host), "")
				} else {
					listen(host, name, to)
				}
				remove(p, "hostPort")
			}
		}
	}
	for _, lb := range items(m.at("loadBalancers")) {
		name := textOf(lb.Member("containerName"))
		to, ok := intOf(lb.Member("containerPort"))
		if name == "" || !ok {
			r.lose(lb, "loadBalancers: a load balancer without containerName and containerPort", "")
			continue
		}
		if fixed[fmt.Sprint(name, ":", to)] {
			continue
		}
		port := to
		if port < 1024 { // which users may not open
			port += 8000
		}
		listen(port, name, to)
		r.lose(lb, fmt.Sprintf("loadBalancers: host names, paths and certificates of the load balancer; the service listens on port %d instead", port), "")
	}
	return flags
}

func items(n *doctree.Node) []*doctree.Node {
	if n == nil {
		return nil
	}
	return n.Items
}

// schedule adds a time at which the task is due, an expression of EventBridge.
func (r *reader) schedule(res *Result, at *doctree.Node, expression, zone string) {
	name := res.Name
	if len(res.Schedules) > 0 {
		name += "-" + strconv.Itoa(len(res.Schedules)+1)
	}
	s := Schedule{Name: name, Flags: []string{"--at", expression}}
	if zone != "" {
		s.Flags = append(s.Flags, "--timezone", zone)
	}
	if expression == "" {
		r.wrong(at, "the schedule has no expression", "")
		return
	}
	if _, err := calendar.EventBridge(expression); err != nil {
		r.lose(at, "a schedule: "+err.Error(), "write other times with podtask schedule create --at")
		return
	}
	res.Schedules = append(res.Schedules, s)
}
