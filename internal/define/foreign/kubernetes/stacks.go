package kubernetes

import (
	"maps"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/define/foreign/toolfile"
	"github.com/podtask/podtask/pkg/taskdef"
)

// ServesNobody takes out the losses of Ingresses that lead to another workload.
func ServesNobody(all []toolfile.Result) {
	count := map[string]int{}
	for _, r := range all {
		for _, l := range r.Lost {
			count[l.Message]++
		}
	}
	for i := range all {
		all[i].Lost = slices.DeleteFunc(all[i].Lost, func(l taskdef.Problem) bool {
			return strings.HasSuffix(l.Message, leadsNowhere) && count[l.Message] < len(all)
		})
	}
}

// HooksAfter puts the hooks of Helm in their order: all members wait for the jobs before an installation or upgrade, and those after it
// wait for all members.
func HooksAfter(all []toolfile.Result) {
	before, rest := map[string]bool{}, map[string]string{}
	for _, r := range all {
		switch {
		case strings.Contains(r.Stack.Hook, "pre-"):
			before[r.Stack.Member] = true
		case r.Stack.Hook == "" && r.Schedules == nil:
			rest[r.Stack.Member] = "healthy"
			if r.Stack.Job {
				rest[r.Stack.Member] = "completed"
			}
		}
	}
	for i := range all {
		s := &all[i].Stack
		switch {
		case s.Hook == "":
			for _, name := range slices.Sorted(maps.Keys(before)) {
				s.After = append(s.After, name+"=completed")
			}
		case !before[s.Member]:
			for _, name := range slices.Sorted(maps.Keys(rest)) {
				s.After = append(s.After, name+"="+rest[name])
			}
		}
	}
}
