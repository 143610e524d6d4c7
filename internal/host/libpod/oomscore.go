package libpod

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// oomScoreAdj is the oom_score_adj that Podman is to give a container; nil for that of Podman. A process without root only
// gets values above its own, and crun fails where it may not set one. Podman 5 raises a value to its own at each start. For Podman 4,
// which may not, it is compared with that of the infra container, which has Podman's; the highest value is always possible.
func (c *Client) oomScoreAdj(ctx context.Context, s ContainerSpec) *int {
	if s.OOMScoreAdj == 0 {
		return nil
	}
	least, known := OOMScoreAdj(os.Getpid())
	raised := c.version.Major >= 5
	if !raised && s.OOMScoreAdj < highestOOMScore {
		known = false
		if infra, err := c.InspectContainer(ctx, InfraName(s.Pod)); err == nil && infra.PID > 0 {
			least, known = OOMScoreAdj(infra.PID)
		}
	}
	return settable(s.OOMScoreAdj, least, known, raised)
}

// settable is an oom_score_adj if Podman can set it: least is Podman's own, if that is known, and raised says whether Podman raises
// a lower value to it.
func settable(want, least int, known, raised bool) *int {
	if known && want <= least || !known && !raised && want < highestOOMScore {
		return nil
	}
	return &want
}

const highestOOMScore = 1000

// OOMScoreAdj returns the oom_score_adj of a process; false if it cannot be read.
func OOMScoreAdj(pid int) (int, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid))
	if err != nil {
		return 0, false
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	return n, err == nil
}
