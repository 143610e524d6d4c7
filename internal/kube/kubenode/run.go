package kubenode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	vklog "github.com/virtual-kubelet/virtual-kubelet/log"
	vk "github.com/virtual-kubelet/virtual-kubelet/node"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/podtask/podtask/internal/kube/kubepods"
	"github.com/podtask/podtask/internal/kube/podmanifest"
	"github.com/podtask/podtask/internal/kube/pressure"
	"github.com/podtask/podtask/internal/sleep"
)

// Config configures a node.
type Config struct {
	Identity Identity
	Client   kubernetes.Interface
	Agent    kubepods.Agent
	Host     Host
	Log      *slog.Logger
	Pace     kubepods.Pace
	// Server is the address of the API server as containers reach it: host and port.
	Server [2]string
	// Dir has the files of Pods, which only this user may read.
	Dir string
	// Thresholds say how much the host must have left; Use is what Pods use.
	Thresholds []pressure.Threshold
	Use        func(context.Context) (map[types.UID]kubepods.MemoryUse, error)
	// Access is the connection of Client to the API server, for a watch of the Pods that finds members which this
	// program does not know; nil for a watch with Client, which does not find them.
	Access *rest.Config
	// Sysctls are the unsafe sysctls that Pods may set, and patterns of them.
	Sysctls []string
	// Ephemerals runs ephemeral containers; nil: they are refused with an event.
	Ephemerals kubepods.EphemeralContainers
	// NoLimits returns why limits of Pods cannot be applied on this host, with the fix; empty if they can.
	NoLimits func() string
	// Shutdown bounds the end of the Pods when their host shuts down.
	Shutdown Shutdown
	// Serve is called with the Pods before the node registers, and serves what the API
	// server asks of it until the context ends; nil for nothing.
	Serve func(context.Context, *kubepods.Pods) error
}

// Intervals of a node (kubelet: node-lease-duration, node-status-report-frequency). The
// host is measured more often; only changes are reported.
const (
	// LeaseSeconds is the duration of a node's lease.
	LeaseSeconds = 40
	// ReportEvery is the interval in which the unchanged status of a node is reported.
	ReportEvery = 5 * time.Minute

	measureEvery = 10 * time.Second
)

// Run keeps the node registered and runs its Pods until asked ends. It waits for the agent and for the API server, now and
// later; tasks continue meanwhile, and after it has ended, unless the host shuts down.
func Run(asked context.Context, c Config) error {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(asked))
	defer cancel(nil)
	ctx = vklog.WithLogger(ctx, logger{c.Log})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)

	n := &node{identity: c.Identity, host: c.Host, figures: pressure.FiguresOf, log: c.Log, every: measureEvery, pressure: newPressures(c.Thresholds), noLimits: c.NoLimits}
	n.update(ctx)
	services := podmanifest.NewServices(c.Client)
	events, stopEvents := newRecorder(c.Client, c.Identity.Name)
	defer stopEvents()
	pods, err := kubepods.New(ctx, kubepods.Config{
		Node: c.Identity.Name, Client: c.Client, Access: c.Access, Agent: c.Agent, Events: events, Log: c.Log, Pace: c.Pace,
		Room: n.room, Pressures: n.pressures, Use: c.Use, Address: addressOf(c.Identity), Server: c.Server, Dir: c.Dir,
		Services: services.Of, Sysctls: c.Sysctls, Ephemerals: c.Ephemerals,
	})
	if err != nil {
		return err
	}
	defer pods.Wait()
	defer cancel(nil) // before the wait
	wg.Go(func() {
		select {
		case <-asked.Done():
			c.Shutdown.end(ctx, n, c.Client, pods.ShutDown)
			cancel(context.Cause(asked))
		case <-ctx.Done():
		}
	})
	if err = pods.Adopt(); err != nil {
		return err
	}
	if c.Serve != nil {
		wg.Go(func() { cancel(fmt.Errorf("serve logs and exec: %w", c.Serve(ctx, pods))) })
	}
	services.Watch(ctx, &wg, pods.ServicesChanged)
	wg.Go(func() { n.run(ctx, pods.Evict) })
	wg.Go(func() { register(ctx, c, n) })
	err = pods.Run()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func addressOf(id Identity) string {
	if !id.Address.IsValid() {
		return ""
	}
	return id.Address.String()
}

// register keeps the node object and its lease until ctx ends. A controller ends when the
// API server cannot be reached at its start; another one follows then.
func register(ctx context.Context, c Config, n *node) {
	for pause := c.Pace.Steady; ctx.Err() == nil; pause = min(2*pause, c.Pace.First) {
		object := n.update(ctx)
		leases := c.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
		nodes := c.Client.CoreV1().Nodes()
		controller, err := vk.NewNodeController(n, object, nodes, vk.WithNodeEnableLeaseV1(leases, LeaseSeconds), vk.WithNodeStatusUpdateInterval(ReportEvery),
			vk.WithNodeStatusUpdateErrorHandler(func(ctx context.Context, err error) error { return recreate(ctx, c, nodes, n, err) }))
		if err == nil {
			ended := make(chan struct{})
			go func() {
				select {
				case <-controller.Ready():
					setUserNamespace(ctx, c, nodes)
				case <-ended:
				}
			}()
			err = controller.Run(ctx)
			close(ended)
		}
		if ctx.Err() == nil {
			c.Log.Warn("the node is not registered yet", "error", err)
			sleep.For(ctx, pause)
		}
	}
}

// recreate registers the node again after it was deleted.
func recreate(ctx context.Context, c Config, nodes typedcore.NodeInterface, n *node, err error) error {
	if !apierrors.IsNotFound(err) {
		return err
	}
	if _, err = nodes.Create(ctx, n.update(ctx), metav1.CreateOptions{}); err == nil {
		setUserNamespace(ctx, c, nodes)
	}
	return err
}

// inUserNamespace sets a member that the types of Kubernetes before 1.37 do not have. Older API
// servers drop it.
const inUserNamespace = `{"status":{"nodeInfo":{"runningInUserNamespace":true}}}`

// setUserNamespace tells the API server that containers run in a user namespace. Other changes of the status keep it.
func setUserNamespace(ctx context.Context, c Config, nodes typedcore.NodeInterface) {
	if !c.Identity.UserNamespace {
		return
	}
	_, err := nodes.Patch(ctx, c.Identity.Name, types.MergePatchType, []byte(inUserNamespace), metav1.PatchOptions{FieldValidation: metav1.FieldValidationIgnore}, "status")
	if err != nil && ctx.Err() == nil {
		c.Log.Warn("cannot report that the node runs in a user namespace", "error", err)
	}
}

// newRecorder returns a recorder of events about Pods.
func newRecorder(client kubernetes.Interface, name string) (record.EventRecorder, func()) {
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: client.CoreV1().Events("")})
	return broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "podtask-kubelet", Host: name}), broadcaster.Shutdown
}
