package kubenode

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podtask/podtask/internal/kube/pressure"
	"github.com/podtask/podtask/pkg/api"
)

// hostStub is a host that answers as the test says.
type hostStub struct {
	budget api.Budget
	err    error
}

func (h *hostStub) Version(context.Context) (api.Version, error) {
	return api.Version{Version: "v1"}, h.err
}
func (h *hostStub) Budget(context.Context) (api.Budget, error) { return h.budget, h.err }

func TestNodeTellsWhatTheHostHas(t *testing.T) {
	t.Parallel()
	host := &hostStub{budget: api.Budget{CPU: 1.5, Memory: 1 << 30}}
	figures := pressure.Figures{CPUs: 4, Memory: 8 << 30, Levels: map[pressure.Signal]pressure.Level{pressure.DiskAvailable: {Left: 4, All: 100}}}
	now := time.Unix(1000, 0)
	low := newPressures([]pressure.Threshold{{Signal: pressure.DiskAvailable, Percent: 5}})
	low.now = func() time.Time { return now }
	n := &node{identity: Identity{Name: "edge", Pods: 110, Version: "v0.1+dirty"}, host: host, figures: func(string) pressure.Figures { return figures }, log: slog.New(slog.DiscardHandler), pressure: low}
	seen := n.update(t.Context())
	if got := seen.Status.Allocatable[corev1.ResourceCPU]; got.String() != "1500m" || seen.Status.Capacity.Cpu().Value() != 4 {
		t.Errorf("allocatable %s of %s", got.String(), seen.Status.Capacity.Cpu())
	}
	if got := seen.Status.NodeInfo.KubeletVersion; got != "v1.37.2-podtask.v0.1-dirty" {
		t.Error(got)
	}
	is := func(kind corev1.NodeConditionType) corev1.ConditionStatus {
		for _, c := range seen.Status.Conditions {
			if c.Type == kind {
				return c.Status
			}
		}
		return ""
	}
	if is(corev1.NodeReady) != "True" || is(corev1.NodeDiskPressure) != "True" || is(corev1.NodeMemoryPressure) != "False" {
		t.Errorf("conditions %+v", seen.Status.Conditions)
	}
	for _, c := range []struct {
		after time.Duration
		want  corev1.ConditionStatus
	}{{time.Minute, "True"}, {4 * time.Minute, "False"}} { // it stays for five minutes
		figures.Levels, now = nil, now.Add(c.after)
		if seen = n.update(t.Context()); is(corev1.NodeDiskPressure) != c.want {
			t.Errorf("disk pressure is %s, want %s", is(corev1.NodeDiskPressure), c.want)
		}
	}
	host.err = errors.New("no agent")
	told := make(chan *corev1.Node, 9)
	n.NotifyNodeStatus(t.Context(), func(now *corev1.Node) { told <- now })
	n.update(t.Context())
	if seen = <-told; is(corev1.NodeReady) != "False" {
		t.Errorf("ready is %s without an agent", is(corev1.NodeReady))
	}
	if n.update(t.Context()); len(told) != 0 {
		t.Error("nothing has changed, and the API server is told")
	}
	if got := n.room()[corev1.ResourceCPU]; got.String() != "1500m" {
		t.Errorf("without an agent the node has room for %s", got.String())
	}
}

func TestLabelsAndTaints(t *testing.T) {
	t.Parallel()
	labels, err := ParseLabels("a=b, example.com/c=")
	if err != nil || len(labels) != 2 || labels["a"] != "b" {
		t.Errorf("%v, %v", labels, err)
	}
	taints, err := ParseTaints("a=b:NoSchedule,c:NoExecute")
	if err != nil || len(taints) != 2 || taints[1] != (corev1.Taint{Key: "c", Effect: corev1.TaintEffectNoExecute}) {
		t.Errorf("%v, %v", taints, err)
	}
	for _, bad := range []string{"a", "a=b:Never", "=:NoSchedule"} {
		if _, err := ParseTaints(bad); err == nil {
			t.Errorf("taint %q is accepted", bad)
		}
	}
	if _, err := ParseLabels("a,b=ü"); err == nil {
		t.Error("wrong labels are accepted")
	}
}

func FuzzParseTaints(f *testing.F) {
	f.Add("a=b:NoSchedule,c:NoExecute")
	f.Fuzz(func(t *testing.T, text string) {
		taints, err := ParseTaints(text)
		for _, taint := range taints {
			if taint.Key == "" || taint.Effect == "" {
				t.Errorf("%q: %+v, %v", text, taint, err)
			}
		}
	})
}

// TestHeartbeatsAreRare: each is a request, and the lease says that the node is there.
func TestHeartbeatsAreRare(t *testing.T) {
	t.Parallel()
	first := withTimes(conditions(nil, api.Budget{}, nil), nil, metav1.Now())
	if first[0].LastHeartbeatTime.IsZero() {
		t.Error("a condition has no heartbeat")
	}
	beats := func(age time.Duration, b api.Budget) bool {
		before := slices.Clone(first)
		at := metav1.NewTime(time.Now().Add(-age))
		for i := range before {
			before[i].LastHeartbeatTime = at
		}
		now := withTimes(conditions(nil, b, nil), before, metav1.Now())
		return slices.ContainsFunc(now, func(c corev1.NodeCondition) bool { return c.LastHeartbeatTime != at })
	}
	if beats(time.Minute, api.Budget{}) || !beats(time.Minute, api.Budget{Draining: true}) || !beats(heartbeatEvery, api.Budget{}) {
		t.Error("heartbeats come at other times")
	}
}

// A host without limits is no reason to keep Pods away, as pressure is.
func TestNodeSaysThatLimitsCannotBeApplied(t *testing.T) {
	t.Parallel()
	why := "cgroup controllers cpu are not delegated"
	n := &node{identity: Identity{Name: "edge", UserNamespace: true}, host: &hostStub{}, figures: func(string) pressure.Figures { return pressure.Figures{} }, log: slog.New(slog.DiscardHandler),
		pressure: newPressures(nil), noLimits: func() string { return why }}
	condition := func(o *corev1.Node) (found corev1.NodeCondition) {
		for _, c := range o.Status.Conditions {
			if c.Type == ConditionNoLimits {
				found = c
			}
		}
		return found
	}
	seen := n.update(t.Context())
	if c := condition(seen); c.Status != corev1.ConditionTrue || !strings.Contains(c.Message, why) || c.LastTransitionTime.IsZero() {
		t.Errorf("the condition is %+v", c)
	}
	if got := n.pressures(); len(got) != 0 {
		t.Errorf("pressures %v", got)
	}
	if seen.Labels[LabelUserNamespace] != "true" {
		t.Errorf("labels %v", seen.Labels)
	}
	why = ""
	if c := condition(n.update(t.Context())); c.Status != corev1.ConditionFalse {
		t.Errorf("the condition is %+v", c)
	}
}
