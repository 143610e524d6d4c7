// Package kubelet is the program podtask-kubelet, which makes this host a node of a Kubernetes cluster.
//
// It reads flags and configuration, takes the lock of the node, and connects the parts: kubenode runs
// the Pods as tasks of the user's podtask agent, kubeserve answers the API server, and kubeaccess gives
// it the containers. Tasks continue when the program ends. podtask does not import this package,
// because the client of Kubernetes is larger than podtask.
package kubelet

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/podtask/podtask/internal/buildversion"
	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/kube/kubenode"
	"github.com/podtask/podtask/internal/kube/kubepods"
	"github.com/podtask/podtask/internal/kube/podadmission"
	"github.com/podtask/podtask/internal/kube/pressure"
	"github.com/podtask/podtask/internal/state"
)

// Main runs the program with the streams and the environment of this process, and returns the exit code.
// Version is the version of the program; if it is empty, that of the main module.
func Main(ctx context.Context, args []string, version string) int {
	o := newOptions(os.Stderr, os.Getenv)
	o.version = buildversion.Of(version)
	return o.run(ctx, args[1:], os.Stdout, os.Stderr)
}

// run returns the exit code.
func (o *options) run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := o.flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 125
	}
	if o.printVersion {
		fmt.Fprintln(stdout, "podtask-kubelet version "+o.version+", Kubernetes "+kubepods.KubernetesVersion)
		return 0
	}
	if err := o.applyConfig(); err != nil {
		fmt.Fprintln(stderr, "Error: "+err.Error())
		return 125
	}
	level := slog.LevelInfo
	if o.debug {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	klog.SetSlogLogger(log)
	c, err := o.config(log)
	var release func()
	if err == nil {
		release, err = takeNode(c.Dir, c.Identity.Name)
	}
	if err == nil {
		defer release()
		log.Info("the node begins", "node", c.Identity.Name, "address", c.Identity.Address.String(), "version", o.version)
		err = kubenode.Run(ctx, c)
	}
	if err != nil {
		fmt.Fprintln(stderr, "Error: "+err.Error())
		return 125
	}
	return 0
}

// nodeLock is the key of the lock of a node, in the directory of the node.
var nodeLock = strings.Repeat("0", 32)

// takeNode takes the lock of a node. A second process of that name, perhaps of another cluster, would
// remove the files of Pods that it does not know.
func takeNode(podFiles, name string) (release func(), err error) {
	locks, err := state.OpenLocks(filepath.Dir(podFiles), state.Holder{Since: time.Now(), Command: "podtask-kubelet"})
	if err != nil {
		return nil, err
	}
	lock, err := locks.Lock(nodeLock)
	if held, ok := errors.AsType[*state.LockedError](err); ok {
		return nil, fmt.Errorf("%s runs the node %s already: end it, or give this one another --node-name: %w", held.Holder.Process(), name, state.ErrLocked)
	}
	if err != nil {
		return nil, err
	}
	return func() { _ = lock.Unlock() }, nil
}

// registration has the flags for the labels and taints with which a node registers.
type registration struct{ labels, taints string }

// work has the flags for how many Pods the node takes, and how it updates, evicts and ends them.
type work struct {
	pods           int64
	sync, shutdown time.Duration
	evict, sysctls string
}

// limits are the checked values of work.
type limits struct {
	thresholds []pressure.Threshold
	sysctls    []string
}

// check reads the thresholds and the sysctls, and checks the rest. All problems are in the error.
func (w work) check() (out limits, err error) {
	var errs []error
	if out.thresholds, err = pressure.ParseThresholds(w.evict); err != nil {
		errs = append(errs, fmt.Errorf("--eviction-hard: %w", err))
	}
	if out.sysctls, err = podadmission.ParseSysctls(w.sysctls); err != nil {
		errs = append(errs, fmt.Errorf("--allowed-unsafe-sysctls: %w", err))
	}
	if w.sync < time.Second {
		errs = append(errs, fmt.Errorf("--sync-frequency %s: one second is the least", w.sync))
	}
	if w.shutdown < time.Second {
		errs = append(errs, fmt.Errorf("--shutdown-grace-period %s: one second is the least", w.shutdown))
	}
	if w.pods < 1 {
		errs = append(errs, fmt.Errorf("--max-pods %d: a node takes at least one Pod", w.pods))
	}
	return out, errors.Join(errs...)
}

// options has the flags.
type options struct {
	flags                     *flag.FlagSet
	getenv                    func(string) string
	kubeconfig, name, address string
	socket, server            string
	registration              registration
	work                      work
	endpoint                  endpoint
	debug, printVersion       bool
	version                   string // of the program
}

func newOptions(stderr io.Writer, getenv func(string) string) *options {
	o := &options{flags: flag.NewFlagSet("podtask-kubelet", flag.ContinueOnError), getenv: getenv}
	f := o.flags
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprintln(stderr, "Usage: podtask kubelet --kubeconfig FILE [--node-name NAME] [flags]")
		f.PrintDefaults()
	}
	f.StringVar(&o.kubeconfig, "kubeconfig", getenv("KUBECONFIG"), "the `FILE` with the node's credentials")
	f.StringVar(&o.name, "node-name", "", "the `NAME` of the node, that of its credentials (default: the host's)")
	f.StringVar(&o.address, "node-ip", "", "the `ADDRESS` at which the cluster reaches this host (default: that from which this host reaches others)")
	f.StringVar(&o.registration.labels, "node-labels", "", "`KEY=VALUE,...`, labels of the node")
	f.StringVar(&o.registration.taints, "register-with-taints", kubenode.TaintNoNetwork+":"+string(corev1.TaintEffectNoSchedule), "`KEY[=VALUE]:EFFECT,...`, taints of a node that is not registered yet; empty for none")
	f.StringVar(&o.socket, "socket", getenv("PODTASK_SOCKET"), "the `SOCKET` of the podtask agent (default: $XDG_RUNTIME_DIR/podtask/podtask.sock)")
	f.StringVar(&o.server, "server-for-pods", "", "the `URL` at which containers reach the API server (default: that of the kubeconfig)")
	f.Int64Var(&o.work.pods, "max-pods", 110, "how many Pods the node takes")
	f.DurationVar(&o.work.sync, "sync-frequency", kubepods.DefaultPace().Refresh, "how often ConfigMaps and Secrets are read whose content is in files of containers")
	f.DurationVar(&o.work.shutdown, "shutdown-grace-period", time.Minute, "how long Pods have to end when the host shuts down; a quarter of it is for critical ones alone")
	f.StringVar(&o.work.evict, "eviction-hard", pressure.DefaultThresholds, "`SIGNAL<AMOUNT,...`, what the host must have left; below that Pods are evicted")
	f.StringVar(&o.work.sysctls, "allowed-unsafe-sysctls", "", "`NAME,PREFIX*,...`, sysctls that Pods may set beside the safe ones of Kubernetes")
	f.IntVar(&o.endpoint.port, "port", 10250, "the `PORT` at which the API server reaches this node for logs and exec; 0 for a free one")
	f.StringVar(&o.endpoint.clientCAs, "client-ca-file", "", "the `FILE` with the authorities of certificates of callers (default: that of the kubeconfig)")
	f.StringVar(&o.endpoint.certFile, "tls-cert-file", "", "the `FILE` with the certificate of the endpoint (default: the cluster is asked for one)")
	f.StringVar(&o.endpoint.keyFile, "tls-private-key-file", "", "the `FILE` with its key")
	f.BoolVar(&o.debug, "debug", false, "log what is done")
	f.BoolVar(&o.printVersion, "version", false, "print the version")
	return o
}

// applyConfig sets flags from the table [kubelet] of podtask.toml. Flags of the command line and
// variables of the environment take precedence.
func (o *options) applyConfig() error {
	table, err := config.Kubelet(config.Source{Getenv: o.getenv})
	if err != nil {
		return err
	}
	given := make(map[string]bool)
	o.flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	given["kubeconfig"] = given["kubeconfig"] || o.kubeconfig != ""
	var errs []error
	for _, key := range config.KubeletKeys() {
		v, has := table[key]
		if !has || given[key] {
			continue
		}
		if err := o.flags.Set(key, v.Text); err != nil {
			errs = append(errs, fmt.Errorf("%s: kubelet.%s: %w", v.Origin, key, err))
		}
	}
	return errors.Join(errs...)
}

// config returns the configuration of the node. All problems are in the error.
func (o *options) config(log *slog.Logger) (c kubenode.Config, err error) {
	var errs []error
	if o.flags.NArg() > 0 {
		errs = append(errs, fmt.Errorf("%q: podtask kubelet takes flags only", o.flags.Arg(0)))
	}
	id := kubenode.Identity{Name: o.name, Version: o.version, Pods: o.work.pods, UserNamespace: os.Geteuid() != 0}
	if id.Name == "" {
		if id.Name, err = os.Hostname(); err != nil {
			errs = append(errs, fmt.Errorf("%w: give --node-name", err))
		}
		id.Name = strings.ToLower(id.Name)
	}
	if id.Labels, err = kubenode.ParseLabels(o.registration.labels); err != nil {
		errs = append(errs, fmt.Errorf("--node-labels: %w", err))
	}
	if id.Taints, err = kubenode.ParseTaints(o.registration.taints); err != nil {
		errs = append(errs, fmt.Errorf("--register-with-taints: %w", err))
	}
	if id.Address, err = o.hostAddress(); err != nil {
		errs = append(errs, err)
	}
	checked, err := o.work.check()
	if err != nil {
		errs = append(errs, err)
	}
	socket, err := o.agentSocket()
	if err != nil {
		errs = append(errs, err)
	}
	access, client, err := o.access()
	if err != nil {
		return c, errors.Join(append(errs, err)...)
	}
	server, err := serverOf(cmp.Or(o.server, access.Host))
	if err != nil {
		errs = append(errs, fmt.Errorf("--server-for-pods: %w", err))
	}
	dir, err := o.podFiles(id.Name)
	if err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return c, errors.Join(errs...)
	}
	pods := o.podAccess(log)
	serve, err := o.serve(access, client, &id, pods)
	if err != nil {
		return c, err
	}
	if c.Ephemerals, err = o.ephemerals(pods); err != nil {
		return c, err
	}
	agent, often := kubepods.NewSocket(socket), kubepods.DefaultPace()
	often.Refresh = o.work.sync
	return kubenode.Config{Identity: id, Client: client, Agent: agent, Host: agent, Log: log, Pace: often, Server: server, Dir: dir, Serve: serve, Thresholds: checked.thresholds, Sysctls: checked.sysctls, Use: pods.use,
		Ephemerals: c.Ephemerals, Access: access, NoLimits: func() string { return kubenode.NoLimits(o.getenv) },
		Shutdown: kubenode.Shutdown{Begun: pods.shuttingDown, Limit: o.work.shutdown}}, errors.Join(errs...)
}

// podFiles returns the directory for the files of Pods. It is in memory, because Secrets and
// tokens are among them.
func (o *options) podFiles(node string) (string, error) {
	_, runtimeDir, err := state.Dirs(o.getenv)
	if runtimeDir == "" {
		return "", fmt.Errorf("the files of Secrets must be kept in memory: %w", err)
	}
	return filepath.Join(runtimeDir, "kubelet", node, "pods"), nil
}

// access reads the kubeconfig, and returns a client. JSON is larger than protobuf, which the client speaks.
func (o *options) access() (*rest.Config, *kubernetes.Clientset, error) {
	if o.kubeconfig == "" {
		return nil, nil, errors.New("--kubeconfig is missing: give the file with the node's credentials")
	}
	c, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return nil, nil, fmt.Errorf("--kubeconfig %s: %w", o.kubeconfig, err)
	}
	c.UserAgent = "podtask-kubelet/" + o.version
	c.QPS, c.Burst = 50, 100 // as the kubelet
	c.AcceptContentTypes, c.ContentType = "application/vnd.kubernetes.protobuf,application/json", "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		return nil, nil, fmt.Errorf("--kubeconfig %s: %w", o.kubeconfig, err)
	}
	return c, client, nil
}

// serverOf returns the host and the port of a URL.
func serverOf(address string) ([2]string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return [2]string{}, fmt.Errorf("%q is not a URL as https://HOST:PORT", address)
	}
	return [2]string{u.Hostname(), cmp.Or(u.Port(), "443")}, nil
}

// agentSocket returns the socket of this user's agent.
func (o *options) agentSocket() (string, error) {
	if o.socket != "" {
		return o.socket, nil
	}
	return state.AgentSocket(o.getenv)
}

// hostAddress returns --node-ip, else the address from which this host reaches others.
func (o *options) hostAddress() (netip.Addr, error) {
	if o.address != "" {
		a, err := netip.ParseAddr(o.address)
		if err != nil {
			return a, fmt.Errorf("--node-ip: %q is not an IP address", o.address)
		}
		return a, nil
	}
	c, err := net.Dial("udp", "192.0.2.1:9") // nothing is sent
	if err != nil {
		return netip.Addr{}, fmt.Errorf("this host has no address to reach others from: give --node-ip")
	}
	defer c.Close()
	at, err := netip.ParseAddrPort(c.LocalAddr().String())
	return at.Addr(), err
}
