package foreign

import (
	"cmp"

	"github.com/podtask/podtask/internal/define/foreign/toolfile"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// Names of the documents of a live service, in messages.
const (
	LiveService    = "describe-services"
	LiveDefinition = "describe-task-definition"
)

// LiveRequest is a service as ECS describes it.
type LiveRequest struct {
	// Service and Definition are what DescribeServices and DescribeTaskDefinition answer, in JSON.
	Service, Definition []byte
	// Name is what the task family and the service are called here; empty takes the names in ECS.
	Name string
}

// DefinitionOf returns the ARN of the task definition of the service that DescribeServices answers. The error is an
// *Error.
func DefinitionOf(answer []byte) (string, error) {
	r := newLive()
	service := liveService(r, answer)
	if err := r.Err(); err != nil {
		return "", err
	}
	arn := toolfile.TextOf(service.Member("taskDefinition"))
	for _, d := range append(toolfile.Items(service.Member("deployments")), toolfile.Items(service.Member("taskSets"))...) {
		if toolfile.TextOf(d.Member("status")) == "PRIMARY" {
			arn = cmp.Or(arn, toolfile.TextOf(d.Member("taskDefinition")))
		}
	}
	if arn == "" {
		r.Wrong(service, "the service has no task definition", "")
	}
	return arn, r.Err()
}

func newLive() *toolfile.Reader {
	r := toolfile.NewReader(toolfile.Request{File: LiveService})
	r.Kind = "the answer of ECS"
	return r
}

// liveService returns the only service of an answer.
func liveService(r *toolfile.Reader, answer []byte) *doctree.Node {
	docs, ok := r.Parse(LiveService, answer)
	if !ok {
		return &doctree.Node{Kind: doctree.Object}
	}
	for _, f := range toolfile.Items(docs[0].Member("failures")) {
		r.Wrong(f, "there is no such service: ECS answers "+doctree.Quote(toolfile.TextOf(f.Member("reason")))+" for "+doctree.Quote(toolfile.TextOf(f.Member("arn"))), "check its name, --cluster, --region and --profile")
	}
	all := toolfile.Items(docs[0].Member("services"))
	if len(all) != 1 && len(r.Problems) == 0 {
		r.Wrong(docs[0], "the answer has no service", "check its name, --cluster, --region and --profile")
	}
	if len(all) != 1 {
		return &doctree.Node{Kind: doctree.Object}
	}
	if status := toolfile.TextOf(all[0].Member("status")); status == "INACTIVE" {
		r.Wrong(all[0], "the service is INACTIVE: it was deleted", "")
	}
	return all[0]
}

// Live makes a definition and a command line of a service as ECS describes it. The error is an *Error.
func Live(q LiveRequest) (toolfile.Result, error) {
	r := newLive()
	r.Name = q.Name
	res := toolfile.Result{Kind: "a service of ECS", Live: true, File: LiveService, Files: r.Files}
	service := liveService(r, q.Service)
	docs, ok := r.Parse(LiveDefinition, q.Definition)
	if !ok || r.Err() != nil {
		return res, r.Err()
	}
	def := r.UnwrapDefinition(docs[0])
	if def.Member("containerDefinitions") == nil {
		r.Wrong(def, "the answer has no task definition", "")
		return res, r.Err()
	}
	res.Name, res.Definition = cmp.Or(q.Name, toolfile.Plain(toolfile.TextOf(service.Member("serviceName")))), def
	r.AddService(&res, toolfile.OfNode(service), def)
	finish(r, &res)
	res.Lost = toolfile.InOrder(r.Losses)
	return res, r.Err()
}
