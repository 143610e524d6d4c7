package admit

import (
	"fmt"
	"io/fs"

	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/host/quota"
	"github.com/podtask/podtask/pkg/admission"
)

// What a container, its conmon and the runtime take of each quota. The infra container
// takes the same once per task.
const (
	keyBytes       = 70 // the name of a keyring: "_ses.", the container's id and a zero byte
	processesEach  = 4  // conmon has two threads; the runtime is there for a moment only
	filesEach      = 8  // in Podman's service, while a container is watched and its log is read
	filesForOthers = 64 // sockets, storage and libraries of the process itself
)

// quotasOf returns what bounds the number of containers on this host: what is configured
// and the quotas of the kernel. Published ports are counted one by one; subordinate ids
// are shared by all containers of a user, and so not used up.
func quotasOf(s *config.Settings, root fs.FS, uid int) []admission.Quota {
	var all []admission.Quota
	if most := s.Budget.Containers; most != nil {
		all = append(all, admission.Quota{Name: s.Origin("budget-containers"), Most: *most, Used: quota.Unknown, PerContainer: 1, Fix: "raise it"})
	}
	add := func(q quota.Quota, each int64, fix string) {
		all = append(all, admission.Quota{Name: q.Name, Most: q.Most, Used: q.Used, PerTask: each, PerContainer: each, Fix: fix})
	}
	if libpod.KeyringEnabled() {
		for i, q := range quota.Keys(root, uid) {
			each := []int64{1, keyBytes}[i]
			add(q, each, "raise it with sysctl -w, or set keyring = false under [containers] in containers.conf")
		}
	}
	for _, q := range quota.Processes(root, uid) {
		add(q, processesEach, "raise it with systemctl set-property as root")
	}
	if q, limited := quota.OpenFiles(root); limited {
		q.Name, q.Most = fmt.Sprintf("%s, %d, less %d for podtask itself", q.Name, q.Most, filesForOthers), max(0, q.Most-filesForOthers)
		add(q, filesEach, "raise it with LimitNOFILE= in the unit, or DefaultLimitNOFILE= in /etc/systemd/user.conf")
	}
	return all
}
