package service

import (
	"slices"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef"
)

// FromRegistry is the only policy of automatic updates: the service follows the tags of its images.
const FromRegistry = "registry"

// Tagged returns the task with the tags that it follows in place of their digests.
func (s Spec) Tagged() taskdef.Task {
	t := s.Task
	t.Containers = slices.Clone(t.Containers)
	for i, c := range t.Containers {
		if ref := s.Follows[c.Name]; ref != "" {
			t.Containers[i].Image = ref
		}
	}
	return t
}

// ImageOf returns the image of a container; empty if there is no such container.
func (s Spec) ImageOf(container string) string {
	for _, c := range s.Task.Containers {
		if c.Name == container {
			return c.Image
		}
	}
	return ""
}

// Pin returns the spec with digests in place of the tags of its images, by container. It follows those tags.
func (s Spec) Pin(digests map[string]string) Spec {
	s.Follows = map[string]string{}
	for _, c := range s.Task.Containers {
		if digests[c.Name] != "" {
			s.Follows[c.Name] = c.Image
		}
	}
	s.Task = pinned(s.Task, digests)
	if s.Numbered != nil {
		numbered := *s.Numbered
		numbered.Tasks = slices.Clone(numbered.Tasks)
		for i, t := range numbered.Tasks {
			numbered.Tasks[i] = pinned(t, digests)
		}
		s.Numbered = &numbered
	}
	return s
}

func pinned(t taskdef.Task, digests map[string]string) taskdef.Task {
	t.Containers = slices.Clone(t.Containers)
	for i, c := range t.Containers {
		if digest := digests[c.Name]; digest != "" {
			t.Containers[i].Image, t.Containers[i].Unpinned = c.Image+"@"+digest, false
		}
	}
	return t
}

// PinAs returns the spec with the digests of another one that follows the same tags.
func (s Spec) PinAs(other Spec) Spec {
	if len(other.Follows) == 0 {
		return s
	}
	digests := map[string]string{}
	for container := range other.Follows {
		_, digests[container], _ = strings.Cut(other.ImageOf(container), "@")
	}
	return s.Pin(digests)
}

// Rejected reports whether the service went back from an image of a container, because it failed or a user asked for it, as
// far as the history says. An image that was deployed successfully since then is not rejected.
func (s State) Rejected(container, image string) bool {
	for i := len(s.History) - 1; i >= 0; i-- {
		a := s.History[i]
		r, known := s.Revisions.of(a.Target.Deployment)
		if !known || !a.Ended() || !slices.Contains(r.Images, Image{container, image}) {
			continue
		}
		switch a.Status {
		case AttemptReturned, AttemptNotReturned:
			return true
		case AttemptSuccessful:
			return s.leftAfter(i, r)
		case AttemptStopped:
			if !strings.HasPrefix(a.Reason, replacedBy) {
				return true
			}
		}
	}
	return false
}

// leftAfter reports whether the attempt after one that succeeded went back to an earlier revision.
func (s State) leftAfter(i int, r Revision) bool {
	if i+1 >= len(s.History) {
		return false
	}
	next, known := s.Revisions.of(s.History[i+1].Target.Deployment)
	return known && next.CreatedAt.Before(r.CreatedAt)
}
