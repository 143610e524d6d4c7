package ownerapi

import (
	"fmt"
	"slices"

	"github.com/docker/go-units"

	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/images"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Pulls knows the pulls in progress of this process.
type Pulls interface {
	// Standing returns how far the pull of an image is, by its normalized name; ok is false if there is none.
	Standing(image string) (s imagestore.Standing, ok bool)
}

// WithPulls says in the reasons of a task how much has come of the images that this process is pulling for it, and which
// wait for other pulls.
func WithPulls(t api.Task, pulls Pulls, s lifecycle.State) api.Task {
	cloned := false
	for i := range s.Containers {
		def := s.Task.Containers[i]
		ref, err := images.ParseRef(def.Image)
		if err != nil || s.Containers[i].Op.Kind != lifecycle.Pull || !s.Containers[i].Op.Busy() {
			continue
		}
		standing, ok := pulls.Standing(ref.String())
		n := slices.IndexFunc(t.Why, func(r api.Reason) bool {
			return r.Code == lifecycle.WhyOperation && r.Container == def.Name
		})
		if !ok || n < 0 {
			continue
		}
		if !cloned {
			t.Why, cloned = slices.Clone(t.Why), true
		}
		switch r := &t.Why[n]; {
		case standing.Phase == imagestore.Waiting:
			r.Text = fmt.Sprintf("the pull of %s for %s begins when another pull has ended", def.Image, def.Name)
		case standing.Total > 0:
			r.Text += fmt.Sprintf(", %s of %s have come", size(standing.Bytes), size(standing.Total))
		}
	}
	return t
}

// size formats a number of bytes as progress on a terminal does.
func size(bytes int64) string {
	return units.CustomSize("%.3g %s", float64(bytes), 1000, []string{"B", "kB", "MB", "GB", "TB"})
}
