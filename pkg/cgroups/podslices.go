package cgroups

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// PodSlice is a slice that Podman has made for a pod without a slice of podtask's.
type PodSlice struct {
	Unit, PodID string
	// Since is the time at which it was started.
	Since time.Time
}

// podSlicePrefix begins the names of such slices (libpod, platformMakePod).
const podSlicePrefix = "user-libpod_pod_"

// PodSlices lists the slices of pods in Podman's default cgroup, of all tools.
func PodSlices(ctx context.Context, u *User) (found []PodSlice, err error) {
	units, err := u.conn.ListUnitsByPatternsContext(ctx, nil, []string{podSlicePrefix + "*" + sliceSuffix})
	if err != nil {
		return nil, fmt.Errorf("list slices of pods: %w", err)
	}
	for _, unit := range units {
		p, err := u.conn.GetUnitPropertyContext(ctx, unit.Name, "ActiveEnterTimestamp")
		if err != nil {
			return nil, fmt.Errorf("ask systemd about %s: %w", unit.Name, err)
		}
		since, _ := p.Value.Value().(uint64)
		id := strings.TrimSuffix(strings.TrimPrefix(unit.Name, podSlicePrefix), sliceSuffix)
		found = append(found, PodSlice{Unit: unit.Name, PodID: id, Since: time.UnixMicro(int64(since))})
	}
	return found, nil
}
