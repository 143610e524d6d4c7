package awsapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
	"github.com/podtask/podtask/internal/aws/awsapi/resource"
	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/podtask/podtask/pkg/service"
	"slices"
	"strings"
)

// expressRevision has the settings of one revision of an Express service. They are stored in its task definition.
type expressRevision struct {
	CPU           string            `json:"cpu,omitempty"`
	Memory        string            `json:"memory,omitempty"`
	Architecture  string            `json:"cpuArchitecture,omitempty"`
	ExecutionRole string            `json:"executionRoleArn,omitempty"`
	TaskRole      string            `json:"taskRoleArn,omitempty"`
	HealthPath    string            `json:"healthCheckPath,omitempty"`
	Container     *expressContainer `json:"primaryContainer,omitempty"`
}

type expressContainer struct {
	Image string `json:"image"`
	expressShared
	Port int `json:"containerPort,omitempty"`
	Logs *struct {
		Group  string `json:"logGroup"`
		Prefix string `json:"logStreamPrefix"`
	} `json:"awsLogsConfiguration,omitempty"`
}

// expressShared are the members of a container that a task definition has in the same form.
type expressShared struct {
	Command     []string `json:"command,omitempty"`
	Environment []struct {
		Name  string  `json:"name"`
		Value *string `json:"value,omitempty"`
	} `json:"environment,omitempty"`
	Secrets []struct {
		Name string `json:"name"`
		From string `json:"valueFrom"`
	} `json:"secrets,omitempty"`
	Credentials *struct {
		Parameter string `json:"credentialsParameter,omitempty"`
	} `json:"repositoryCredentials,omitempty"`
}

// port returns the port, which is ECS's default if it is not given; 0 without a container.
func (c *expressContainer) port() int {
	if c == nil {
		return 0
	}
	return cmp.Or(c.Port, 80)
}

// over returns the revision with what is missing taken from an earlier one.
func (r expressRevision) over(before expressRevision) expressRevision {
	r.CPU, r.Memory, r.Architecture = cmp.Or(r.CPU, before.CPU), cmp.Or(r.Memory, before.Memory), cmp.Or(r.Architecture, before.Architecture)
	r.ExecutionRole, r.TaskRole, r.HealthPath = cmp.Or(r.ExecutionRole, before.ExecutionRole), cmp.Or(r.TaskRole, before.TaskRole), cmp.Or(r.HealthPath, before.HealthPath)
	r.Container = cmp.Or(r.Container, before.Container)
	return r
}

// expressDefaults are ECS's.
var expressDefaults = expressRevision{CPU: "256", Memory: "512", HealthPath: "/ping"}

// expressDocument is the task definition of a revision.
type expressDocument struct {
	Family        string              `json:"family"`
	NetworkMode   string              `json:"networkMode"`
	Compatible    []string            `json:"requiresCompatibilities"`
	CPU           string              `json:"cpu"`
	Memory        string              `json:"memory"`
	Platform      *expressPlatform    `json:"runtimePlatform,omitempty"`
	ExecutionRole string              `json:"executionRoleArn,omitempty"`
	TaskRole      string              `json:"taskRoleArn,omitempty"`
	Containers    []expressDefinition `json:"containerDefinitions"`
}

type expressPlatform struct {
	Architecture string `json:"cpuArchitecture"`
	Family       string `json:"operatingSystemFamily"`
}

type expressDefinition struct {
	Name  string `json:"name"`
	Image string `json:"image"`
	expressShared
	Ports      []expressPort      `json:"portMappings"`
	Logs       *expressLogs       `json:"logConfiguration,omitempty"`
	Extensions *expressExtensions `json:"x-podtask,omitempty"`
}

type expressPort struct {
	Port int    `json:"containerPort"`
	Name string `json:"name"`
}

type expressLogs struct {
	Driver  string            `json:"logDriver"`
	Options map[string]string `json:"options"`
}

type expressExtensions struct {
	Health string `json:"httpHealthCheck"`
}

// source returns the task definition as it is registered.
func (r expressRevision) source(family string) ([]byte, error) {
	c, port := r.Container, r.Container.port()
	d := expressDefinition{
		Name: expressMain, Image: c.Image, expressShared: c.expressShared, Ports: []expressPort{{port, "main"}},
		Extensions: &expressExtensions{fmt.Sprintf("http://localhost:%d%s", port, r.HealthPath)},
	}
	if c.Logs != nil {
		d.Logs = &expressLogs{"awslogs", map[string]string{"awslogs-group": c.Logs.Group, "awslogs-stream-prefix": c.Logs.Prefix, "awslogs-region": arn.Region()}}
	}
	doc := expressDocument{family, "awsvpc", []string{fargate}, r.CPU, r.Memory, nil, r.ExecutionRole, r.TaskRole, []expressDefinition{d}}
	if r.Architecture != "" {
		doc.Platform = &expressPlatform{r.Architecture, "LINUX"}
	}
	return json.Marshal(doc)
}

// expressRevisionOf reads a revision from its task definition, also from one that a client has registered.
func expressRevisionOf(source []byte) (r expressRevision, err error) {
	var doc expressDocument
	if err := json.Unmarshal(source, &doc); err != nil {
		return r, protocol.Invalidf("taskDefinitionArn: the task definition does not have the form of ECS: %v", err)
	}
	r = expressRevision{CPU: doc.CPU, Memory: doc.Memory, ExecutionRole: doc.ExecutionRole, TaskRole: doc.TaskRole}
	if doc.Platform != nil {
		r.Architecture = doc.Platform.Architecture
	}
	i := slices.IndexFunc(doc.Containers, func(c expressDefinition) bool { return c.Name == expressMain })
	if i < 0 || len(doc.Containers[i].Ports) != 1 {
		return r, protocol.Invalidf("taskDefinitionArn: the task definition must have a container %s with one port", expressMain)
	}
	d := doc.Containers[i]
	r.Container = &expressContainer{Image: d.Image, expressShared: d.expressShared, Port: d.Ports[0].Port}
	if d.Extensions != nil && d.Extensions.Health != "" {
		_, path, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(d.Extensions.Health, "https://"), "http://"), "/")
		r.HealthPath = "/" + path
	}
	if d.Logs != nil && d.Logs.Driver == "awslogs" {
		logs, _ := json.Marshal(map[string]string{"logGroup": d.Logs.Options["awslogs-group"], "logStreamPrefix": d.Logs.Options["awslogs-stream-prefix"]}) // strings
		err = json.Unmarshal(logs, &r.Container.Logs)
	}
	return r, err
}

type expressAnswer struct {
	Service expressDoc `json:"service"`
}

// expressDoc is an Express service in answers.
type expressDoc struct {
	ARN     string                `json:"serviceArn"`
	Name    string                `json:"serviceName"`
	Cluster string                `json:"cluster"`
	Status  map[string]string     `json:"status"`
	Role    string                `json:"infrastructureRoleArn,omitempty"`
	Current string                `json:"currentDeployment,omitempty"`
	Active  []*expressRevisionDoc `json:"activeConfigurations,omitempty"`
	Target  *expressRevisionDoc   `json:"targetConfiguration,omitempty"`
	Created protocol.Moment       `json:"createdAt"`
	Updated protocol.Moment       `json:"updatedAt"`
	Tags    []resource.Tag        `json:"tags,omitempty"`
}

type expressRevisionDoc struct {
	expressRevision
	ARN        string              `json:"serviceRevisionArn"`
	Definition string              `json:"taskDefinitionArn"`
	Created    protocol.Moment     `json:"createdAt"`
	Network    json.RawMessage     `json:"networkConfiguration,omitempty"`
	Scaling    *expressScaling     `json:"scalingTarget,omitempty"`
	Paths      []map[string]string `json:"ingressPaths"`
}

func (o *expressOps) answer(s service.State, tags bool) (any, error) {
	doc, err := o.document(s, tags)
	return expressAnswer{doc}, err
}

func (o *expressOps) document(s service.State, tags bool) (doc expressDoc, err error) {
	cluster, c := clusterOfService(s), serviceClientOf(s.Config)
	doc = expressDoc{
		ARN: arn.Service(cluster, s.Name), Name: s.Name, Cluster: cluster, Status: map[string]string{"statusCode": string(s.Status)},
		Created: protocol.Moment(s.CreatedAt), Updated: protocol.Moment(s.Primary().UpdatedAt),
	}
	_ = json.Unmarshal(c.Kept[roleMember], &doc.Role) // it was a string
	if n := len(s.History); n > 0 {
		doc.Current = serviceDeploymentARN(s, s.History[n-1])
	}
	if tags {
		if doc.Tags, err = o.tags.Of(doc.ARN, c.Tags); err != nil {
			return doc, err
		}
	}
	if s.Status == inactive {
		return doc, nil
	}
	for _, d := range s.Deployments {
		one, err := o.configuration(s, d)
		if err != nil {
			return doc, err
		}
		doc.Active = append(doc.Active, one)
	}
	return doc, nil
}

// configuration describes a revision of a service.
func (o *expressOps) configuration(s service.State, d service.Deployment) (*expressRevisionDoc, error) {
	doc := &expressRevisionDoc{ARN: revisionARN(s, d.ID), Definition: arn.Make("task-definition", d.TaskDefinition), Created: protocol.Moment(d.CreatedAt), Paths: []map[string]string{}}
	// Another command may have given the service a definition without the container Main: the answer names it, and no more.
	doc.expressRevision, _, _, _ = o.revision(d.TaskDefinition)
	var network struct {
		Config json.RawMessage `json:"awsvpcConfiguration"`
	}
	_ = json.Unmarshal(serviceClientOf(s.Config).Kept["networkConfiguration"], &network) // it was checked
	doc.Network = network.Config
	if s.Config.Ingress != nil {
		for _, i := range *s.Config.Ingress {
			doc.Paths = append(doc.Paths, map[string]string{"accessType": "PUBLIC", "endpoint": i.URL})
		}
	}
	scaled, found, err := o.scaling.Get(s.Name)
	if err != nil || !found {
		return doc, err
	}
	doc.Scaling = &expressScaling{Min: &scaled.Config.Min, Max: &scaled.Config.Max}
	for _, p := range scaled.Config.Policies {
		for name, metric := range expressMetrics {
			if p.Name == expressPolicy && p.Metric == metric {
				target := int(p.Target)
				doc.Scaling.Metric, doc.Scaling.Target = name, &target
			}
		}
	}
	return doc, nil
}
