package awsapi

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/podtask/podtask/internal/aws/awsapi/autoscaling"
	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
	"github.com/podtask/podtask/internal/aws/awsapi/resource"
	"github.com/podtask/podtask/internal/define/catalog"
	"github.com/podtask/podtask/internal/lazy"
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

	// changing is held while a request makes, changes or removes an Express service: it changes what it has read before.
	changing sync.Mutex
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
		protocol.Keep[expressNetworkIn](theHostsNetwork, "networkConfiguration"))
)

func (o *expressOps) operations() []protocol.Operation {
	return []protocol.Operation{
		protocol.Define("CreateExpressGatewayService", protocol.Members(protocol.Honor("serviceName", "cluster", "tags", "tags[].key", "tags[].value"),
			protocol.Require(protocol.Keep[string]("nothing is made in an account", roleMember)), expressMembers), o.create),
		protocol.Define("UpdateExpressGatewayService", protocol.Members(protocol.Honor("serviceArn!"), expressMembers), o.update),
		protocol.Define("DescribeExpressGatewayService", protocol.Honor("serviceArn!", "include=TAGS"), o.describe),
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

// Limits of a request, in bytes: that of a label of DNS, and that of load balancers of AWS for paths of health checks.
const maxLabel, maxHealthPath = 63, 1024

var (
	expressName = lazy.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9_-]*[a-zA-Z0-9])?$`)
	healthPath  = lazy.MustCompile(`^/([!-"$-.0-~][!-"$-~]*)?$`)
)

func (in expressIn) check() error {
	var errs []error
	if in.Definition != "" && in.expressRevision != (expressRevision{}) {
		errs = append(errs, protocol.Invalidf("taskDefinitionArn: a request with it cannot have primaryContainer, executionRoleArn, taskRoleArn, cpu, memory and cpuArchitecture; healthCheckPath has no effect beside it, so give the container %s a health check", expressMain))
	}
	if p := in.HealthPath; p != "" && !healthPath.MatchString(p) || len(p) > maxHealthPath {
		errs = append(errs, protocol.Invalidf("healthCheckPath: it begins with one slash, and has at most %d characters of ASCII without spaces and #; not %q", maxHealthPath, protocol.Shortened(p)))
	}
	if n := in.Name; n != "" && !expressName.MatchString(n) || len(n) > maxLabel {
		errs = append(errs, protocol.Invalidf("serviceName: it is a label of the address, so it has 1 to %d letters, digits, dashes and underscores, and begins and ends with a letter or a digit; not %q", maxLabel, protocol.Shortened(n)))
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

// register registers the task definition of a revision, unless it is the one that there is. One of the same content is taken, as
// a request that was cut off leaves it; added is false then.
func (o *expressOps) register(ctx context.Context, family string, r expressRevision, present []byte) (definition string, added bool, err error) {
	source, err := r.source(family)
	if err != nil || bytes.Equal(source, present) {
		return "", false, err
	}
	d, err := o.definitions.document(expressFile, source)
	if err != nil {
		return "", false, err
	}
	found, added, err := o.definitions.catalog.Register(ctx, d, o.now())
	if err == nil && found.File != expressFile {
		added = true
		found, err = o.definitions.catalog.Add(ctx, d, o.now())
	}
	return fmt.Sprintf("%s:%d", found.Family, found.Revision), added, err
}

// discard deletes a task definition that was registered for a service that was not made.
func (o *expressOps) discard(ctx context.Context, definition string) error {
	ref, err := catalog.ParseRef(definition)
	if err == nil {
		_, err = o.definitions.catalog.Deregister(ctx, ref, o.now())
	}
	if err == nil {
		_, err = o.definitions.catalog.Delete(ctx, ref)
	}
	return err
}

// ingress returns the public address of a service whose container has a port.
func (o *expressOps) ingress(name string, port int) (*[]taskdef.Ingress, error) {
	i := taskdef.Ingress{URL: "https://" + strings.ToLower(name) + "." + o.domain, Container: expressMain, Port: uint16(port)}
	if problems := i.Check(); len(problems) > 0 {
		return nil, protocol.Invalidf("serviceName: the address of %s would be %s: %s", protocol.Shortened(name), i.URL, problems[0].Text)
	}
	return &[]taskdef.Ingress{i}, nil
}

// noDomain explains why these operations are refused.
const noDomain = "the public addresses of Express services are https://NAME.DOMAIN: set aws-express-domain to the domain whose names lead to this host (docs/aws.md)"

func (o *expressOps) create(ctx context.Context, in expressIn, kept protocol.Fields) (any, error) {
	if o.domain == "" {
		return nil, protocol.Failf(protocol.CodeUnsupported, "podtask does not do CreateExpressGatewayService: %s", noDomain)
	}
	if _, err := o.clusters.active(in.Cluster); err != nil {
		return nil, err
	}
	network, err := expressNetwork(kept)
	if err := errors.Join(in.check(), err); err != nil {
		return nil, err
	}
	if in.Definition == "" && in.Container == nil {
		return nil, protocol.Invalidf("primaryContainer or taskDefinitionArn is required")
	}
	token, err := protocol.DigestOf(in, kept)
	if err != nil {
		return nil, err
	}
	kept = protocol.Fields{roleMember: kept[roleMember], managedMember: json.RawMessage(managedByECS), "launchType": json.RawMessage(`"` + fargate + `"`), "networkConfiguration": network}
	in.Name = cmp.Or(in.Name, "express-"+strings.ToLower(rand.Text()[:12]))
	o.changing.Lock()
	defer o.changing.Unlock()
	if s, ok := o.find(in.Name); ok {
		return o.repeat(ctx, s, in, token)
	}
	return o.add(ctx, in, token, kept)
}

// add makes a service that is not there. Nothing is left of one that cannot be made.
func (o *expressOps) add(ctx context.Context, in expressIn, token string, kept protocol.Fields) (any, error) {
	revision, added, err := in.over(expressDefaults), false, error(nil)
	if in.Definition != "" {
		revision, _, _, err = o.revision(in.Definition)
	} else if r, _, err := o.definitions.find("serviceName", in.Name); err == nil && r.File != expressFile {
		return nil, protocol.Invalidf("serviceName: the task definitions of the family %s are not those of an Express service: choose another name, or give one of them in taskDefinitionArn", in.Name)
	}
	if err != nil {
		return nil, err
	}
	addresses, err := o.ingress(in.Name, revision.Container.port())
	if err != nil {
		return nil, err
	}
	scale, err := in.Scaling.over(scaling.Config{}, false)
	if err != nil {
		return nil, err
	}
	if in.Definition == "" {
		if in.Definition, added, err = o.register(ctx, in.Name, revision, nil); err != nil {
			return nil, err
		}
	}
	err = o.scaling.End(ctx, in.Name) // that of a service of the name that was just removed
	if grace := expressGrace; err == nil {
		_, err = o.serviceOps.create(ctx, createServiceIn{ServiceName: in.Name, ClientToken: token, Tags: in.Tags, serviceIn: serviceIn{
			Cluster: in.Cluster, TaskDefinition: in.Definition, DesiredCount: &scale.Min, GracePeriod: &grace,
			Deployment: deploymentIn{Breaker: &breakerConfig{Enable: true, Rollback: true}}, addresses: addresses,
		}}, kept)
	}
	if err == nil {
		if err = o.scale(ctx, in.Name, in.Scaling); err != nil {
			_, removal := o.services.Remove(ctx, in.Name)
			err = errors.Join(err, removal)
		}
	}
	if err != nil && added {
		err = errors.Join(err, o.discard(ctx, in.Definition))
	}
	if err != nil {
		return nil, err
	}
	s, _ := o.find(in.Name)
	return o.answer(s, true)
}

// repeat answers a request to create a service that is there: the request that has made it is carried on with, for a client whose
// answer was lost.
func (o *expressOps) repeat(ctx context.Context, s service.State, in expressIn, token string) (any, error) {
	c := serviceClientOf(s.Config)
	switch {
	case s.Status == service.Draining:
		return nil, protocol.Invalidf("Unable to Start a service that is still Draining.")
	case string(c.Kept[managedMember]) != managedByECS:
		return nil, protocol.Invalidf("serviceName: there is a service %s, which is not an Express service", s.Name)
	case c.Token != token || s.LastDeployment > 1:
		return nil, protocol.Invalidf("serviceName: there is a service %s: UpdateExpressGatewayService changes one", s.Name)
	}
	_, scales, err := o.scaling.Get(s.Name)
	if err == nil && !scales {
		err = o.scale(ctx, s.Name, in.Scaling)
	}
	if err != nil {
		return nil, err
	}
	return o.answer(s, true)
}

// expressNetwork returns the network configuration of a request as a service has it. Without one, ECS takes the default network.
func expressNetwork(kept protocol.Fields) (json.RawMessage, error) {
	var network expressNetworkIn
	if v := kept["networkConfiguration"]; v != nil {
		if err := json.Unmarshal(v, &network); err != nil {
			return nil, err
		}
	}
	network.Subnets, network.Groups = append([]string{}, network.Subnets...), append([]string{}, network.Groups...)
	return json.Marshal(map[string]any{"awsvpcConfiguration": network})
}

// over changes the configuration of a scaling. Without one it is ECS's default: 1 to 20 copies by 60 % of their processors.
func (s *expressScaling) over(c scaling.Config, found bool) (scaling.Config, error) {
	var in expressScaling
	if s != nil {
		in = *s
	}
	if !found {
		c.Min, c.Max = 1, 20
	}
	c.Min, c.Max = *cmp.Or(in.Min, &c.Min), *cmp.Or(in.Max, &c.Max)
	i := slices.IndexFunc(c.Policies, func(p scaling.Policy) bool { return p.Name == expressPolicy })
	c.Policies = slices.Clone(c.Policies)
	if i < 0 && (!found || in.Metric != "" || in.Target != nil) { // else a user has removed it
		i = len(c.Policies)
		c.Policies = append(c.Policies, scaling.Policy{Name: expressPolicy, Metric: scaling.CPU, Target: 60, OutCooldown: scaling.DefaultCooldown, InCooldown: scaling.DefaultCooldown})
	}
	if in.Metric != "" {
		c.Policies[i].Metric = expressMetrics[in.Metric]
	}
	if in.Target != nil {
		c.Policies[i].Target = float64(*in.Target)
	}
	if err := c.Check(); err != nil {
		return c, protocol.Invalidf("scalingTarget: %v", err)
	}
	return c, nil
}

// scale configures the scaling of a service.
func (o *expressOps) scale(ctx context.Context, name string, in *expressScaling) error {
	_, err := o.scaling.Configure(ctx, name, in.over)
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
	o.changing.Lock()
	defer o.changing.Unlock()
	s, ok, err := o.existing(in.ARN)
	switch {
	case err != nil:
		return nil, err
	case !ok || s.Status != service.Active:
		return nil, protocol.Failf("ServiceNotActiveException", "Service was not ACTIVE.")
	case o.domain == "":
		return nil, protocol.Failf(protocol.CodeUnsupported, "podtask does not do UpdateExpressGatewayService: %s", noDomain)
	}
	if kept["networkConfiguration"] != nil {
		if kept["networkConfiguration"], err = expressNetwork(kept); err != nil {
			return nil, err
		}
	}
	definition, addresses, err := o.target(ctx, s, in)
	if err != nil {
		return nil, err
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
		scaled, found, err := o.scaling.Get(s.Name)
		if err == nil {
			_, err = in.Scaling.over(scaled.Config, found)
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
	if err == nil && in.Definition == "" && made {
		in.Definition, _, err = o.register(ctx, s.Name, after, present)
	}
	return in.Definition, moved(s.Config.Ingress, before.Container.port(), after.Container.port()), err
}

// moved returns the addresses of a service, those of a port of the container Main with another port; nil if the port stays. A user may
// have given them a certificate and users, and added others.
func moved(present *[]taskdef.Ingress, from, to int) *[]taskdef.Ingress {
	if present == nil || from == to {
		return nil
	}
	all := slices.Clone(*present)
	for n, i := range all {
		if i.Container == expressMain && int(i.Port) == from {
			all[n].Port = uint16(to)
		}
	}
	return &all
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
	o.changing.Lock()
	defer o.changing.Unlock()
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
