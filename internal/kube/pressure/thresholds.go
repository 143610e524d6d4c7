package pressure

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Signal is a figure of the host, as the kubelet calls it (eviction-hard).
type Signal string

// The signals.
const (
	MemoryAvailable Signal = "memory.available"
	DiskAvailable   Signal = "nodefs.available"
	InodesFree      Signal = "nodefs.inodesFree"
	PIDsAvailable   Signal = "pid.available"
)

// signals are all of them, the most urgent one first, with what each is about.
var signals = []struct {
	signal    Signal
	condition corev1.NodeConditionType
	resource  string // as messages have it
}{
	{MemoryAvailable, corev1.NodeMemoryPressure, "memory"},
	{DiskAvailable, corev1.NodeDiskPressure, "ephemeral-storage"},
	{InodesFree, corev1.NodeDiskPressure, "inodes"},
	{PIDsAvailable, corev1.NodePIDPressure, "pids"},
}

// Level is the free amount of a resource and its total; both 0 where they are not known.
type Level struct{ Left, All int64 }

// Threshold is the amount of a resource that must be free, as a number or in percent.
type Threshold struct {
	Signal  Signal
	Number  int64
	Percent float64
}

// DefaultThresholds has the thresholds of the kubelet, and a twentieth of the process IDs.
const DefaultThresholds = "memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%,pid.available<5%"

// ParseThresholds reads thresholds as SIGNAL<QUANTITY,... or SIGNAL<PERCENT%,... All
// problems are in the error.
func ParseThresholds(text string) (out []Threshold, err error) {
	var errs []error
	seen := make(map[Signal]bool)
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		t, err := parseThreshold(item)
		if err == nil && seen[t.Signal] {
			err = fmt.Errorf("%s is there twice", t.Signal)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		seen[t.Signal] = true
		out = append(out, t)
	}
	return out, errors.Join(errs...)
}

func parseThreshold(item string) (t Threshold, err error) {
	name, value, ok := strings.Cut(item, "<")
	t.Signal = Signal(name)
	known := false
	for _, s := range signals {
		known = known || s.signal == t.Signal
	}
	if !ok || !known {
		return t, fmt.Errorf("%q is not a threshold as memory.available<100Mi; others are nodefs.available, nodefs.inodesFree and pid.available", item)
	}
	if number, percent := strings.CutSuffix(value, "%"); percent {
		t.Percent, err = strconv.ParseFloat(number, 64)
		if err != nil || !(t.Percent >= 0 && t.Percent <= 100) {
			return t, fmt.Errorf("%q: %q is not a percentage", item, value)
		}
		return t, nil
	}
	q, err := resource.ParseQuantity(value)
	if err != nil || q.Sign() < 0 {
		return t, fmt.Errorf("%q: %q is neither an amount as 100Mi nor a percentage", item, value)
	}
	t.Number = q.Value()
	return t, nil
}

// least returns the amount that must be free.
func (t Threshold) least(all int64) int64 {
	if t.Percent > 0 {
		return int64(float64(all) * t.Percent / 100)
	}
	return t.Number
}

// Shortage is a signal below its threshold.
type Shortage struct {
	Signal      Signal
	Left, Least int64
}

// Shortages are the signals below their thresholds, the most urgent one first.
func Shortages(levels map[Signal]Level, thresholds []Threshold) (out []Shortage) {
	for _, s := range signals {
		for _, t := range thresholds {
			l, known := levels[s.signal]
			if least := t.least(l.All); t.Signal == s.signal && known && l.All > 0 && l.Left < least {
				out = append(out, Shortage{s.signal, l.Left, least})
			}
		}
	}
	return out
}

// Condition is the condition of a node that is short of something.
func (s Signal) Condition() corev1.NodeConditionType {
	for _, o := range signals {
		if o.signal == s {
			return o.condition
		}
	}
	return ""
}

// Message returns the reason of an eviction in the words of the kubelet.
func (s Shortage) Message() string {
	what, text := string(s.Signal), func(n int64) string { return strconv.FormatInt(n, 10) }
	for _, o := range signals {
		if o.signal == s.Signal {
			what = o.resource
		}
	}
	if s.Signal == MemoryAvailable || s.Signal == DiskAvailable {
		text = func(n int64) string { return resource.NewQuantity(n, resource.BinarySI).String() }
	}
	return fmt.Sprintf("The node was low on resource: %s. Threshold quantity: %s, available: %s. ", what, text(s.Least), text(s.Left))
}
