package pod

import (
	"slices"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// vital are the fields without which there is no Pod.
var vital = []string{"apiVersion", "kind", "metadata", "spec", "containers", "name", "image"}

// leaveOut removes the fields that Options.Without names from a value of the Pod's spec at
// path, with a warning for each.
func (r *report) leaveOut(v value, path string) {
	for _, item := range v.items() {
		r.leaveOut(item, path)
	}
	if len(r.without) == 0 || v.node == nil || v.node.Kind != doctree.Object {
		return
	}
	kept := v.node.Fields[:0:0]
	for _, f := range v.node.Fields {
		below := strings.TrimPrefix(path+"."+f.Key, ".")
		if !f.Value.Empty() && !slices.Contains(vital, f.Key) && taskdef.LeftOut(r.without, below) {
			v.field(f).atKey(f).warn(f.Key+" is left out, as requested", "")
			continue
		}
		kept = append(kept, f)
		r.leaveOut(v.field(f), below)
	}
	v.node.Fields = kept
}
