package awsapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
	"github.com/podtask/podtask/internal/aws/awsapi/resource"
	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef"
)

// serviceOps are the operations on services.
type serviceOps struct {
	*serviceIndex
	clusters    *clusters
	definitions *definitions
	// registry returns the name that a registry of Cloud Map stands for.
	registry func(arn string) (name string, ok bool)

	mu sync.Mutex // while a service is made or removed
}

const noEffect = "it has no effect on this host; an event of the service says so"

// keptOfServices are the members of both requests that are only returned.
var keptOfServices = slices.Concat(
	placed, protocol.Keep[string](theHostsNetwork, "availabilityZoneRebalancing=ENABLED|DISABLED"),
	protocol.Keep[[]loadBalancerIn](noEffect, "loadBalancers"),
	protocol.HonorAndKeep[[]registryIn](registriesMember), protocol.HonorAndKeep[connectIn](connectMember),
	protocol.Refuse("podtask has no managed volumes: name a volume of the host in the definition", "volumeConfigurations"),
	protocol.Refuse("podtask has no gateways", "gatewayConnectors", "vpcLatticeConfigurations"),
	protocol.Refuse("podtask has metrics of its own", "monitoring"),
	protocol.Honor("cluster", "taskDefinition", "desiredCount", "deploymentController", "deploymentController.type", "enableExecuteCommand", "healthCheckGracePeriodSeconds", "propagateTags=TASK_DEFINITION|SERVICE|NONE"),
	deploymentMembers,
)

func (o *serviceOps) operations() []protocol.Operation {
	return []protocol.Operation{
		protocol.Define("CreateService", protocol.Members(
			protocol.Honor("serviceName!", "clientToken", "schedulingStrategy=REPLICA|DAEMON", "tags", "tags[].key", "tags[].value"),
			protocol.Keep[string]("tasks are the user's", launchTypeMember, "role"), keptOfServices,
		), o.create),
		protocol.Define("UpdateService", protocol.Members(protocol.Honor("service!", "forceNewDeployment"), keptOfServices), o.update),
		protocol.Define("DeleteService", protocol.Honor("service!", "cluster", "force"), o.delete),
		protocol.Define("DescribeServices", protocol.Honor("services!", "cluster", "include=TAGS"), o.describe),
		protocol.Define("ListServices", protocol.Members(
			protocol.Honor("cluster", launchTypeMember, "schedulingStrategy=REPLICA|DAEMON", managedMember+"=CUSTOMER|ECS", "maxResults", "nextToken"),
		), o.list),
		protocol.Define("ListServicesByNamespace", protocol.Honor("namespace!", "maxResults", "nextToken"), o.listByNamespace),
	}
}

// serviceClient is what the client of a service sent that is only returned:
// service.Config.Client.
type serviceClient struct {
	Scheduling    string          `json:"schedulingStrategy,omitempty"`
	PropagateTags string          `json:"propagateTags,omitempty"`
	Exec          bool            `json:"enableExecuteCommand,omitempty"`
	Tags          []resource.Tag  `json:"tags,omitempty"`
	Kept          protocol.Fields `json:"kept,omitempty"`
	// Token and Request are those of the creation.
	Token   string `json:"token,omitempty"`
	Request string `json:"request,omitempty"`
}

func serviceClientOf(c service.Config) (client serviceClient) {
	_ = json.Unmarshal(c.Client, &client) // another version's is as good as none
	return client
}

// valueOf is the value of a kept member. Without a platform version a service has the latest one: tools
// that fill in ECS's default change nothing.
func (c serviceClient) valueOf(name string) json.RawMessage {
	if v := c.Kept[name]; v != nil || name != "platformVersion" {
		return v
	}
	return json.RawMessage(`"` + latest + `"`)
}

// serviceIn are the members that both requests honor.
type serviceIn struct {
	Cluster        string `json:"cluster"`
	TaskDefinition string `json:"taskDefinition"`
	DesiredCount   *int   `json:"desiredCount"`
	Exec           *bool  `json:"enableExecuteCommand"`
	GracePeriod    *int   `json:"healthCheckGracePeriodSeconds"`
	PropagateTags  string `json:"propagateTags"`
	Controller     struct {
		Type string `json:"type"`
	} `json:"deploymentController"`
	Deployment deploymentIn `json:"deploymentConfiguration"`
	// addresses are the public addresses of an Express service; nil leaves those that there are.
	addresses *[]taskdef.Ingress
}

func (in serviceIn) check(kept protocol.Fields) error {
	if c := in.Controller.Type; c != "" && c != "ECS" {
		return protocol.Failf(protocol.CodeUnsupported, "podtask does not do deployments with the controller %s: a service rolls out its definition by itself", protocol.Shortened(c))
	}
	return checkKept(kept)
}

// apply changes a configuration as the request says. Tags are those of the definition.
func (in serviceIn) apply(c service.Config, client serviceClient, kept protocol.Fields, definition []resource.Tag) (service.Config, error) {
	c, err := in.Deployment.apply(c)
	if err == nil {
		err = checkBalancers(c.Method, kept, client.Kept)
	}
	if err != nil {
		return c, err
	}
	if in.addresses != nil {
		c.Ingress = in.addresses
	}
	if in.GracePeriod != nil {
		c.HealthCheckGracePeriod = taskdef.Span(*in.GracePeriod, time.Second)
	}
	if in.PropagateTags != "" {
		client.PropagateTags = in.PropagateTags
	}
	if in.Exec != nil {
		client.Exec = *in.Exec
	}
	client.Kept = maps.Clone(client.Kept)
	if client.Kept == nil {
		client.Kept = make(protocol.Fields)
	}
	maps.Copy(client.Kept, kept)
	if a := in.Deployment.Alarms; a != nil {
		if client.Kept[keptAlarms], err = json.Marshal(alarmsConfig{append([]string{}, a.Names...), a.Enable, a.Rollback}); err != nil {
			return c, err
		}
	}
	own := clientWith(client, definition)
	var err2 error
	c.Client, err = json.Marshal(client)
	c.TaskClient, err2 = json.Marshal(own)
	return c, errors.Join(err, err2)
}

// clientWith is what the tasks of a service keep.
func clientWith(s serviceClient, definition []resource.Tag) client {
	c := client{Exec: s.Exec, Kept: make(protocol.Fields)}
	for _, name := range []string{"launchType", "capacityProviderStrategy", "platformVersion"} {
		if v := s.Kept[name]; v != nil {
			c.Kept[name] = v
		}
	}
	switch s.PropagateTags {
	case "SERVICE":
		c.Tags = s.Tags
	case "TASK_DEFINITION":
		c.Tags = definition
	}
	return c
}

// keptAlarms is the key of the alarms of a service in the form in which the client sent them.
const keptAlarms = "deploymentConfiguration.alarms"

// checkBalancers checks load balancers as ECS does when a request has a strategy that shifts
// connections. Those of the service count if the request has none.
func checkBalancers(m service.Method, sent, before protocol.Fields) error {
	if rolls(m) {
		return nil
	}
	var balancers []loadBalancerIn
	raw := sent["loadBalancers"]
	if raw == nil {
		raw = before["loadBalancers"]
	}
	if raw == nil {
		return nil
	}
	if err := json.Unmarshal(raw, &balancers); err != nil {
		return protocol.Invalidf("loadBalancers cannot be read: %v", err)
	}
	var errs []error
	var groups []string
	for i, b := range balancers {
		path := fmt.Sprintf("loadBalancers[%d]", i)
		if b.Name != "" {
			errs = append(errs, protocol.Invalidf("%s.loadBalancerName: a Classic Load Balancer cannot be used with the strategy %s", path, m.Strategy))
		}
		if b.Advanced == nil {
			errs = append(errs, protocol.Invalidf("%s.advancedConfiguration is required with the strategy %s", path, m.Strategy))
			continue
		}
		if rule := b.Advanced.Production; rule != "" && rule == b.Advanced.Test {
			errs = append(errs, protocol.Invalidf("%s.advancedConfiguration: productionListenerRule and testListenerRule are the same", path))
		}
		for _, group := range []string{b.Group, b.Advanced.Group} {
			if group != "" && slices.Contains(groups, group) {
				errs = append(errs, protocol.Invalidf("%s: the target group %s is there twice", path, protocol.Shortened(group)))
			}
			groups = append(groups, group)
		}
	}
	return joined(errs)
}

// namesOf returns the names of a service of a cluster by its members, and what events say of those without an effect.
func (o *serviceOps) namesOf(cluster string, kept protocol.Fields) (service.Names, []string, error) {
	namespace, err := o.clusters.connectNamespace(cluster)
	if err != nil {
		return service.Names{}, nil, err
	}
	return serviceNames(kept, namespace, o.registry)
}

// disabled reports whether a member says that it is off, as tools send it by default.
func disabled(v json.RawMessage) bool {
	var member struct {
		Enabled *bool `json:"enabled"`
		Enable  *bool `json:"enable"`
	}
	if json.Unmarshal(v, &member) != nil {
		return false
	}
	return member.Enabled != nil && !*member.Enabled || member.Enable != nil && !*member.Enable
}

// notes are what events say of members without an effect.
func notes(kept protocol.Fields) (all []string) {
	if protocol.Given(kept, "loadBalancers") {
		all = append(all, "keeps loadBalancers, which has no effect on this host.")
	}
	return all
}

// noNetwork returns the event for a definition with network mode awsvpc and a request without a network
// configuration. ECS refuses that; here the network is the host's, which has no subnets to choose from.
func (o *serviceOps) noNetwork(definition string, kept protocol.Fields) ([]string, error) {
	if protocol.Given(kept, "networkConfiguration") {
		return nil, nil
	}
	r, source, err := o.definitions.findToRun(definition)
	if err != nil {
		return nil, err
	}
	a, err := o.definitions.answer(r, source, false)
	if err != nil || string(a.Definition["networkMode"]) != `"awsvpc"` {
		return nil, err
	}
	return []string{"has no networkConfiguration, which this host does not need: ECS refuses a service without one when networkMode is awsvpc."}, nil
}

type createServiceIn struct {
	serviceIn
	ServiceName string         `json:"serviceName"`
	ClientToken string         `json:"clientToken"`
	Scheduling  string         `json:"schedulingStrategy"`
	Tags        []resource.Tag `json:"tags"`
}

// daemonCount is ECS's sentence. The count 1, which a DAEMON service has on one host, is taken.
const daemonCount = "The daemon scheduling strategy does not support a desired count for services. Remove the desired count value and try again"

// count is the desired count of a new service.
func (in createServiceIn) count() (int, error) {
	switch {
	case in.Scheduling == "DAEMON" && in.DesiredCount != nil && *in.DesiredCount != 1:
		return 0, protocol.Invalidf(daemonCount)
	case in.Scheduling == "DAEMON":
		return 1, nil
	case in.DesiredCount == nil:
		return 0, protocol.Invalidf("desiredCount is required")
	}
	return *in.DesiredCount, nil
}

type serviceAnswer struct {
	Service any `json:"service"`
}

func (o *serviceOps) create(ctx context.Context, in createServiceIn, kept protocol.Fields) (any, error) {
	count, err := in.count()
	if err := errors.Join(err, in.check(kept), resource.CheckTags("tags", in.Tags)); err != nil {
		return nil, err
	}
	cluster, err := o.clusters.active(in.Cluster)
	if err != nil {
		return nil, err
	}
	if in.TaskDefinition == "" {
		return nil, protocol.Invalidf("taskDefinition is required")
	}
	name, tags, err := o.definition(in.TaskDefinition)
	if err != nil {
		return nil, err
	}
	said, err := o.noNetwork(name, kept)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	client := serviceClient{Scheduling: in.Scheduling, Tags: in.Tags, Token: in.ClientToken}
	if client.Request, err = protocol.DigestOf(in, kept); err != nil {
		return nil, err
	}
	if s, ok := o.find(in.ServiceName); ok {
		return o.repeated(s, cluster, client)
	}
	if kept, err = o.clusters.withDefaultStrategy(cluster, kept); err != nil {
		return nil, err
	}
	config, err := in.apply(service.Config{}, client, kept, tags)
	if err != nil {
		return nil, err
	}
	named, noted, err := o.namesOf(cluster, kept)
	if err != nil {
		return nil, err
	}
	config.Names, said = named, append(said, noted...)
	if cluster != arn.DefaultCluster {
		config.Cluster = cluster
	}
	s, err := o.services.Create(ctx, NewService{Name: in.ServiceName, Definition: name, Count: count, Config: config})
	if err != nil {
		return nil, err
	}
	if all := append(notes(kept), said...); len(all) > 0 {
		if s, err = o.services.Update(ctx, in.ServiceName, ServiceChange{Notes: all}); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(o.records.Delete(resource.RecordKey(kindService, in.ServiceName)), o.tags.Forget(arn.Service(cluster, in.ServiceName))); err != nil {
		return nil, err
	}
	doc, err := o.document(s, true)
	return serviceAnswer{doc}, err
}

// repeated answers a request to create a service that is there.
func (o *serviceOps) repeated(s service.State, cluster string, c serviceClient) (any, error) {
	was := serviceClientOf(s.Config)
	switch {
	case s.Status == service.Draining:
		return nil, protocol.Invalidf("Unable to Start a service that is still Draining.")
	case clusterOfService(s) != cluster:
		return nil, protocol.Invalidf("serviceName: cluster %s has a service %s, and the names of services are unique on a host", clusterOfService(s), s.Name)
	case c.Token == "" || c.Token != was.Token || c.Request != was.Request:
		return nil, protocol.Invalidf("Creation of service was not idempotent.")
	}
	doc, err := o.document(s, true)
	return serviceAnswer{doc}, err
}

// definition returns FAMILY:REVISION of an active definition, and its tags.
func (o *serviceOps) definition(text string) (string, []resource.Tag, error) {
	r, source, err := o.definitions.findToRun(text)
	if err != nil {
		return "", nil, err
	}
	a, err := o.definitions.answer(r, source, true)
	return fmt.Sprintf("%s:%d", r.Family, r.Revision), a.Tags, err
}

type updateServiceIn struct {
	serviceIn
	Service string `json:"service"`
	Force   bool   `json:"forceNewDeployment"`
}

// redeploying are the kept members of which another value begins a deployment, as on ECS.
var redeploying = []string{"networkConfiguration", "platformVersion", "loadBalancers", "serviceRegistries", "serviceConnectConfiguration"}

func (o *serviceOps) update(ctx context.Context, in updateServiceIn, kept protocol.Fields) (any, error) {
	for tries := 0; ; tries++ {
		answer, err := o.updateFrom(ctx, in, kept)
		if tries == maxTries || !errors.Is(err, ErrChanged) {
			return answer, err
		}
	}
}

// maxTries limits the number of tries of a change, of which each failed because the service was changed meanwhile.
const maxTries = 100

// updateFrom makes a change of the present state of a service.
func (o *serviceOps) updateFrom(ctx context.Context, in updateServiceIn, kept protocol.Fields) (any, error) {
	if err := in.check(kept); err != nil {
		return nil, err
	}
	cluster, err := o.clusters.active(in.Cluster)
	if err != nil {
		return nil, err
	}
	s, name, ok, err := o.named("service", cluster, in.Service)
	if err != nil {
		return nil, err
	}
	if !ok {
		if _, was := o.deleted(cluster, name); was {
			return nil, protocol.Failf("ServiceNotActiveException", "Service was not ACTIVE.")
		}
		return nil, protocol.Failf("ServiceNotFoundException", "Service not found.")
	}
	if s.Status != service.Active {
		return nil, protocol.Failf("ServiceNotActiveException", "Service was not ACTIVE.")
	}
	change, err := o.change(s, in, kept)
	if err != nil {
		return nil, err
	}
	if s, err = o.services.Update(ctx, name, change); err != nil {
		return nil, err
	}
	doc, err := o.document(s, false)
	return serviceAnswer{doc}, err
}

// change is what a request changes. A deployment begins only for a reason: clients send the
// same update twice in a row.
func (o *serviceOps) change(s service.State, in updateServiceIn, kept protocol.Fields) (ServiceChange, error) {
	c := ServiceChange{From: &s, Count: in.DesiredCount, Force: in.Force}
	was := serviceClientOf(s.Config)
	if was.Scheduling == "DAEMON" && in.DesiredCount != nil && *in.DesiredCount != 1 {
		return c, protocol.Invalidf(daemonCount)
	}
	var tags []resource.Tag
	if in.TaskDefinition != "" {
		name, found, err := o.definition(in.TaskDefinition)
		if err != nil {
			return c, err
		}
		tags = found
		if name != s.Primary().TaskDefinition {
			c.Definition = name
		}
	} else if _, found, err := o.definition(s.Primary().TaskDefinition); err == nil { // else it is inactive: its tags do not count anymore
		tags = found
	}
	config, err := in.apply(s.Config, was, kept, tags)
	if err != nil {
		return c, err
	}
	var noted []string
	names := kept[connectMember] != nil || kept[registriesMember] != nil
	if names { // what the request leaves out of the two stays
		if config.Names, noted, err = o.namesOf(clusterOfService(s), serviceClientOf(config).Kept); err != nil {
			return c, err
		}
	}
	for _, name := range redeploying {
		if v := kept[name]; v != nil && !sameJSON(v, was.valueOf(name)) {
			c.Force = true
			c.Notes = append(notes(kept), noted...)
		}
	}
	c.Config = func(now service.Config) service.Config {
		if names {
			now.Names = config.Names
		}
		now.Bounds, now.Breaker, now.Method, now.HealthCheckGracePeriod = config.Bounds, config.Breaker, config.Method, config.HealthCheckGracePeriod
		now.ClientConfig = config.ClientConfig
		if in.addresses != nil {
			now.Ingress = in.addresses
		}
		return now
	}
	return c, nil
}

// sameJSON compares two values; an empty list or object, or what is off, is the same as none.
func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	if disabled(a) {
		a = nil
	}
	if disabled(b) {
		b = nil
	}
	if len(a) > 0 && json.Unmarshal(a, &x) != nil || len(b) > 0 && json.Unmarshal(b, &y) != nil {
		return false
	}
	canonical := func(v any) string {
		data, _ := json.Marshal(v) // it was JSON, with sorted keys now
		if s := string(data); s != "[]" && s != "{}" {
			return s
		}
		return "null"
	}
	return canonical(x) == canonical(y)
}

type deleteServiceIn struct {
	Service string `json:"service"`
	Cluster string `json:"cluster"`
	Force   bool   `json:"force"`
}

func (o *serviceOps) delete(ctx context.Context, in deleteServiceIn, _ protocol.Fields) (any, error) {
	cluster, err := o.clusters.active(in.Cluster)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	s, name, ok, err := o.named("service", cluster, in.Service)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, protocol.Failf("ServiceNotFoundException", "Service not found.")
	}
	if !in.Force && s.DesiredCount > 0 && serviceClientOf(s.Config).Scheduling != "DAEMON" {
		return nil, protocol.Invalidf("The service cannot be stopped while it is scaled above 0.")
	}
	if err := o.remember(s); err != nil {
		return nil, err
	}
	if s, err = o.services.Remove(ctx, name); err != nil {
		return nil, err
	}
	doc, err := o.document(s, false)
	return serviceAnswer{doc}, err
}

type describeServicesIn struct {
	Services []string `json:"services"`
	Cluster  string   `json:"cluster"`
	Include  []string `json:"include"`
}

const maxDescribed = 10

func (o *serviceOps) describe(_ context.Context, in describeServicesIn, _ protocol.Fields) (any, error) {
	cluster, err := o.clusters.active(in.Cluster)
	if err != nil {
		return nil, err
	}
	if err := protocol.SomeNamed("services", "Services", len(in.Services), maxDescribed); err != nil {
		return nil, err
	}
	answer := struct {
		Services []any              `json:"services"`
		Failures []protocol.Problem `json:"failures"`
	}{[]any{}, []protocol.Problem{}}
	for _, text := range in.Services {
		s, name, ok, err := o.named("services", cluster, text)
		if err != nil {
			return nil, err
		}
		if !ok {
			if s, ok = o.deleted(cluster, name); !ok {
				answer.Failures = append(answer.Failures, protocol.Problem{ARN: arn.Service(cluster, protocol.Shortened(name)), Reason: protocol.MissingReason})
				continue
			}
		}
		doc, err := o.document(s, slices.Contains(in.Include, "TAGS"))
		if err != nil {
			return nil, err
		}
		answer.Services = append(answer.Services, doc)
	}
	return answer, nil
}

type listServicesIn struct {
	protocol.Paging
	Cluster    string `json:"cluster"`
	LaunchType string `json:"launchType"`
	Scheduling string `json:"schedulingStrategy"`
	Managed    string `json:"resourceManagementType"`
}

func (o *serviceOps) list(_ context.Context, in listServicesIn, _ protocol.Fields) (any, error) {
	cluster, err := o.clusters.active(in.Cluster)
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, s := range o.services.States() {
		c := serviceClientOf(s.Config)
		if clusterOfService(s) == cluster && s.Status == service.Active &&
			(in.LaunchType == "" || launchTypeOf(client{Kept: c.Kept}) == in.LaunchType) && (in.Scheduling == "" || schedulingOf(c) == in.Scheduling) &&
			(in.Managed == "" || (in.Managed == "ECS") == (string(c.Kept[managedMember]) == managedByECS)) {
			keys = append(keys, s.Name)
		}
	}
	for i, name := range keys {
		keys[i] = arn.Service(cluster, name)
	}
	return listed("ListServices "+cluster+" "+in.LaunchType+in.Scheduling+in.Managed, in.Paging, keys)
}

type listByNamespaceIn struct {
	protocol.Paging
	Namespace string `json:"namespace"`
}

// listByNamespace lists the services of all clusters that take part in a namespace, which is given by its name or ARN.
func (o *serviceOps) listByNamespace(_ context.Context, in listByNamespaceIn, _ protocol.Fields) (any, error) {
	namespace := namespaceName(in.Namespace)
	if err := service.CheckNamespace(namespace); err != nil {
		return nil, protocol.Invalidf("namespace: %v", err)
	}
	var arns []string
	for _, s := range o.services.States() {
		if s.Config.Names.Namespace == namespace && s.Status == service.Active {
			arns = append(arns, arn.Service(clusterOfService(s), s.Name))
		}
	}
	return listed("ListServicesByNamespace "+namespace, in.Paging, arns)
}

// listed answers with a page of a list of services.
func listed(list string, p protocol.Paging, arns []string) (any, error) {
	slices.Sort(arns)
	some, next, err := protocol.Page(list, p, maxDescribed, arns, strings.Compare)
	return struct {
		ARNs []string `json:"serviceArns"`
		Next string   `json:"nextToken,omitempty"`
	}{some, next}, err
}
