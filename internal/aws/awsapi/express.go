package awsapi

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/aws/awsapi/autoscaling"
	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
	"github.com/podtask/podtask/internal/aws/awsapi/resource"
	"github.com/podtask/podtask/pkg/scaling"
	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef"
)

// expressOps are the operations on Express services. One request makes a task definition, a service of it, its public
// address and its scaling. All four are ordinary ones, and an answer is read from them.
type expressOps struct {
	*serviceOps
	scaling autoscaling.Scaling
	domain  string // the addresses are https://NAME.DOMAIN; empty: none is configured
}

const (
	expressMain   = "Main" // the container, as ECS calls it
	expressPolicy = "express"
	// expressFile marks, in the catalog, the task definitions that these operations registered: an update may replace them.
	expressFile = "CreateExpressGatewayService"
	// expressGrace is the grace period of health checks.
	expressGrace = 60

	managedMember = "resourceManagementType" // in answers about services
	managedByECS  = `"ECS"`
	roleMember    = "infrastructureRoleArn"
)

var (
	expressContainerMembers = protocol.Honor("primaryContainer", "primaryContainer.image!", "primaryContainer.command", "primaryContainer.containerPort",
		"primaryContainer.environment", "primaryContainer.environment[].name!", "primaryContainer.environment[].value", "primaryContainer.secrets", "primaryContainer.secrets[].name!", "primaryContainer.secrets[].valueFrom!",
		"primaryContainer.repositoryCredentials", "primaryContainer.repositoryCredentials.credentialsParameter",
		"primaryContainer.awsLogsConfiguration", "primaryContainer.awsLogsConfiguration.logGroup!", "primaryContainer.awsLogsConfiguration.logStreamPrefix!")
	expressMembers = protocol.Members(expressContainerMembers,
		protocol.Honor("cpu", "memory", "cpuArchitecture", "executionRoleArn", "taskRoleArn", "taskDefinitionArn", "healthCheckPath",
			"scalingTarget", "scalingTarget.minTaskCount", "scalingTarget.maxTaskCount", "scalingTarget.autoScalingMetric", "scalingTarget.autoScalingTargetValue"),
		protocol.Keep("the network is the user's", "networkConfiguration:o"))
)

func (o *expressOps) operations() []protocol.Operation {
	return []protocol.Operation{
		protocol.Define("CreateExpressGatewayService", protocol.Members(protocol.Honor("serviceName", "cluster", "tags", "tags[].key", "tags[].value"),
			protocol.Require(protocol.Keep("nothing is made in an account", roleMember+":s")), expressMembers), o.create),
		protocol.Define("UpdateExpressGatewayService", protocol.Members(protocol.Honor("serviceArn!"), expressMembers), o.update),
		protocol.Define("DescribeExpressGatewayService", protocol.Honor("serviceArn!", "include"), o.describe),
		protocol.Define("DeleteExpressGatewayService", protocol.Honor("serviceArn!"), o.delete),
	}
}

type expressScaling struct {
	Min    *int   `json:"minTaskCount,omitempty"`
	Max    *int   `json:"maxTaskCount,omitempty"`
	Metric string `json:"autoScalingMetric,omitempty"`
	Target *int   `json:"autoScalingTargetValue,omitempty"`
}

type expressIn struct {
	expressRevision
	Cluster    string          `json:"cluster"`
	Name       string          `json:"serviceName"`
	ARN        string          `json:"serviceArn"`
	Definition string          `json:"taskDefinitionArn"`
	Scaling    *expressScaling `json:"scalingTarget"`
	Tags       []resource.Tag  `json:"tags"`
}

// expressMetrics are the metrics by which Express services scale.
var expressMetrics = map[string]scaling.Metric{"AVERAGE_CPU": scaling.CPU, "AVERAGE_MEMORY": scaling.Memory, "REQUEST_COUNT_PER_TARGET": scaling.Requests}

func (in expressIn) check() error {
	var errs []error
	if in.Definition != "" && in.expressRevision != (expressRevision{}) {
		errs = append(errs, protocol.Invalidf("taskDefinitionArn: a request with it cannot have primaryContainer, executionRoleArn, taskRoleArn, cpu, memory and cpuArchitecture; healthCheckPath has no effect beside it, so give the container %s a health check", expressMain))
	}
	if p := in.HealthPath; p != "" && !strings.HasPrefix(p, "/") {
		errs = append(errs, protocol.Invalidf("healthCheckPath: it begins with a slash, not %q", protocol.Shortened(p)))
	}
	if c := in.Container; c != nil {
		errs = append(errs, protocol.Within("primaryContainer.containerPort", &c.Port, 0, 65535))
	}
	if s := in.Scaling; s != nil {
		errs = append(errs, protocol.OneOf("scalingTarget.autoScalingMetric", s.Metric, "AVERAGE_CPU", "AVERAGE_MEMORY", "REQUEST_COUNT_PER_TARGET"))
	}
	errs = append(errs, protocol.OneOf("cpuArchitecture", in.Architecture, "X86_64", "ARM64"), resource.CheckTags("tags", in.Tags))
	return joined(errs)
}

// revision returns a revision of a service, and whether these operations made its task definition.
func (o *expressOps) revision(definition string) (r expressRevision, source []byte, made bool, err error) {
	found, source, err := o.definitions.find("taskDefinition", definition)
	if err != nil {
		return r, nil, false, err
	}
	data, err := taskdef.ToJSON(found.File, source)
	if err == nil {
		r, err = expressRevisionOf(data)
	}
	return r, source, found.File == expressFile, err
}

// register registers the task definition of a revision, unless it is the one that there is.
func (o *expressOps) register(ctx context.Context, family string, r expressRevision, present []byte) (definition string, err error) {
	source, err := r.source(family)
	if err != nil || bytes.Equal(source, present) {
		return "", err
	}
	added, err := o.definitions.add(ctx, expressFile, source)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s:%d", added.Family, added.Revision), nil
}

// ingress returns the public address of a service whose container has a port.
func (o *expressOps) ingress(name string, port int) (*[]taskdef.Ingress, error) {
	i := taskdef.Ingress{URL: "https://" + strings.ToLower(name) + "." + o.domain, Container: expressMain, Port: uint16(port)}
	if problems := i.Check(); len(problems) > 0 {
		return nil, protocol.Invalidf("serviceName: the address of %s would be %s: %s", protocol.Shortened(name), i.URL, problems[0].Text)
	}
	return &[]taskdef.Ingress{i}, nil
}

// noDomain is why these operations are refused.
const noDomain = "the public addresses of Express services are https://NAME.DOMAIN: set aws-express-domain to the domain whose names lead to this host (docs/aws.md)"

func (o *expressOps) create(ctx context.Context, in expressIn, kept protocol.Fields) (any, error) {
	if o.domain == "" {
		return nil, protocol.Failf(protocol.CodeUnsupported, "podtask does not do CreateExpressGatewayService: %s", noDomain)
	}
	if _, err := o.clusters.active(in.Cluster); err != nil {
		return nil, err
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	if in.Definition == "" && in.Container == nil {
		return nil, protocol.Invalidf("primaryContainer or taskDefinitionArn is required")
	}
	name := in.Name
	if name == "" {
		name = "express-" + strings.ToLower(rand.Text()[:12])
	}
	if _, ok := o.find(name); ok {
		return nil, protocol.Invalidf("serviceName: there is a service %s: UpdateExpressGatewayService changes one", protocol.Shortened(name))
	}
	definition, revision := in.Definition, in.over(expressDefaults)
	var err error
	if definition != "" {
		revision, _, _, err = o.revision(definition)
	}
	if err != nil {
		return nil, err
	}
	addresses, err := o.ingress(name, revision.Container.port())
	if err != nil {
		return nil, err
	}
	scale, err := in.Scaling.over(scaling.Config{})
	if err != nil {
		return nil, err
	}
	if definition == "" {
		if definition, err = o.register(ctx, name, revision, nil); err != nil {
			return nil, err
		}
	}
	kept = protocol.Fields{roleMember: kept[roleMember], managedMember: json.RawMessage(managedByECS), "launchType": json.RawMessage(`"` + fargate + `"`), "networkConfiguration": expressNetwork(kept)}
	grace := expressGrace
	if _, err := o.serviceOps.create(ctx, createServiceIn{ServiceName: name, Tags: in.Tags, serviceIn: serviceIn{
		Cluster: in.Cluster, TaskDefinition: definition, DesiredCount: &scale.Min, GracePeriod: &grace,
		Deployment: deploymentIn{Breaker: &breakerIn{Enable: true, Rollback: true}}, addresses: addresses,
	}}, kept); err != nil {
		return nil, err
	}
	if err := o.scale(ctx, name, in.Scaling); err != nil {
		_, removal := o.services.Remove(ctx, name) // nothing half-made
		return nil, errors.Join(err, removal)
	}
	s, _ := o.find(name)
	doc, err := o.answer(s, true)
	return doc, err
}

// expressNetwork returns the network configuration of a request as a service has it. Without one, ECS takes the default network.
func expressNetwork(kept protocol.Fields) json.RawMessage {
	if kept["networkConfiguration"] == nil {
		return json.RawMessage(`{"awsvpcConfiguration":{"subnets":[],"securityGroups":[]}}`)
	}
	return slices.Concat(json.RawMessage(`{"awsvpcConfiguration":`), kept["networkConfiguration"], json.RawMessage(`}`))
}

// over changes the configuration of a scaling. Without one it is ECS's default: 1 to 20 copies by 60 % of their processors.
func (s *expressScaling) over(c scaling.Config) (scaling.Config, error) {
	i := slices.IndexFunc(c.Policies, func(p scaling.Policy) bool { return p.Name == expressPolicy })
	if c.Policies = slices.Clone(c.Policies); i < 0 {
		if c.Max == 0 {
			c.Min, c.Max = 1, 20
		}
		c.Policies = append(c.Policies, scaling.Policy{Name: expressPolicy, Metric: scaling.CPU, Target: 60, OutCooldown: scaling.DefaultCooldown, InCooldown: scaling.DefaultCooldown})
		i = len(c.Policies) - 1
	}
	if s != nil {
		if s.Min != nil {
			c.Min = *s.Min
		}
		if s.Max != nil {
			c.Max = *s.Max
		}
		if s.Metric != "" {
			c.Policies[i].Metric = expressMetrics[s.Metric]
		}
		if s.Target != nil {
			c.Policies[i].Target = float64(*s.Target)
		}
	}
	if err := c.Check(); err != nil {
		return c, protocol.Invalidf("scalingTarget: %v", err)
	}
	return c, nil
}

// scale configures the scaling of a service.
func (o *expressOps) scale(ctx context.Context, name string, in *expressScaling) error {
	_, err := o.scaling.Configure(ctx, name, func(c scaling.Config, _ bool) (scaling.Config, error) { return in.over(c) })
	return err
}

// existing returns the Express service of an ARN; ok is false if it was removed within the hour.
func (o *expressOps) existing(text string) (s service.State, ok bool, err error) {
	rest, isARN, err := cut("serviceArn", "service", text)
	if err != nil {
		return s, false, err
	}
	cluster, name, two := strings.Cut(rest, "/")
	if !isARN || !two {
		return s, false, protocol.Invalidf("serviceArn: %q is not the ARN of a service", protocol.Shortened(text))
	}
	if s, ok = o.find(name); !ok || clusterOfService(s) != cluster {
		var was bool
		if s, was = o.deleted(cluster, name); !was {
			return s, false, protocol.Failf("ServiceNotFoundException", "Service not found.")
		}
		ok = false
	}
	if string(serviceClientOf(s.Config).Kept[managedMember]) != managedByECS {
		return s, false, protocol.Invalidf("serviceArn: %s is not an Express service", protocol.Shortened(name))
	}
	return s, ok, nil
}

func (o *expressOps) update(ctx context.Context, in expressIn, kept protocol.Fields) (any, error) {
	s, ok, err := o.existing(in.ARN)
	switch {
	case err != nil:
		return nil, err
	case !ok || s.Status != service.Active:
		return nil, protocol.Failf("ServiceNotActiveException", "Service was not ACTIVE.")
	case o.domain == "":
		return nil, protocol.Failf(protocol.CodeUnsupported, "podtask does not do UpdateExpressGatewayService: %s", noDomain)
	}
	definition, addresses, err := o.target(ctx, s, in)
	if err != nil {
		return nil, err
	}
	if kept["networkConfiguration"] != nil {
		kept["networkConfiguration"] = expressNetwork(kept)
	}
	if _, err := o.serviceOps.update(ctx, updateServiceIn{Service: s.Name, serviceIn: serviceIn{Cluster: clusterOfService(s), TaskDefinition: definition, addresses: addresses}}, kept); err != nil {
		return nil, err
	}
	if in.Scaling != nil {
		if err := o.scale(ctx, s.Name, in.Scaling); err != nil {
			return nil, err
		}
	}
	s, _ = o.find(s.Name)
	doc, err := o.document(s, false)
	doc.Target, doc.Active, doc.Current, doc.Role, doc.Tags = nil, nil, "", "", nil
	if err == nil {
		doc.Target, err = o.configuration(s, s.Primary())
	}
	return expressAnswer{doc}, err
}

// target checks a change of a service, and returns the task definition and the addresses that it is to have; none of what stays. It
// registers a definition last, so that nothing is changed by a request of which a part is wrong.
func (o *expressOps) target(ctx context.Context, s service.State, in expressIn) (definition string, addresses *[]taskdef.Ingress, err error) {
	if err := in.check(); err != nil {
		return "", nil, err
	}
	if in.Scaling != nil {
		scaled, _, err := o.scaling.Get(s.Name)
		if err == nil {
			_, err = in.Scaling.over(scaled.Config)
		}
		if err != nil {
			return "", nil, err
		}
	}
	before, present, made, err := o.revision(s.Primary().TaskDefinition)
	if err != nil && in.Definition == "" {
		return "", nil, err
	}
	after := in.over(before)
	switch {
	case in.Definition != "":
		after, _, _, err = o.revision(in.Definition)
	case in.expressRevision != (expressRevision{}) && !made:
		err = protocol.Invalidf("the service has a task definition of the user: register a revision, and name it in taskDefinitionArn")
	}
	if err == nil && after.Container.port() != before.Container.port() {
		addresses, err = o.ingress(s.Name, after.Container.port())
	}
	if err == nil && in.Definition == "" && made {
		in.Definition, err = o.register(ctx, s.Name, after, present)
	}
	return in.Definition, addresses, err
}

func (o *expressOps) describe(_ context.Context, in struct {
	ARN     string   `json:"serviceArn"`
	Include []string `json:"include"`
}, _ protocol.Fields) (any, error) {
	s, _, err := o.existing(in.ARN)
	if err != nil {
		return nil, err
	}
	return o.answer(s, slices.Contains(in.Include, "TAGS"))
}

func (o *expressOps) delete(ctx context.Context, in expressIn, _ protocol.Fields) (any, error) {
	s, ok, err := o.existing(in.ARN)
	if err != nil {
		return nil, err
	}
	if ok && s.Status == service.Active {
		if _, err := o.serviceOps.delete(ctx, deleteServiceIn{Service: s.Name, Cluster: clusterOfService(s), Force: true}, nil); err != nil {
			return nil, err
		}
		if s, _, err = o.existing(in.ARN); err != nil {
			return nil, err
		}
	}
	return o.answer(s, true)
}
