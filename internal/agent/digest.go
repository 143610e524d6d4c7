package agent

import (
	"context"
	"slices"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Digest returns the digest that ref stands for now, asked as the pull behaviour
// of s says and with the credentials of its first container that has this image:
// where local copies are preferred, that of the local copy. It is empty for a
// local image that has none, and for a container that is not to be pinned.
func (r *Resolver) Digest(ctx context.Context, s lifecycle.State, ref string) (string, error) {
	i := slices.IndexFunc(s.Task.Containers, func(c taskdef.Container) bool { return c.Image == ref })
	if i < 0 {
		s.Task.Containers, i = []taskdef.Container{{Image: ref}}, 0
	}
	answer, err := r.Resolve(ctx, s, lifecycle.ResolveImage{Index: i, Ref: ref})
	return answer.Digest, err
}
