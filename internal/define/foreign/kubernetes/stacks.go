package kubernetes

import (
	"maps"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/define/foreign/toolfile"
	"github.com/podtask/podtask/pkg/taskdef"
)

// ServesNobody takes out the losses of Ingresses and Services that lead to another workload.
func ServesNobody(all []toolfile.Result) {
	count := map[string]int{}
	for _, r := range all {
		for _, l := range r.Lost {
			count[l.Message]++
		}
	}
	for i := range all {
		all[i].Lost = slices.DeleteFunc(all[i].Lost, func(l taskdef.Problem) bool {
			return (strings.HasSuffix(l.Message, leadsNowhere) || strings.HasSuffix(l.Message, selectsNobody)) && count[l.Message] < len(all)
		})
	}
}

// runsAt reports whether Helm runs a hook at one of some times. A hook may have several.
func runsAt(hook string, times ...string) bool {
	return slices.ContainsFunc(strings.Split(hook, ","), func(at string) bool { return slices.Contains(times, strings.TrimSpace(at)) })
}

// HooksAfter puts the hooks of Helm in their order: all members wait for the jobs before an installation or upgrade, and those after it
// wait for all members. A hook waits for those at the same time that have a lower weight.
func HooksAfter(all []toolfile.Result) {
	before, rest := map[string]bool{}, map[string]string{}
	for _, r := range all {
		switch {
		case runsAt(r.Stack.Hook, "pre-install", "pre-upgrade"):
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
		for _, r := range all {
			if o := r.Stack; s.Hook != "" && o.Hook != "" && before[o.Member] == before[s.Member] && o.HookWeight < s.HookWeight {
				s.After = append(s.After, o.Member+"=completed")
			}
		}
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
