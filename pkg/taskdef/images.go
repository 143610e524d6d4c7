package taskdef

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef/logdriver"
	"github.com/podtask/podtask/pkg/taskdef/suggest"
)

// Images returns the images of all containers and of the volumes that are images, as the document has them,
// each once and in its order.
func (t Task) Images() []string {
	var all []string
	add := func(image string) {
		if image != "" && !slices.Contains(all, image) {
			all = append(all, image)
		}
	}
	for _, c := range t.Containers {
		add(c.Image)
		for _, m := range c.Extensions.Kube.Images {
			add(m.Image)
		}
	}
	return all
}

// replaceImages replaces images. A container whose image has a digest afterwards runs that digest, whatever its
// versionConsistency says. It writes to t.Containers, which must be t's own.
func replaceImages(t Task, images map[string]string) {
	for i := range t.Containers {
		c := &t.Containers[i]
		if image, ok := images[c.Image]; ok {
			c.Image, c.Unpinned = image, false
		}
		mounts := slices.Clone(c.Extensions.Kube.Images)
		for j, m := range mounts {
			if image, ok := images[m.Image]; ok {
				mounts[j].Image = image
			}
		}
		c.Extensions.Kube.Images = mounts
	}
}

// leaveOutContainers removes containers, with the dependencies, links and shared volumes of others that name
// them. Others whose output a removed container would have routed keep it on this host.
func leaveOutContainers(t *Task, names []string) error {
	if err := t.CheckLeaveOut(names); err != nil {
		return err
	}
	index := make([]int, len(t.Containers)) // of each container afterwards; -1 if it is left out
	var kept []Container
	routers := false
	for i, c := range t.Containers {
		if slices.Contains(names, c.Name) {
			index[i] = -1
			routers = routers || c.FireLens != nil
			continue
		}
		index[i] = len(kept)
		kept = append(kept, c)
	}
	for i := range kept {
		c := &kept[i]
		c.DependsOn = moved(c.DependsOn, index, func(d *Dependency) *int { return &d.Container })
		c.Net.Links = moved(c.Net.Links, index, func(l *Link) *int { return &l.Container })
		c.VolumesFrom = moved(c.VolumesFrom, index, func(v *VolumesFrom) *int { return &v.Container })
		if routers && c.Log != nil && c.Log.Driver == logdriver.FireLens {
			c.Log = nil
		}
	}
	t.Containers = kept
	return nil
}

// replaceContainers replaces containers. Dependents wait for the start of one that has no health check, if they
// waited for its health; those whose output a replaced log router would have routed keep it on this host. It
// writes to t.Containers, which must be t's own.
func replaceContainers(t Task, by map[string]Container) {
	for i, was := range t.Containers {
		c, ok := by[was.Name]
		if !ok {
			continue
		}
		c.Name, c.Essential, c.Ports, c.StopTimeout, c.DependsOn = was.Name, was.Essential, was.Ports, was.StopTimeout, was.DependsOn
		c.Net.Hostname, c.Net.Links = was.Net.Hostname, was.Net.Links
		t.Containers[i] = c
		for j := range t.Containers {
			other := &t.Containers[j]
			other.DependsOn = slices.Clone(other.DependsOn)
			for k, d := range other.DependsOn {
				if d.Container == i && d.Condition == Healthy && !c.HasHealth() {
					other.DependsOn[k].Condition = Start
				}
			}
			if was.FireLens != nil && other.Log != nil && other.Log.Driver == logdriver.FireLens {
				other.Log = nil
			}
		}
	}
}

// moved returns the items whose container is kept, with its new index.
func moved[T any](items []T, index []int, container func(*T) *int) []T {
	var kept []T
	for _, item := range items {
		at := container(&item)
		if *at = index[*at]; *at >= 0 {
			kept = append(kept, item)
		}
	}
	return kept
}

// CheckLeaveOut returns an *InvalidError if the task cannot do without containers of these names.
func (t Task) CheckLeaveOut(names []string) error {
	if len(names) == 0 {
		return nil
	}
	var all []string
	for _, c := range t.Containers {
		all = append(all, c.Name)
	}
	var wrong []Problem
	for _, name := range names {
		if !slices.Contains(all, name) {
			wrong = append(wrong, Problem{Message: fmt.Sprintf("no container %s is here to leave out", quote(name)), Fix: cmp.Or(suggest.Question(name, all), "the containers are "+strings.Join(all, ", "))})
		}
	}
	if len(wrong) == 0 && !slices.ContainsFunc(t.Containers, func(c Container) bool { return c.Essential && !slices.Contains(names, c.Name) }) {
		wrong = append(wrong, Problem{Message: "without " + strings.Join(names, ", ") + " no essential container is left", Fix: "leave out sidecars only"})
	}
	if len(wrong) > 0 {
		return &InvalidError{Name: t.Family, Problems: wrong}
	}
	return nil
}
