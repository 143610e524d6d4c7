package kubelet

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/kube/ephemeral"
	"github.com/podtask/podtask/internal/kube/kubeaccess"
	"github.com/podtask/podtask/internal/kube/kubenode"
	"github.com/podtask/podtask/internal/kube/kubepods"
	"github.com/podtask/podtask/internal/kube/kubeserve"
	"github.com/podtask/podtask/internal/netnshelper"
	"github.com/podtask/podtask/internal/state"
)

// endpoint has the flags for the HTTPS endpoint of the node.
type endpoint struct {
	port                         int
	clientCAs, certFile, keyFile string
}

// serve listens, sets the port of id, and returns a function that serves until a context ends.
func (o *options) serve(access *rest.Config, client kubernetes.Interface, id *kubenode.Identity, pods *podAccess) (func(context.Context, *kubepods.Pods) error, error) {
	e := o.endpoint
	if (e.certFile == "") != (e.keyFile == "") {
		return nil, errors.New("--tls-cert-file and --tls-private-key-file belong together: give both or none")
	}
	cas, err := clientCAs(e.clientCAs, access)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", net.JoinHostPort(id.Address.String(), strconv.Itoa(e.port)))
	if err != nil {
		return nil, fmt.Errorf("--port %d: %w", e.port, err)
	}
	id.Port = int32(l.Addr().(*net.TCPAddr).Port)
	return func(ctx context.Context, bound *kubepods.Pods) error {
		defer l.Close()
		access, err := pods.get()
		if err != nil {
			return err
		}
		certificate, err := e.certificate(ctx, kubeserve.Request{
			Client: client, Node: id.Name, Dir: filepath.Join(pods.stateDir, "kubelet", id.Name), Addresses: []net.IP{id.Address.AsSlice()},
		})
		if err != nil {
			return err
		}
		server := kubeserve.New(kubeserve.Config{
			Node: id.Name, Pods: access, Bound: bound.All, Settings: o.settings(*id),
			Client: client, ClientCAs: cas, Certificate: certificate, Log: pods.log,
		})
		return server.Serve(ctx, l)
	}, nil
}

// settings returns the settings of the node by their names in KubeletConfiguration.
func (o *options) settings(id kubenode.Identity) map[string]any {
	evict := make(map[string]string)
	for part := range strings.SplitSeq(o.work.evict, ",") {
		if signal, amount, ok := strings.Cut(strings.TrimSpace(part), "<"); ok {
			evict[signal] = amount
		}
	}
	checked, _ := o.work.check() // by now it has passed
	return map[string]any{
		"address": id.Address.String(), "port": id.Port, "readOnlyPort": 0, "maxPods": o.work.pods, "syncFrequency": o.work.sync.String(),
		"evictionHard": evict, "allowedUnsafeSysctls": checked.sysctls, "registerWithTaints": id.Taints,
		"shutdownGracePeriod": o.work.shutdown.String(), "shutdownGracePeriodCriticalPods": (o.work.shutdown / 4).String(),
		"nodeLeaseDurationSeconds": kubenode.LeaseSeconds, "nodeStatusReportFrequency": kubenode.ReportEvery.String(), "cgroupDriver": "systemd",
	}
}

// podAccess opens the engine when it is first needed, for access to the Pods of this node.
type podAccess struct {
	stateDir string
	log      *slog.Logger
	open     func() (*engine.Engine, error)
	get      func() (*kubeaccess.Access, error)
}

func (o *options) podAccess(log *slog.Logger) *podAccess {
	stateDir, runtimeDir, failed := state.Dirs(o.getenv)
	open := sync.OnceValues(func() (*engine.Engine, error) {
		if failed != nil {
			return nil, failed
		}
		return engine.Open(engine.Config{StateDir: stateDir, RuntimeDir: runtimeDir, Getenv: o.getenv, Log: log})
	})
	return &podAccess{stateDir, log, open, sync.OnceValues(func() (*kubeaccess.Access, error) {
		a, err := open()
		if err != nil {
			return nil, err
		}
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		return kubeaccess.New(a, os.DirFS("/"), netnshelper.Command(self)), nil // until the process ends
	})}
}

// shuttingDown reports whether the user's systemd manager, and so the host, shuts down.
func (p *podAccess) shuttingDown(ctx context.Context) bool {
	a, err := p.open()
	return err == nil && a.User.ShuttingDown(ctx)
}

// ephemerals returns what runs ephemeral containers. Their definitions are read with the settings of this
// host, as the agent reads those of Pods.
func (o *options) ephemerals(p *podAccess) (*ephemeral.Containers, error) {
	settings, err := config.Load(config.Source{Getenv: o.getenv})
	if err != nil {
		return nil, err
	}
	a, err := p.open()
	if err != nil {
		return nil, err
	}
	return ephemeral.New(a, p.stateDir, define.Reader{Settings: settings}), nil
}

// use returns the memory that Pods use.
func (p *podAccess) use(ctx context.Context) (map[types.UID]kubepods.MemoryUse, error) {
	access, err := p.get()
	if err != nil {
		return nil, err
	}
	all, err := access.Usage(ctx)
	out := make(map[types.UID]kubepods.MemoryUse)
	for _, pod := range all.Pods {
		use := make(kubepods.MemoryUse)
		for _, c := range pod.Containers {
			use[c.Name] = int64(c.Memory)
		}
		out[types.UID(pod.UID)] = use
	}
	return out, err
}

// certificate returns the certificate of the files, else one that the cluster issues.
func (e endpoint) certificate(ctx context.Context, r kubeserve.Request) (kubeserve.Certificate, error) {
	if e.certFile != "" {
		return kubeserve.FileCertificate(e.certFile, e.keyFile)
	}
	return kubeserve.RequestedCertificate(ctx, r)
}

// clientCAs returns the certificate authorities in a file, by default those of the kubeconfig.
func clientCAs(file string, access *rest.Config) (*x509.CertPool, error) {
	data, what := access.CAData, "the kubeconfig"
	if file == "" && len(data) == 0 {
		file = access.CAFile
	}
	if file != "" {
		what = file
		var err error
		if data, err = os.ReadFile(file); err != nil {
			return nil, fmt.Errorf("--client-ca-file: %w", err)
		}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("--client-ca-file: %s has no certificate in the format PEM", what)
	}
	return pool, nil
}
