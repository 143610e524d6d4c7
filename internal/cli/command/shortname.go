package command

import (
	"slices"

	"github.com/podtask/podtask/pkg/images"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// WarnShort warns of a reference without a registry, and names the image that is used: a locally built one,
// as in Podman, else one of Docker Hub, as in ECS.
func WarnShort(warn func(string, ...any), ref string) {
	r, err := images.ParseRef(ref)
	if err != nil {
		return
	}
	if built, short := r.Built(); short {
		warn("image %q names no registry: podtask takes %s, or %s if it exists here; write the full name to be sure", ref, r, built)
	}
}

// WarnShortNames warns for each image of a task that names no registry, unless images
// are never pulled.
func WarnShortNames(warn func(string, ...any), t taskdef.Task, o lifecycle.Options) {
	if o.Pull == lifecycle.PullNever {
		return
	}
	var seen []string
	for _, c := range t.Containers {
		r, err := images.ParseRef(c.Image)
		if err == nil && r.Short() && !slices.Contains(seen, c.Image) {
			seen = append(seen, c.Image)
			WarnShort(warn, c.Image)
		}
	}
}
