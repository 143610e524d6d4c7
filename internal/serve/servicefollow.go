package serve

import (
	"context"
	"slices"
	"strings"

	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/images"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"

	svc "github.com/podtask/podtask/pkg/service"
)

func checkAutoUpdate(auto string) error {
	switch auto {
	case "", api.NoAutoUpdate, svc.FromRegistry:
		return nil
	}
	return api.Failed(api.BadRequest, "autoUpdate: %q is neither %s nor %s", auto, svc.FromRegistry, api.NoAutoUpdate)
}

// Follow returns the spec of a service with the digests of its tags, if the settings say that it is updated automatically: those of the
// settings, else those of the registries. Before is the spec of now: where a registry does not answer, the digest stays.
func (k ServiceBackend) Follow(ctx context.Context, name string, s api.ServiceSettings, spec, before svc.Spec) (svc.Spec, error) {
	if err := checkAutoUpdate(s.AutoUpdate); err != nil || s.AutoUpdate != svc.FromRegistry {
		return spec, err
	}
	options, err := k.Controller.OptionsOf(spec)
	if err != nil {
		return spec, api.Failed(api.BadRequest, "%v", err)
	}
	options.Service, options.AutoUpdate = name, s.AutoUpdate
	of := lifecycle.State{Task: spec.Task, Options: options}
	of.Task.Containers = slices.DeleteFunc(slices.Clone(spec.Task.Containers), func(c taskdef.Container) bool { return s.Digests[c.Image] != "" })
	digests, failed := k.images.TakeTags(ctx, of)
	for _, c := range spec.Task.Containers {
		err, bad := failed[c.Name]
		switch given := s.Digests[c.Image]; {
		case given != "":
			if ref, err := images.ParseRef(c.Image + "@" + given); err != nil || !ref.Pinned() {
				return spec, api.Failed(api.BadRequest, "digests: %s@%s is no image with a tag and a digest, such as sha256:...", c.Image, given)
			}
			digests[c.Name] = given
			if err := k.images.Allow(ctx, of, c.Image, given); err != nil {
				return spec, err
			}
		case bad && before.Follows[c.Name] == c.Image:
			_, digests[c.Name], _ = strings.Cut(before.ImageOf(c.Name), "@")
		case bad:
			return spec, api.Failed(api.Conflict, "container %s: %v", c.Name, err)
		}
	}
	if len(digests) == 0 {
		return spec, api.Failed(api.BadRequest, "autoUpdate: no image of the task has a tag of a registry, so there is nothing to follow: leave it out, or write NAME:TAG without a digest")
	}
	return spec.Pin(digests), nil
}
