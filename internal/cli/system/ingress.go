package system

import (
	"context"
	"fmt"
	"os"
	"slices"
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
		f.Text = fmt.Sprintf("%s not served: the ingress proxy is not running", are(len(t.Routes)))
		f.Fix = "start it with `systemctl --user enable --now podtask-ingress.service` or `podtask ingress serve`"
		if lowest := netns.UnprivilegedStart(); lowest > 80 {
			f.Text += fmt.Sprintf(", and this user may not open the ports 80 and 443, only those from %d on", lowest)
			f.Fix = lowPortsFix("systemctl --user enable --now podtask-ingress.service")
		}
	default:
		problems := s.Problems()
		if len(problems) == 0 {
			f.Level, f.Text = doctor.OK, fmt.Sprintf("%s served%s%s", are(len(s.Routes)), portsText(*s), certificatesText(s.Certificates))
			return f
		}
		f.Text, f.Fix = strings.Join(problems, "; "), "`podtask ingress status` and `podtask why` say more"
		if s.Denied {
			f.Text = strings.ReplaceAll(f.Text, ingress.AskDoctor, "")
			f.Fix = deniedFix(netns.UnprivilegedStart())
		}
	}
	return f
}

// portsText says where a proxy listens.
func portsText(s ingress.Status) string {
	all := slices.Concat(s.Plain, s.Secure)
	if len(all) == 0 {
		return ""
	}
	text := " at " + strings.Join(all, " and ")
	low := func(address string) bool {
		return strings.HasSuffix(address, ":80") || strings.HasSuffix(address, ":443")
	}
	if !slices.ContainsFunc(all, low) {
		text += ", to which something has to lead from the ports 80 and 443"
	}
	return text
}

// certificatesText says when the first certificate ends.
func certificatesText(all []ingress.Certificate) string {
	if len(all) == 0 {
		return ""
	}
	first := slices.MinFunc(all, func(a, b ingress.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
	if len(all) == 1 {
		return fmt.Sprintf("; its certificate ends on %s", first.NotAfter.Local().Format(time.DateOnly))
	}
	return fmt.Sprintf("; of %d certificates, that of %s is the first to end, on %s", len(all), first.Name, first.NotAfter.Local().Format(time.DateOnly))
}

// deniedFix returns the remedy for a proxy that runs and may not open the ports 80 and 443. Lowest is the first port that
// users may open now.
func deniedFix(lowest uint16) string {
	const again = "systemctl --user restart podtask-ingress.service"
	if lowest <= 80 {
		return again + ", because this user may open the ports now"
	}
	return lowPortsFix(again)
}

// lowPortsFix returns the remedy that fits this host for ports 80 and 443 that its user may not open. Then is the command
// that the user types afterwards, if all users may open the ports.
func lowPortsFix(then string) string {
	const sysctl = "as root: echo net.ipv4.ip_unprivileged_port_start=80 > /etc/sysctl.d/80-podtask.conf && sysctl --system; then as this user: "
	switch {
	case !writableSysctl():
		return "the kernel's settings are not this system's to change: redirect the ports (`podtask ingress serve --http :8080` and docs/online.md)"
	case otherUsers():
		return "as root: systemctl enable --now podtask-ingress-http@USER.socket podtask-ingress-https@USER.socket, because other users of this host may not open them then"
	}
	return sysctl + then
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

// are begins a sentence about a number of public addresses.
func are(addresses int) string {
	if addresses == 1 {
		return "1 public address is"
	}
	return fmt.Sprintf("%d public addresses are", addresses)
}
