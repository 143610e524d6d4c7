package toolfile

import (
	"path"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// Stem is the name of the file without its directory and extensions.
func (r *Reader) Stem() string {
	base := path.Base(r.File)
	for _, ext := range []string{".json", ".yaml", ".yml", ".template"} {
		base = strings.TrimSuffix(base, ext)
	}
	if Plain(base) == "" {
		return "task"
	}
	return base
}

// ReadOnly are the members that DescribeTaskDefinition adds.
var ReadOnly = []string{"taskDefinitionArn", "revision", "status", "requiresAttributes", "compatibilities", "registeredAt", "registeredBy", "deregisteredAt", "deleteRequestedAt"}

// UnwrapDefinition returns a task definition without its wrapper and what is read-only.
func (r *Reader) UnwrapDefinition(n *doctree.Node) *doctree.Node {
	def := n
	if inner := n.Member("taskDefinition"); inner != nil && inner.Kind == doctree.Object {
		def = inner
		if tags := n.Member("tags"); tags != nil {
			Set(def, "tags", tags)
		}
	}
	for _, member := range ReadOnly {
		Remove(def, member)
	}
	return def
}

// UnwrapService returns a service without the wrapper of DescribeServices.
func UnwrapService(n *doctree.Node) *doctree.Node {
	if list := n.Member("services"); list != nil && len(list.Items) == 1 {
		return list.Items[0]
	}
	if inner := n.Member("service"); inner != nil && inner.Kind == doctree.Object {
		return inner
	}
	return n
}
