package awsapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
	"github.com/podtask/podtask/internal/aws/awsapi/resource"
	"github.com/podtask/podtask/internal/define/catalog"
	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// definitions are the operations on task definitions.
type definitions struct {
	catalog *catalog.Catalog
	parser  Parser
	tasks   Tasks
	tags    *resource.TagStore
	now     func() time.Time
	// used reports whether a service uses a revision.
	used func(name string) bool
}

func (d *definitions) operations() []protocol.Operation {
	return []protocol.Operation{
		{Name: "RegisterTaskDefinition", Document: true, Serve: d.register},
		protocol.Define("DescribeTaskDefinition", protocol.Honor("taskDefinition!", "include=TAGS"), d.describe),
		protocol.Define("ListTaskDefinitions", protocol.Honor("familyPrefix", "status=ACTIVE|INACTIVE|DELETE_IN_PROGRESS", "sort=ASC|DESC", "maxResults", "nextToken"), d.list),
		protocol.Define("ListTaskDefinitionFamilies", protocol.Honor("familyPrefix", "status=ACTIVE|INACTIVE|ALL", "maxResults", "nextToken"), d.families),
		protocol.Define("DeregisterTaskDefinition", protocol.Honor("taskDefinition!"), d.deregister),
		protocol.Define("DeleteTaskDefinitions", protocol.Honor("taskDefinitions!"), d.delete),
	}
}

// noDirectory is what relative paths of a document would count from.
const noDirectory = ""

func (d *definitions) register(ctx context.Context, body []byte, _ protocol.Fields) (any, error) {
	r, err := d.add(ctx, "RegisterTaskDefinition", body)
	if err != nil {
		return nil, err
	}
	return d.answer(r, body, true)
}

// add registers a document. File is the operation that it is of.
func (d *definitions) add(ctx context.Context, file string, body []byte) (catalog.Revision, error) {
	doc, err := d.document(file, body)
	if err != nil {
		return catalog.Revision{}, err
	}
	return d.catalog.Add(ctx, doc, d.now())
}

// document checks a document.
func (d *definitions) document(file string, body []byte) (catalog.Document, error) {
	checked, err := d.parser.Check(body)
	return catalog.Document{Family: checked.Family, Digest: checked.Digest, File: file, Dir: noDirectory, Source: body}, err
}

// definitionAnswer is a task definition with its tags.
type definitionAnswer struct {
	Definition protocol.Fields `json:"taskDefinition"`
	Tags       []resource.Tag  `json:"tags,omitempty"`
}

// answer describes a revision.
func (d *definitions) answer(r catalog.Revision, source []byte, tags bool) (definitionAnswer, error) {
	var a definitionAnswer
	doc, made, err := documentOf(r, source)
	if err != nil {
		return a, err
	}
	a.Definition = doc
	if tags {
		a.Tags, err = d.tags.Of(arn.Definition(r.Family, r.Revision), made)
	}
	return a, err
}

// ecsMembers are the members of a task definition in answers.
var ecsMembers = []string{
	"containerDefinitions", "cpu", "enableFaultInjection", "ephemeralStorage", "executionRoleArn", "family", "inferenceAccelerators", "ipcMode",
	"memory", "networkMode", "pidMode", "placementConstraints", "proxyConfiguration", "requiresCompatibilities", "runtimePlatform", "taskRoleArn", "trustedExecutionConfiguration", "volumes",
}

// documentOf is a revision as ECS describes it: what was sent, and what ECS adds.
func documentOf(r catalog.Revision, source []byte) (doc protocol.Fields, tags []resource.Tag, err error) {
	data, err := taskdef.ToJSON(r.File, source)
	if err != nil {
		return nil, nil, protocol.Failf(protocol.CodeClient, "Unable to describe task definition.")
	}
	var sent protocol.Fields
	if err := json.Unmarshal(data, &sent); err != nil || sent["kind"] != nil && sent["apiVersion"] != nil {
		return nil, nil, protocol.Failf(protocol.CodeClient, "Unable to describe task definition. %s:%d is a Kubernetes manifest.", r.Family, r.Revision)
	}
	if inner := sent["taskDefinition"]; inner != nil {
		if err := json.Unmarshal(inner, &sent); err != nil {
			return nil, nil, protocol.Failf(protocol.CodeClient, "Unable to describe task definition.")
		}
	}
	_ = json.Unmarshal(sent["tags"], &tags) // tags were checked when it was registered
	doc = make(protocol.Fields)
	for _, name := range ecsMembers {
		if v := sent[name]; v != nil && string(v) != "null" {
			doc[name] = v
		}
	}
	add := func(name string, v any) {
		if doc[name] == nil {
			doc[name], _ = json.Marshal(v) // strings, numbers and lists of them
		}
	}
	add("family", r.Family)
	add("taskDefinitionArn", arn.Definition(r.Family, r.Revision))
	add("revision", r.Revision)
	add("status", r.Status)
	add("registeredAt", protocol.Moment(r.RegisteredAt))
	add("registeredBy", caller())
	if !r.DeregisteredAt.IsZero() {
		add("deregisteredAt", protocol.Moment(r.DeregisteredAt))
	}
	doc["volumes"] = describeVolumes(doc["volumes"])
	add("placementConstraints", []string{})
	add("requiresAttributes", []string{})
	add("compatibilities", []string{"EXTERNAL", "EC2", "FARGATE"})
	doc["containerDefinitions"], err = describeContainers(doc["containerDefinitions"], string(doc["networkMode"]))
	return doc, tags, err
}

// describeVolumes adds the root directory of file systems that name none, as ECS does.
func describeVolumes(sent json.RawMessage) json.RawMessage {
	var volumes []protocol.Fields
	if json.Unmarshal(sent, &volumes) != nil || len(volumes) == 0 {
		return json.RawMessage("[]")
	}
	for _, v := range volumes {
		var efs protocol.Fields
		if json.Unmarshal(v["efsVolumeConfiguration"], &efs) == nil && len(efs) > 0 && efs["rootDirectory"] == nil {
			efs["rootDirectory"] = json.RawMessage(`"/"`)
			v["efsVolumeConfiguration"], _ = json.Marshal(efs) // it was JSON
		}
	}
	all, _ := json.Marshal(volumes) // likewise
	return all
}

// describeContainers adds what ECS adds to each container.
func describeContainers(sent json.RawMessage, mode string) (json.RawMessage, error) {
	var containers []protocol.Fields
	if err := json.Unmarshal(sent, &containers); err != nil {
		return nil, protocol.Failf(protocol.CodeClient, "Unable to describe task definition.")
	}
	for _, c := range containers {
		for name, value := range map[string]string{"cpu": "0", "essential": "true", "environment": "[]", "mountPoints": "[]", "volumesFrom": "[]", "portMappings": "[]", "systemControls": "[]"} {
			if c[name] == nil || string(c[name]) == "null" {
				c[name] = json.RawMessage(value)
			}
		}
		for name := range c {
			if strings.HasPrefix(name, "x-") || string(c[name]) == "null" {
				delete(c, name)
			}
		}
		var err error
		if c["portMappings"], err = describePorts(c["portMappings"], mode); err != nil {
			return nil, err
		}
	}
	return json.Marshal(containers)
}

// describePorts adds protocol and host port.
func describePorts(sent json.RawMessage, mode string) (json.RawMessage, error) {
	var ports []protocol.Fields
	if err := json.Unmarshal(sent, &ports); err != nil {
		return nil, protocol.Failf(protocol.CodeClient, "Unable to describe task definition.")
	}
	for _, p := range ports {
		delete(p, "x-podtask")
		if p["protocol"] == nil {
			p["protocol"] = json.RawMessage(`"tcp"`)
		}
		if p["hostPort"] == nil && p["containerPort"] != nil {
			p["hostPort"] = json.RawMessage("0")
			if mode == `"awsvpc"` || mode == `"host"` {
				p["hostPort"] = p["containerPort"]
			}
		}
	}
	return json.Marshal(append([]protocol.Fields{}, ports...))
}

type definitionIn struct {
	TaskDefinition string   `json:"taskDefinition"`
	Include        []string `json:"include"`
}

// find returns a revision that is there. Without a number it is the highest active one.
func (d *definitions) find(path, text string) (catalog.Revision, []byte, error) {
	ref, err := definitionRef(path, text)
	if err != nil {
		return catalog.Revision{}, nil, err
	}
	r, source, err := d.catalog.Find(ref)
	if errors.Is(err, catalog.ErrNotFound) || err == nil && d.gone(r) {
		err = protocol.Failf(protocol.CodeClient, "Unable to describe task definition.")
	}
	return r, source, err
}

// findToRun is find with the words of ECS for requests that run a definition.
func (d *definitions) findToRun(text string) (catalog.Revision, []byte, error) {
	r, source, err := d.find("taskDefinition", text)
	if f, ok := errors.AsType[*protocol.Failure](err); ok && f.Code == protocol.CodeClient {
		err = protocol.Failf(protocol.CodeClient, "TaskDefinition not found.")
	}
	if err == nil && r.Status != catalog.Active {
		err = protocol.Failf(protocol.CodeClient, "TaskDefinition is inactive")
	}
	return r, source, err
}

func (d *definitions) describe(_ context.Context, in definitionIn, _ protocol.Fields) (any, error) {
	r, source, err := d.find("taskDefinition", in.TaskDefinition)
	if err != nil {
		return nil, err
	}
	return d.answer(r, source, slices.Contains(in.Include, "TAGS"))
}

func (d *definitions) deregister(ctx context.Context, in definitionIn, _ protocol.Fields) (any, error) {
	ref, err := definitionRef("taskDefinition", in.TaskDefinition)
	if err != nil {
		return nil, err
	}
	if ref.Revision == 0 {
		return nil, protocol.Invalidf("taskDefinition: %s has no revision: write FAMILY:REVISION", ref)
	}
	r, err := d.catalog.Deregister(ctx, ref, d.now())
	if errors.Is(err, catalog.ErrNotFound) {
		return nil, protocol.Failf(protocol.CodeClient, "The specified task definition does not exist.")
	}
	if err != nil {
		return nil, err
	}
	_, source, err := d.catalog.Find(ref)
	if err != nil {
		return nil, err
	}
	return d.answer(r, source, false)
}

// gone: the revision was deleted, and nothing uses it anymore.
func (d *definitions) gone(r catalog.Revision) bool {
	return r.Status == catalog.Deleting && !d.inUse(context.Background(), r)
}

// inUse reports whether a task that has not stopped, or a service, is of a revision.
func (d *definitions) inUse(ctx context.Context, r catalog.Revision) bool {
	return d.used(fmt.Sprintf("%s:%d", r.Family, r.Revision)) ||
		slices.ContainsFunc(d.tasks.States(ctx), func(s lifecycle.State) bool {
			return s.Task.Family == r.Family && s.Task.Revision == r.Revision && s.Status() != lifecycle.StatusStopped
		})
}

type deleteDefinitionsIn struct {
	TaskDefinitions []string `json:"taskDefinitions"`
}

func (d *definitions) delete(ctx context.Context, in deleteDefinitionsIn, _ protocol.Fields) (any, error) {
	if n := len(in.TaskDefinitions); n < 1 || n > 10 {
		return nil, protocol.Invalidf("taskDefinitions: %d is not 1 to 10", n)
	}
	answer := struct {
		Definitions []protocol.Fields  `json:"taskDefinitions"`
		Failures    []protocol.Problem `json:"failures"`
	}{[]protocol.Fields{}, []protocol.Problem{}}
	for _, text := range in.TaskDefinitions {
		ref, err := definitionRef("taskDefinitions", text)
		if err != nil || ref.Revision == 0 {
			answer.Failures = append(answer.Failures, protocol.Problem{ARN: protocol.Shortened(text), Reason: "The specified task definition identifier is invalid. Specify a valid name or ARN and try again."})
			continue
		}
		r, err := d.catalog.Delete(ctx, ref)
		switch {
		case errors.Is(err, catalog.ErrNotFound):
			answer.Failures = append(answer.Failures, protocol.Problem{ARN: text, Reason: "The specified task definition does not exist. Specify a valid account, family, revision and try again."})
			continue
		case errors.Is(err, catalog.ErrActive):
			answer.Failures = append(answer.Failures, protocol.Problem{ARN: text, Reason: "The specified task definition is still in ACTIVE status. Please deregister the target and try again."})
			continue
		case err != nil:
			return nil, err
		}
		_, source, err := d.catalog.Find(ref)
		if err != nil {
			return nil, err
		}
		doc, _, err := documentOf(r, source)
		if err != nil {
			return nil, err
		}
		answer.Definitions = append(answer.Definitions, doc)
	}
	return answer, nil
}

type listDefinitionsIn struct {
	protocol.Paging
	FamilyPrefix string `json:"familyPrefix"`
	Status       string `json:"status"`
	Sort         string `json:"sort"`
}

// listed are the revisions of a status; those that were deleted and are not used are in no
// list.
func (d *definitions) listed(in listDefinitionsIn, family func(string) bool) (revisions []catalog.Revision, err error) {
	all, err := d.catalog.List()
	for _, r := range all {
		if string(r.Status) == cmp.Or(in.Status, string(catalog.Active)) && family(r.Family) && !d.gone(r) {
			revisions = append(revisions, r)
		}
	}
	if len(all) > 0 {
		err = nil // families that cannot be read do not hide the others
	}
	return revisions, err
}

func (d *definitions) list(_ context.Context, in listDefinitionsIn, _ protocol.Fields) (any, error) {
	// ECS' familyPrefix is the full name of a family.
	revisions, err := d.listed(in, func(f string) bool { return in.FamilyPrefix == "" || f == in.FamilyPrefix })
	if err != nil {
		return nil, err
	}
	keys := make([]string, len(revisions))
	for i, r := range revisions {
		keys[i] = fmt.Sprintf("%s:%d", r.Family, r.Revision)
	}
	compare := compareRevisions
	if in.Sort == "DESC" {
		compare = func(a, b string) int { return compareRevisions(b, a) }
	}
	slices.SortFunc(keys, compare)
	some, next, err := protocol.Page("ListTaskDefinitions "+in.Sort+in.Status+in.FamilyPrefix, in.Paging, protocol.MaxPage, keys, compare)
	if err != nil {
		return nil, err
	}
	for i, name := range some {
		some[i] = arn.Make("task-definition", name)
	}
	return struct {
		ARNs []string `json:"taskDefinitionArns"`
		Next string   `json:"nextToken,omitempty"`
	}{some, next}, nil
}

// compareRevisions orders FAMILY:REVISION by family, then number.
func compareRevisions(a, b string) int {
	af, an, _ := strings.Cut(a, ":")
	bf, bn, _ := strings.Cut(b, ":")
	x, _ := strconv.Atoi(an)
	y, _ := strconv.Atoi(bn)
	return cmp.Or(strings.Compare(af, bf), cmp.Compare(x, y))
}

func (d *definitions) families(_ context.Context, in listDefinitionsIn, _ protocol.Fields) (any, error) {
	prefixed := func(f string) bool { return strings.HasPrefix(f, in.FamilyPrefix) }
	active, err := d.listed(listDefinitionsIn{}, prefixed)
	if err != nil {
		return nil, err
	}
	inactive, err := d.listed(listDefinitionsIn{Status: string(catalog.Inactive)}, prefixed)
	if err != nil {
		return nil, err
	}
	is, was := familiesOf(active), familiesOf(inactive)
	keys := is
	switch in.Status {
	case "INACTIVE":
		keys = slices.DeleteFunc(was, func(f string) bool { return slices.Contains(is, f) })
	case "ALL":
		keys = slices.Concat(is, was)
		slices.Sort(keys)
		keys = slices.Compact(keys)
	}
	some, next, err := protocol.Page("ListTaskDefinitionFamilies "+in.Status+in.FamilyPrefix, in.Paging, protocol.MaxPage, keys, strings.Compare)
	return struct {
		Families []string `json:"families"`
		Next     string   `json:"nextToken,omitempty"`
	}{some, next}, err
}

func familiesOf(revisions []catalog.Revision) (all []string) {
	for _, r := range revisions {
		all = append(all, r.Family)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// tagged implements tagging for task definitions.
func (d *definitions) tagged(text string) (string, []resource.Tag, error) {
	r, source, err := d.find("resourceArn", text)
	if err != nil {
		return "", nil, err
	}
	_, made, err := documentOf(r, source)
	return arn.Definition(r.Family, r.Revision), made, err
}
