package doctor

import (
	"cmp"
	"context"
	"strings"

	"github.com/podtask/podtask/pkg/cgroups"
)

func checkCgroups(_ context.Context, h Host) Finding {
	switch c := h.cgroups(); {
	case c.Version == cgroups.NoGroup:
		return warn("mount cgroup2 at /sys/fs/cgroup", "no cgroups are mounted: limits are not available")
	case c.Version != cgroups.V2:
		return warn("boot with systemd.unified_cgroup_hierarchy=1", "the cgroup layout is %s: limits require v2", c.Version)
	case h.Podman != nil && h.Podman.CgroupManager != "systemd":
		return warn(`set cgroup_manager = "systemd" in containers.conf`, "Podman's cgroup manager is %s, which applies no limits to rootless containers", h.Podman.CgroupManager)
	}
	return ok("cgroup v2")
}

func checkUserManager(_ context.Context, h Host) Finding {
	if h.ManagerError != nil {
		why, _, _ := strings.Cut(h.ManagerError.Error(), "; ") // the rest repeats the fix
		return warn("log in with ssh or 'machinectl shell', or as root run 'loginctl enable-linger "+LingerUser(h.User, h.UID)+"'",
			"limits are off, and detached tasks run as plain processes: %s", why)
	}
	return ok("the systemd user manager answers")
}

// allLimits are the limits that tasks commonly set; io is left out, because few hosts
// delegate it.
var allLimits = cgroups.Limits{CPU: 1, Memory: 1, TasksMax: 1}

func checkDelegation(_ context.Context, h Host) Finding {
	c := h.cgroups()
	if why := c.ReasonFor(allLimits); why != "" {
		text, fix, _ := strings.Cut(why, "; ")
		return warn(fix, "%s", text)
	}
	return ok("the controllers %s are delegated", strings.Join(c.Controllers, ", "))
}

func checkPorts(_ context.Context, h Host) Finding {
	start, found := h.read("/proc/sys/net/ipv4/ip_unprivileged_port_start")
	if !found || start == "0" {
		return ok("any host port may be published")
	}
	return Finding{Level: OK, Text: "host ports from " + start + " may be published", Fix: "for lower ones: sysctl -w net.ipv4.ip_unprivileged_port_start=80"}
}

func checkSecurity(_ context.Context, h Host) Finding {
	var on []string
	if enforce, found := h.read("/sys/fs/selinux/enforce"); found && enforce == "1" {
		on = append(on, "SELinux is enforcing: files of the host need a label before a container can use them")
	}
	if enabled, found := h.read("/sys/module/apparmor/parameters/enabled"); found && enabled == "Y" {
		on = append(on, "AppArmor is enabled")
	}
	if len(on) == 0 {
		return ok("neither SELinux nor AppArmor is enabled")
	}
	return ok("%s", strings.Join(on, "; "))
}

// waitOnline is the user unit that waits for the network (Podman 5.3).
const waitOnline = "/systemd/user/podman-user-wait-network-online.service"

// checkNetworkOnline: the unit waits 90 s if no other unit pulls in the target.
func checkNetworkOnline(ctx context.Context, h Host) Finding {
	if !h.exists("/usr/lib"+waitOnline) && !h.exists("/lib"+waitOnline) {
		return ok("no unit of Podman waits for the network")
	}
	if state := h.Output(ctx, "systemctl", "is-active", "network-online.target"); state != "active" {
		return warn("as root run: systemctl add-wants multi-user.target network-online.target",
			"network-online.target is %s: units of containers and tasks wait 90 seconds for it at each boot", cmp.Or(state, "not known"))
	}
	return ok("network-online.target is reached")
}
