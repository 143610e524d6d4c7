package foreign

import (
	"cmp"

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
	service := r.liveService(answer)
	if err := r.err(); err != nil {
		return "", err
	}
	arn := textOf(service.Member("taskDefinition"))
	for _, d := range append(items(service.Member("deployments")), items(service.Member("taskSets"))...) {
		if textOf(d.Member("status")) == "PRIMARY" {
			arn = cmp.Or(arn, textOf(d.Member("taskDefinition")))
		}
	}
	if arn == "" {
		r.wrong(service, "the service has no task definition", "")
	}
	return arn, r.err()
}

func newLive() *reader {
	return &reader{Request: Request{File: LiveService}, kind: "the answer of ECS", files: map[*doctree.Node]string{}, needs: map[string]*need{}}
}

// liveService returns the only service of an answer.
func (r *reader) liveService(answer []byte) *doctree.Node {
	docs, ok := r.parse(LiveService, answer)
	if !ok {
		return &doctree.Node{Kind: doctree.Object}
	}
	for _, f := range items(docs[0].Member("failures")) {
		r.wrong(f, "there is no such service: ECS answers "+doctree.Quote(textOf(f.Member("reason")))+" for "+doctree.Quote(textOf(f.Member("arn"))), "check its name, --cluster, --region and --profile")
	}
	all := items(docs[0].Member("services"))
	if len(all) != 1 && len(r.problems) == 0 {
		r.wrong(docs[0], "the answer has no service", "check its name, --cluster, --region and --profile")
	}
	if len(all) != 1 {
		return &doctree.Node{Kind: doctree.Object}
	}
	if status := textOf(all[0].Member("status")); status == "INACTIVE" {
		r.wrong(all[0], "the service is INACTIVE: it was deleted", "")
	}
	return all[0]
}

// Live makes a definition and a command line of a service as ECS describes it. The error is an *Error.
func Live(q LiveRequest) (Result, error) {
	r := newLive()
	r.Name = q.Name
	res := Result{Kind: "a service of ECS", Live: true, file: LiveService, files: r.files}
	service := r.liveService(q.Service)
	docs, ok := r.parse(LiveDefinition, q.Definition)
	if !ok || r.err() != nil {
		return res, r.err()
	}
	def := r.unwrapDefinition(docs[0])
	if def.Member("containerDefinitions") == nil {
		r.wrong(def, "the answer has no task definition", "")
		return res, r.err()
	}
	res.Name, res.Definition = cmp.Or(q.Name, plain(textOf(service.Member("serviceName")))), def
	r.service(&res, ofNode(service), def)
	r.finish(&res)
	res.Lost = inOrder(r.lost)
	return res, r.err()
}
