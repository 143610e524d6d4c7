package enginetest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/podtask/podtask/pkg/libpod"
)

// EnsureNetwork implements Podman.
func (f *Fake) EnsureNetwork(ctx context.Context, n libpod.NetworkSpec) error {
	_, err := request(ctx, f, "create network", n.Name, func() (struct{}, error) {
		switch {
		case n.TaskID == "":
			return struct{}{}, refusal(libpod.InvalidSpec, "a task ID is required")
		case f.networks[n.Name] != nil:
			return struct{}{}, refusal(libpod.Conflict, "network already exists")
		}
		f.networks[n.Name] = &n
		return struct{}{}, nil
	})
	if !errors.Is(err, libpod.Conflict) {
		return err
	}
	_, err = request(ctx, f, "adopt network", n.Name, func() (struct{}, error) {
		if found := f.networks[n.Name]; found != nil {
			return struct{}{}, owned(found.TaskID, n.TaskID)
		}
		return struct{}{}, refusal(libpod.Temporary, "it has just been removed")
	})
	return err
}

// RemoveNetwork implements Podman.
func (f *Fake) RemoveNetwork(ctx context.Context, name, taskID string) error {
	_, err := request(ctx, f, "remove network", name, func() (struct{}, error) {
		n := f.networks[name]
		if n == nil {
			return struct{}{}, nil
		}
		if err := owned(n.TaskID, taskID); err != nil {
			return struct{}{}, err
		}
		for _, c := range f.containers {
			if c.spec.Bridge != nil && c.spec.Bridge.Network == name {
				return struct{}{}, refusal(libpod.Temporary, "%q has associated containers with it: network is being used", name)
			}
		}
		delete(f.networks, name)
		return struct{}{}, nil
	})
	return err
}

func (f *Fake) listNetworks() (found []libpod.Found) {
	for name, n := range f.networks {
		labels := maps.Clone(n.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		labels[libpod.TaskLabel] = n.TaskID
		found = append(found, libpod.Found{Kind: libpod.KindNetwork, Name: name, TaskID: n.TaskID, Labels: labels})
	}
	slices.SortFunc(found, func(a, b libpod.Found) int { return strings.Compare(a.Name, b.Name) })
	return found
}
