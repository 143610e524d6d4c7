package archtest

import (
	"slices"
	"strings"
	"testing"
)

// wrappers are the packages through which alone a foreign library is reached.
var wrappers = []struct {
	library string // import path, or a prefix with "/" at its end
	except  []string
	only    []string
	why     string
}{
	{
		library: "github.com/containers/podman/v5/",
		except:  []string{"github.com/containers/podman/v5/pkg/systemd/parser"}, // standard library only
		only:    []string{"internal/host/libpod", "test/"},
		why:     "what Podman's versions do differently is known in one place",
	},
	{
		library: "go.podman.io/image/v5/docker",
		only:    []string{"pkg/images", "test/"},
		why:     "registries are spoken to in one place",
	},
	{
		library: "github.com/aws/aws-sdk-go-v2/",
		only:    []string{"internal/host/secretsource/awsvalues", "internal/logs/logsend/awslogs", "pkg/taskdef", "internal/aws/instance/awscall", "internal/aws/instance/wire", "internal/aws/awsapi", "internal/aws/sigv4", "hack/speed", "test/"}, // the last five in tests and benchmarks
		why:     "what calls AWS is known in one place",
	},
	{
		library: "github.com/gorilla/websocket",
		only:    []string{"internal/aws/ecsexec", "internal/aws/instance/awscall", "internal/testing/ecsplane", "test/"},
		why:     "web sockets are limited in one place: those that are served, and those that are opened",
	},
	{
		library: "github.com/xtaci/smux",
		only:    []string{"internal/aws/portforward", "internal/connect/sshhost", "test/"},
		why:     "one package has the streams of session-manager-plugin, another one those of hosts by ssh",
	},
	{
		library: "github.com/virtual-kubelet/",
		only:    []string{"internal/kube/kubenode", "internal/kube/kubepods", "internal/kube/kubeserve", "test/"},
		why:     "the rest of podtask knows no cluster",
	},
	{
		library: "k8s.io/client-go/",
		only:    []string{"internal/kube/kubenode", "internal/kube/kubepods", "internal/kube/podmanifest", "internal/kube/podstatus", "internal/kube/kubelet", "internal/kube/kubeserve", "test/"},
		why:     "it is larger than podtask",
	},
	{
		library: "github.com/caddyserver/",
		only:    []string{"internal/ingress/certs"},
		why:     "it would cost each command of podtask a part of its start",
	},
	{
		library: "github.com/coreos/go-systemd/v22/dbus",
		only:    []string{"pkg/cgroups", "test/"},
		why:     "units are made in one place",
	},
	{
		library: "github.com/godbus/dbus/",
		only:    []string{"pkg/cgroups", "test/"},
		why:     "units are made in one place",
	},
}

func TestForeignLibrariesAreReachedThroughTheirWrapper(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		for _, imp := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			for _, w := range wrappers {
				if matches(w.library, imp) && !slices.Contains(w.except, imp) && !matchesAny(w.only, p.name()) {
					t.Errorf("%s imports %s, which only %s may: %s", p.name(), imp, strings.Join(w.only, ", "), w.why)
				}
			}
		}
	}
}
