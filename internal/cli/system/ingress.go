package system

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/host/doctor"
	"github.com/podtask/podtask/internal/ingress"
	"github.com/podtask/podtask/internal/ingress/routefile"
	"github.com/podtask/podtask/pkg/netns"
)

// askTimeout limits a question to the ingress proxy.
const askTimeout = 5 * time.Second

// ingressFinding says whether the public addresses of services are served.
func ingressFinding(ctx context.Context, stateDir, runtimeDir string) doctor.Finding {
	f := doctor.Finding{Check: "ingress", Level: doctor.Warn}
	t, err := routefile.Read(routefile.Path(stateDir))
	if err != nil {
		f.Text, f.Fix = err.Error(), "the agent writes it anew when a service with a public address changes"
		return f
	}
	if len(t.Routes) == 0 {
		f.Level, f.Text = doctor.OK, "no service has a public address"
		return f
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	s, err := ingress.Ask(ctx, ingress.SocketPath(runtimeDir))
	switch {
	case err != nil:
		f.Text = err.Error()
	case s == nil:
		f.Text = fmt.Sprintf("%d public addresses are not served: the ingress proxy does not run", len(t.Routes))
		f.Fix = "start it with `systemctl --user enable --now podtask-ingress.service` or `podtask ingress serve`"
		if lowest := netns.UnprivilegedStart(); lowest > 80 {
			f.Text += fmt.Sprintf(", and this user may not open the ports 80 and 443, only those from %d on", lowest)
			f.Fix = lowPortsFix()
		}
	default:
		problems := s.Problems()
		if len(problems) == 0 {
			f.Level, f.Text = doctor.OK, fmt.Sprintf("%d public addresses are served", len(s.Routes))
			return f
		}
		f.Text, f.Fix = strings.Join(problems, "; "), "`podtask ingress status` and `podtask why` say more"
	}
	return f
}

// lowPortsFix is the way to the ports 80 and 443 that fits this host.
func lowPortsFix() string {
	const sysctl = "as root: echo net.ipv4.ip_unprivileged_port_start=80 > /etc/sysctl.d/80-podtask.conf && sysctl --system"
	switch {
	case !writableSysctl():
		return "the kernel's settings are not this system's to change: redirect the ports (`podtask ingress serve --http :8080` and docs/online.md)"
	case otherUsers():
		return "as root: systemctl enable --now podtask-ingress-http@USER.socket podtask-ingress-https@USER.socket, because other users of this host may not open them then"
	}
	return sysctl
}

// writableSysctl reports whether root could change the setting: in a container, /proc/sys is read-only.
func writableSysctl() bool {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) > 3 && fields[1] == "/proc/sys" && strings.HasPrefix(fields[3], "ro") {
			return false
		}
	}
	return true
}

// otherUsers reports whether several users have a manager on this host.
func otherUsers() bool {
	entries, err := os.ReadDir("/run/user")
	return err == nil && len(entries) > 1
}
