package api

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/fault"
)

// StartFault implements FaultBackend. It refuses packet loss.
func (full) StartFault(_ context.Context, _ string, f fault.Fault, _ time.Duration) error {
	if f.Kind == fault.PacketLoss {
		return fault.Refuse(fault.Conflict, "There is already one network packet loss fault running")
	}
	return nil
}

// StopFaults implements FaultBackend.
func (full) StopFaults(context.Context, string, fault.Fault) error { return nil }

func TestRequestsForFaults(t *testing.T) {
	t.Parallel()
	all := []string{"0.0.0.0/0"}
	for _, c := range []struct {
		name string
		in   NewFault
		want string // part of the error; empty: it is taken
	}{
		{"latency", NewFault{Fault: Fault{Kind: "latency", DelayMilliseconds: 1, Sources: all}, DurationSeconds: 60}, ""},
		{"the whole name", NewFault{Fault: Fault{Kind: fault.PacketLoss, LossPercent: 100, Sources: all, FlowsPercent: 1}}, ""},
		{"a black hole", NewFault{Fault: Fault{Kind: "blackhole-port", Port: 80, Protocol: "tcp", TrafficType: "egress"}}, ""},
		{"no kind", NewFault{}, `kind "" is none of`},
		{"a member of another kind", NewFault{Fault: Fault{Kind: "latency", DelayMilliseconds: 1, Sources: all, Port: 80}}, "parameter Port is not for network-latency"},
		{"all problems", NewFault{Fault: Fault{Kind: "latency", Sources: []string{"x"}}, DurationSeconds: -1}, "non-zero; invalid value x for parameter Sources; durationSeconds is 1 to 604800, not -1"},
		{"its own times", NewFault{Fault: Fault{Kind: "latency", DelayMilliseconds: 1, Sources: all, Until: time.Unix(1, 0)}}, "since and until are not given"},
	} {
		f, d, err := c.in.read()
		switch {
		case c.want == "" && (err != nil || d != time.Duration(c.in.DurationSeconds)*time.Second || len(f.Problems()) > 0):
			t.Errorf("%s: %+v %s %v", c.name, f, d, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !Is(err, BadRequest)):
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}
