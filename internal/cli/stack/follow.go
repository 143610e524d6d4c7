package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/internal/engine/decide/stack"
	"github.com/podtask/podtask/internal/engine/run/stacks"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/service"
)

// follows reports whether podtask auto-update updates a member. Then a digest does not tell it from another member: a change of the stack
// leaves its images as they are.
func (m *member) follows() bool {
	return m.Settings != nil && m.Kind == stack.Service && m.Settings.AutoUpdate == service.FromRegistry
}

// checkFollowing returns what is wrong with the automatic updates of a member.
func (k call) checkFollowing(m *member) error {
	switch {
	case m.Settings != nil && !slices.Contains([]string{"", api.NoAutoUpdate, service.FromRegistry}, m.Settings.AutoUpdate):
		return fmt.Errorf("auto-update is %s or %s, not %q", service.FromRegistry, api.NoAutoUpdate, m.Settings.AutoUpdate)
	case !m.follows():
		return nil
	case k.c.String("lock") != "" || k.c.String("locked") != "":
		return errors.New("auto-update follows tags, and a lockfile has digests: leave one of them out")
	case !slices.ContainsFunc(m.task.Images(), func(image string) bool { _, is := imagestore.ImageOf(image); return is }):
		return errors.New("auto-update: no image has a tag of a registry, so there is nothing to follow: leave it out, or write NAME:TAG without a digest")
	}
	return nil
}

// requestOf returns what the agent was asked for a service.
func requestOf(m stack.Member) (n api.NewService, err error) {
	err = json.Unmarshal(m.Request, &n)
	return n, err
}

// adopt writes down which images automatic updates have given to members of the present revision, so that a change that is put back does not
// put them back too. It returns what was updated, by member.
func (k call) adopt(ctx context.Context, s *stack.State) (updated map[string][]string, err error) {
	updated = map[string][]string{}
	s.Current.Members = slices.Clone(s.Current.Members)
	for i, m := range s.Current.Members {
		if n, err := requestOf(m); err != nil || m.Kind != stack.Service || n.AutoUpdate != service.FromRegistry {
			continue
		}
		now, err := k.agent.Service(ctx, m.Object)
		switch {
		case api.Is(err, api.NotFound), err == nil && !stacks.Owns(s.Have[m.Name], now):
			continue
		case err != nil:
			return nil, err
		}
		images := maps.Clone(m.Images)
		for _, image := range slices.Sorted(maps.Keys(images)) {
			ref, digest, _ := strings.Cut(images[image], "@")
			if now := now.Digests[image]; now != "" && now != digest {
				images[image] = ref + "@" + now
				updated[m.Name] = append(updated[m.Name], fmt.Sprintf("%s was updated automatically: %s → %s", image, shortRun(m.Images[image]), shortRun(images[image])))
			}
		}
		s.Current.Members[i].Images = images
	}
	return updated, nil
}

// follow gives members that are updated automatically the images that they run, and says what was updated and what waits for an update.
func (w *wanted) follow(current stack.Revision, updated map[string][]string) {
	for _, m := range w.Members {
		was := current.Find(m.Name)
		if !m.follows() || was == nil {
			continue
		}
		m.Notes = append(m.Notes, updated[m.Name]...)
		for _, image := range slices.Sorted(maps.Keys(m.Images)) {
			if had := was.Images[image]; had != "" && had != m.Images[image] {
				m.Notes = append(m.Notes, fmt.Sprintf("%s has another image now, %s: `podtask auto-update` deploys it", image, shortRun(m.Images[image])))
				m.Images[image] = had
			}
		}
	}
}
