package serve

import (
	"context"
	"strings"

	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"

	svc "github.com/podtask/podtask/pkg/service"
)

func checkAutoUpdate(auto string) error {
	switch auto {
	case "", api.NoAutoUpdate, svc.FromRegistry:
		return nil
	}
	return api.Failed(api.BadRequest, "autoUpdate: %q is neither %s nor %s", auto, svc.FromRegistry, api.NoAutoUpdate)
}

// Follow returns the spec of a service with the digests of its tags, if auto says that it is updated automatically. Before is
// the spec of now: where a registry does not answer, the digest stays.
func (k ServiceBackend) Follow(ctx context.Context, name, auto string, spec, before svc.Spec) (svc.Spec, error) {
	if err := checkAutoUpdate(auto); err != nil || auto != svc.FromRegistry {
		return spec, err
	}
	options, err := k.Controller.OptionsOf(spec)
	if err != nil {
		return spec, api.Failed(api.BadRequest, "%v", err)
	}
	options.Service, options.AutoUpdate = name, auto
	digests, failed := k.images.TakeTags(ctx, lifecycle.State{Task: spec.Task, Options: options})
	for _, c := range spec.Task.Containers {
		err, bad := failed[c.Name]
		switch {
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
