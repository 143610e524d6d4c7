package foreign

import "github.com/podtask/podtask/pkg/taskdef/doctree"

func isCopilotType(string) bool                         { return false }
func (r *reader) ecspresso([]*doctree.Node) []*workload { return nil }
func (r *reader) copilot([]*doctree.Node) []*workload   { return nil }
