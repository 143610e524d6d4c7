package pod

import (
	"slices"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// vital are the fields without which there is no Pod.
var vital = []string{"apiVersion", "kind", "metadata", "spec", "containers", "name", "image"}

// CheckWithout returns an error for a name that stands for no field of a Pod and that
// taskdef.CheckWithout refuses.
func CheckWithout(name string) error {
	err := taskdef.CheckWithout(name)
	field := name[strings.LastIndexByte(name, '.')+1:]
	if err == nil || slices.Contains(vital, field) {
		return err
	}
	for _, r := range rules {
		if _, member, _ := strings.Cut(r.member, "."); member == field {
			return nil
		}
	}
	return err
}

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
