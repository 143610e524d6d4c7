package libpod

import (
	"context"
	"errors"
	"slices"
	"strings"
)

// Labels that Podman and systemd act on.
const (
	autoUpdateLabel = "io.containers.autoupdate"
	unitLabel       = "PODMAN_SYSTEMD_UNIT"
)

// noAutoUpdate is the value of autoUpdateLabel with which podman auto-update leaves a
// container alone.
const noAutoUpdate = "disabled"

// reserved reports whether podtask, Podman, systemd or a client of ECS acts on a label. Podman
// gives a container the labels of its image, so a reserved label of an image must not reach one.
func reserved(key string) bool {
	return key == unitLabel || key == autoUpdateLabel || strings.HasPrefix(key, autoUpdateLabel+".") ||
		strings.HasPrefix(key, "podtask.") || strings.HasPrefix(key, "com.amazonaws.ecs.")
}

// shield adds to the labels of a container or pod those that keep reserved labels of its image
// away. A label cannot be removed, so those that have no other value become empty. They are no
// part of the digest in specLabel, so that objects of earlier versions are still recognized.
func shield(labels map[string]string, image []string) {
	if _, set := labels[autoUpdateLabel]; !set {
		labels[autoUpdateLabel] = noAutoUpdate
	}
	for _, key := range image {
		if _, set := labels[key]; !set {
			labels[key] = ""
		}
	}
}

// imageConfig holds the settings of an image that podtask has to know.
type imageConfig struct {
	user string
	// entryPoint is the program of the image; nil for none.
	entryPoint []string
	// reserved are the keys of the image's reserved labels.
	reserved []string
}

func configOf(user string, entryPoint []string, labels map[string]string) imageConfig {
	c := imageConfig{user: user, entryPoint: entryPoint}
	for key := range labels {
		if reserved(key) {
			c.reserved = append(c.reserved, key)
		}
	}
	slices.Sort(c.reserved)
	return c
}

// imageConfig returns the configuration of the container's image.
func (c *Client) imageConfig(ctx context.Context, s ContainerSpec) (imageConfig, error) {
	if s.Image == "" { // rejected later
		return imageConfig{}, nil
	}
	if known, found := c.images.Load(s.Image); found {
		return known.(imageConfig), nil
	}
	image, err := c.Image(ctx, s.Image)
	if err != nil {
		if e, ok := errors.AsType[*Error](err); ok && e.Class == NotFound {
			e.Op, e.Object, e.Class = "create container", s.Name, NoImage
		}
		return imageConfig{}, err
	}
	known, _ := c.images.Load(image.ID)
	return known.(imageConfig), nil
}
