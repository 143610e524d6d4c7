package toolfile

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// ServiceMembers are the members of a service in ECS's spelling, as in CreateService. Values that are lost are
// not evaluated.
type ServiceMembers struct {
	Fields []doctree.Field
	Eval   func(*doctree.Node) *doctree.Node
}

// at returns the value of a member; nil for none.
func (m ServiceMembers) at(key string) *doctree.Node {
	for _, f := range m.Fields {
		if f.Key == key && f.Value.Kind != doctree.Null {
			if v := m.Eval(f.Value); v != nil && !v.Empty() {
				return v
			}
		}
	}
	return nil
}

// OfNode are the members of a value that needs no evaluation.
func OfNode(n *doctree.Node) ServiceMembers {
	return ServiceMembers{n.Fields, func(v *doctree.Node) *doctree.Node { return v }}
}

// MembersOfService decides about the members of a service, in ECS's spelling: as CreateService, CloudFormation and
// Terraform have them, and DescribeServices prints them.
var MembersOfService = NewTable(
	Honors(
		"desiredCount", "healthCheckGracePeriodSeconds", "serviceName", "taskDefinition", "loadBalancers", "loadBalancers.containerName", "loadBalancers.containerPort",
		"deploymentConfiguration", "deploymentConfiguration.minimumHealthyPercent", "deploymentConfiguration.maximumPercent", "deploymentConfiguration.strategy",
		"deploymentConfiguration.bakeTimeInMinutes", "deploymentConfiguration.linearConfiguration", "deploymentConfiguration.linearConfiguration.stepPercent",
		"deploymentConfiguration.linearConfiguration.stepBakeTimeInMinutes", "deploymentConfiguration.canaryConfiguration",
		"deploymentConfiguration.canaryConfiguration.canaryPercent", "deploymentConfiguration.canaryConfiguration.canaryBakeTimeInMinutes",
		"deploymentConfiguration.deploymentCircuitBreaker", "deploymentConfiguration.deploymentCircuitBreaker.enable", "deploymentConfiguration.deploymentCircuitBreaker.rollback",
		"deploymentConfiguration.deploymentCircuitBreaker.resetOnHealthyTask", "deploymentConfiguration.deploymentCircuitBreaker.thresholdConfiguration",
		"deploymentConfiguration.deploymentCircuitBreaker.thresholdConfiguration.type", "deploymentConfiguration.deploymentCircuitBreaker.thresholdConfiguration.value",
		"deploymentConfiguration.earlySuccessCriteria", "deploymentConfiguration.earlySuccessCriteria.enable", "deploymentConfiguration.earlySuccessCriteria.healthyPercent",
		"deploymentConfiguration.earlySuccessCriteria.sourceServiceRevisionCleanup",
	),
	DropsSometimes("schedulingStrategy", "DAEMON: one copy runs on this host, and on no other", ""),
	DropsSometimes("deploymentController", "podtask replaces the copies itself", "--strategy blue-green, linear or canary shifts connections in steps"),
	DropsSometimes("deploymentConfiguration.alarms", "no alarm of CloudWatch is asked here", "write a reference for each alarm, and give --alarm NAME (docs/references.md)"),
	Drops("deploymentConfiguration.lifecycleHooks", "no Lambda function is called", "write a reference for each function, and give --hook (docs/services.md)"),
	MeansNothing("the line about host names, paths and certificates stands for it", "loadBalancers.targetGroupArn", "loadBalancers.loadBalancerName", "loadBalancers.elbName"),
	Drops("loadBalancers.advancedConfiguration", "the second target group and the test listener", "give --test-listen PORT=CONTAINER:PORT to reach new copies before the others do"),
	Drops("capacityProviderStrategy", OneHost, ""),
	Drops("networkConfiguration", noSubnets, "publish ports with --listen, and restrict them with an IP address, as in --listen 127.0.0.1:8080=app:80"),
	Drops("placementConstraints", OneHost, ""),
	Drops("placementStrategy", OneHost, ""),
	Drops("serviceRegistries", "the copies are not registered in Cloud Map", "reach the service by the address of --listen, or by name with --name-as"),
	Drops("serviceConnectConfiguration", "there is no proxy of Service Connect; other services are not reachable by their names of it", "reach the service by the address of --listen, or by name with --name-as"),
	Drops("volumeConfigurations", "EBS volumes cannot be attached here", "give --map-volume NAME=PATH"),
	Drops("vpcLatticeConfigurations", "there is no VPC Lattice here", ""),
	Drops("tags", "a service has none here; those of the task definition stay", ""),
	Drops("monitoring", "CloudWatch gets no metrics", "`podtask agent --metrics-listen` has metrics of Prometheus"),
	MeansNothing("a service here has it without being asked", "forceNewDeployment", "enableExecuteCommand", "availabilityZoneRebalancing", "enableECSManagedTags", "propagateTags"),
	MeansNothing(describesAWS, "cluster", "clientToken", "platformVersion", "role", "launchType", "resourceManagementType"),
	// Terraform has these besides.
	MeansNothing("Terraform's own", "id", "triggers", "waitForSteadyState", "timeouts", "forceDelete", "sigintRollback", "region", "tagsAll", "arn"),
	MeansNothing("it says what is there now", "serviceArn", "clusterArn", "status", "runningCount", "pendingCount", "deployments", "events", "createdAt", "createdBy", "roleArn",
		"platformFamily", "taskSets", "currentServiceDeployment", "currentServiceRevisions"),
)

// AddService turns a service into a command line. Def is its task definition, whose fixed ports it may take out.
func (r *Reader) AddService(res *Result, m ServiceMembers, def *doctree.Node) {
	s := &Service{}
	flag := func(words ...string) { s.Flags = append(s.Flags, words...) }
	count := 1
	if n := m.at("desiredCount"); n != nil {
		if v, ok := IntOf(n); ok && v >= 0 {
			count = v
		} else {
			r.Wrong(n, "desiredCount is a whole number, not "+doctree.Quote(TextOf(n)), "")
		}
	}
	if n := m.at("schedulingStrategy"); n != nil && TextOf(n) == "DAEMON" {
		count = 1
		r.Lose(n, "schedulingStrategy DAEMON: one copy runs on this host, and on no other", "")
	}
	flag("--count", strconv.Itoa(count))
	if n := m.at("healthCheckGracePeriodSeconds"); n != nil && TextOf(n) != "0" {
		flag("--health-grace", TextOf(n)+"s")
	}
	if n := m.at("deploymentConfiguration"); n != nil {
		s.Flags = append(s.Flags, r.deployment(n)...)
	}
	if n := m.at("deploymentController"); n != nil {
		if kind := TextOf(n.Member("type")); kind != "" && kind != "ECS" {
			r.Lose(n, "deploymentController "+kind+": podtask replaces the copies itself", "--strategy blue-green, linear or canary shifts connections in steps")
		}
	}
	s.Flags = append(s.Flags, r.listeners(m, def, count)...)
	res.Service = s
}

// deployment turns a deploymentConfiguration into flags.
func (r *Reader) deployment(n *doctree.Node) (flags []string) {
	for _, f := range []struct{ member, flag string }{{"minimumHealthyPercent", "--min-healthy"}, {"maximumPercent", "--max"}} {
		if v := n.Member(f.member); v != nil {
			flags = append(flags, f.flag, TextOf(v))
		}
	}
	flags = append(flags, r.breaker(n.Member("deploymentCircuitBreaker"))...)
	if e := n.Member("earlySuccessCriteria"); IsTrue(e.Member("enable")) {
		flags = append(flags, "--early-success", r.wholeNumber(e, "earlySuccessCriteria", "healthyPercent"))
		if TextOf(e.Member("sourceServiceRevisionCleanup")) == "DEFERRED" {
			flags = append(flags, "--early-deferred")
		}
	}
	strategy := strings.ToLower(strings.ReplaceAll(TextOf(n.Member("strategy")), "_", "-"))
	if strategy != "" && strategy != "rolling" {
		flags = append(flags, "--strategy", strategy)
		if v := n.Member("bakeTimeInMinutes"); v != nil {
			flags = append(flags, "--bake", TextOf(v)+"m")
		}
	}
	for _, f := range []struct{ in, member, flag, unit string }{
		{"linearConfiguration", "stepPercent", "--step-percent", ""}, {"linearConfiguration", "stepBakeTimeInMinutes", "--step-bake", "m"},
		{"canaryConfiguration", "canaryPercent", "--canary-percent", ""}, {"canaryConfiguration", "canaryBakeTimeInMinutes", "--canary-bake", "m"},
	} {
		if v := n.Member(f.in).Member(f.member); v != nil {
			flags = append(flags, f.flag, TextOf(v)+f.unit)
		}
	}
	if a := n.Member("alarms"); IsTrue(a.Member("enable")) {
		r.Lose(a, "deploymentConfiguration.alarms: no alarm of CloudWatch is asked here", "write a reference for each alarm, and give --alarm NAME (docs/references.md)")
	}
	return flags
}

// wholeNumber returns the number of a member that an object needs.
func (r *Reader) wholeNumber(n *doctree.Node, title, member string) string {
	v := n.Member(member)
	if _, ok := IntOf(v); !ok {
		r.Wrong(OrAt(v, n), title+"."+member+" is a whole number, not "+doctree.Quote(TextOf(v)), "")
	}
	return TextOf(v)
}

// breaker turns a deploymentCircuitBreaker into flags.
func (r *Reader) breaker(b *doctree.Node) (flags []string) {
	if !IsTrue(b.Member("enable")) {
		if off := b.Member("enable"); off != nil {
			r.Lose(off, "deploymentConfiguration.deploymentCircuitBreaker.enable: a deployment that fails is given up here in any case", "--no-rollback keeps its copies for inspection")
		}
		return nil
	}
	if !IsTrue(b.Member("rollback")) {
		flags = append(flags, "--no-rollback")
	}
	if reset := b.Member("resetOnHealthyTask"); reset != nil && !IsTrue(reset) {
		flags = append(flags, "--breaker-cumulative")
	}
	if t := b.Member("thresholdConfiguration"); t != nil {
		suffix, known := map[string]string{"COUNT": "", "BOUNDED_PERCENT": "%", "UNBOUNDED_PERCENT": "%+"}[TextOf(t.Member("type"))]
		if !known {
			r.Wrong(t, "thresholdConfiguration.type is COUNT, BOUNDED_PERCENT or UNBOUNDED_PERCENT, not "+doctree.Quote(TextOf(t.Member("type"))), "")
		}
		flags = append(flags, "--breaker-threshold", r.wholeNumber(t, "thresholdConfiguration", "value")+suffix)
	}
	return flags
}

// listeners turns load balancers into addresses of the service. With several copies the fixed host ports of bridge
// mode become addresses too, because only one copy could have each.
func (r *Reader) listeners(m ServiceMembers, def *doctree.Node, count int) (flags []string) {
	taken := map[int]bool{}
	listen := func(port int, container string, to int) int {
		for taken[port] {
			port++
		}
		taken[port] = true
		flags = append(flags, "--listen", fmt.Sprintf("%d=%s:%d", port, container, to))
		return port
	}
	fixed := map[string]int{} // ports of containers that need no other address, and those of the host
	if mode := TextOf(def.Member("networkMode")); def != nil && (mode == "" || mode == "bridge" || mode == "host") {
		for _, c := range Items(def.Member("containerDefinitions")) {
			for _, p := range Items(c.Member("portMappings")) {
				host, _ := IntOf(p.Member("hostPort"))
				to, _ := IntOf(p.Member("containerPort"))
				if mode == "host" {
					host = to
				}
				if host == 0 || to == 0 {
					continue
				}
				name := TextOf(c.Member("name"))
				fixed[fmt.Sprint(name, ":", to)] = host
				if count < 2 || mode == "host" {
					continue
				}
				if strings.EqualFold(TextOf(p.Member("protocol")), "udp") {
					r.Lose(p, fmt.Sprintf("port %d/udp: each copy gets a free port, because a service forwards TCP only", host), "")
				} else {
					listen(host, name, to)
				}
				Remove(p, "hostPort")
			}
		}
	}
	for _, lb := range Items(m.at("loadBalancers")) {
		name := TextOf(lb.Member("containerName"))
		to, ok := IntOf(lb.Member("containerPort"))
		if name == "" || !ok {
			r.Lose(lb, "loadBalancers: a load balancer without containerName and containerPort", "")
			continue
		}
		port := fixed[fmt.Sprint(name, ":", to)]
		if port == 0 {
			port = to
			if port < 1024 { // which users may not open
				port += 8000
			}
			port = listen(port, name, to)
		}
		r.Lose(lb, fmt.Sprintf("loadBalancers: host names, paths and certificates of the load balancer; the service listens on port %d instead", port), "")
	}
	return flags
}

// Items returns the items of a list; nil for nil.
func Items(n *doctree.Node) []*doctree.Node {
	if n == nil {
		return nil
	}
	return n.Items
}
