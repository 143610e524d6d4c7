package instance

import (
	"context"
	"net/url"
	"time"

	"github.com/podtask/podtask/internal/aws/instance/awscall"
	"github.com/podtask/podtask/internal/aws/instance/wire"
	"github.com/podtask/podtask/internal/ecsstatus"
	"github.com/podtask/podtask/internal/uuid"
	"github.com/podtask/podtask/pkg/api"
)

// tcs is the link that takes telemetry.
func (n *node) tcs(e *endpoints) *link {
	samples := newSampler() // it outlives connections: the first sample of one has a sample before
	return &link{
		node: n, name: "TCS", backoff: n.Pace.TCS, farewell: true, report: func(s *ecsstatus.Status) *ecsstatus.Link { return &s.TCS },
		address: func(ctx context.Context) (string, error) {
			found, err := e.get(ctx)
			if err != nil {
				return "", err
			}
			return join(found.TCS, url.Values{
				"agentHash": {agentHash}, "agentVersion": {AgentVersion}, "cluster": {n.cluster()}, "containerInstance": {n.arn()}, "dockerVersion": {n.Engine},
			})
		},
		opened: func(address string) handler {
			return &tcsHandler{node: n, address: address, ticker: time.NewTicker(n.Pace.Telemetry), samples: samples}
		},
	}
}

// tcsHandler handles a connection of TCS.
type tcsHandler struct {
	node    *node
	address string
	ticker  *time.Ticker
	samples *sampler
}

func (h *tcsHandler) due() <-chan time.Time { return h.ticker.C }

func (h *tcsHandler) end() { h.ticker.Stop() }

func (h *tcsHandler) begin(ctx context.Context, c awscall.Conn) error {
	h.samples.take(ctx, h.node)
	return h.metrics(ctx, c)
}

func (h *tcsHandler) frame(_ context.Context, _ awscall.Conn, f wire.Frame) error {
	switch f.Type {
	case wire.TypeHeartbeat, wire.TypeMetricsAck, wire.TypeHealthAck, wire.TypeInstanceStatusAck:
	case wire.TypeInactiveInstance:
		return errInactive
	default:
		h.node.Log.Debug("TCS says", "type", f.Type, "message", string(f.Message[:min(len(f.Message), maxReason)]))
	}
	return nil
}

// send sends what is due each time: the instance's status only after ACS has asked for a sign of life.
func (h *tcsHandler) send(ctx context.Context, c awscall.Conn) error {
	h.samples.take(ctx, h.node)
	if err := h.health(ctx, c); err != nil {
		return err
	}
	if err := h.metrics(ctx, c); err != nil {
		return err
	}
	select {
	case <-h.node.heartbeats:
		return h.status(ctx, c)
	default:
		return nil
	}
}

// batches calls send with at most wire.MaxTasks at a time, and once where there are none; final is true
// for the last.
func batches[T any](all []T, send func(part []T, final bool) error) error {
	for {
		n := min(len(all), wire.MaxTasks)
		if err := send(all[:n], n == len(all)); err != nil || n == len(all) {
			return err
		}
		all = all[n:]
	}
}

// health sends the health of containers that have a check. Without any nothing is sent.
func (h *tcsHandler) health(ctx context.Context, c awscall.Conn) error {
	var all []wire.TaskHealth
	for _, w := range h.node.all() {
		if t, ok := healthOf(w.seen()); ok {
			all = append(all, t)
		}
	}
	if len(all) == 0 {
		return nil
	}
	id := uuid.New()
	return batches(all, func(part []wire.TaskHealth, final bool) error {
		return h.write(ctx, c, wire.TypeHealth, wire.Health{
			Metadata: wire.HealthMetadata{Cluster: h.node.cluster(), Instance: h.node.arn(), Final: final, MessageID: id},
			Tasks:    part, Timestamp: wire.Time{Time: time.Now()},
		})
	})
}

// healthOf is the health of a task; false if none of its containers that run has a check.
func healthOf(t api.Task, rec record) (wire.TaskHealth, bool) {
	out := wire.TaskHealth{ARN: rec.Task.ARN, Family: rec.Task.Family, Version: rec.Task.Version}
	for _, c := range t.Containers {
		if c.Health == nil || c.Status == wire.StatusStopped {
			continue
		}
		since := t.CreatedAt
		for _, e := range t.History {
			if e.Container == c.Name && e.Status == c.Health.Status {
				since = e.At
			}
		}
		out.Containers = append(out.Containers, wire.ContainerHealth{Name: c.Name, Status: c.Health.Status, Since: wire.At(since)})
	}
	return out, len(out.Containers) > 0
}

// metrics sends what containers used since the last time.
func (h *tcsHandler) metrics(ctx context.Context, c awscall.Conn) error {
	all := h.samples.sums(h.node)
	id := uuid.New()
	return batches(all, func(part []wire.TaskMetrics, final bool) error {
		return h.write(ctx, c, wire.TypeMetrics, wire.Metrics{
			Metadata: wire.MetricsMetadata{Cluster: h.node.cluster(), Instance: h.node.arn(), Final: final, Idle: len(all) == 0, MessageID: id},
			Tasks:    part, Timestamp: wire.Time{Time: time.Now()},
		})
	})
}

// status sends whether the agent answers.
func (h *tcsHandler) status(ctx context.Context, c awscall.Conn) error {
	_, err := h.node.Agent.Version(ctx)
	now := time.Now()
	word := "OK"
	if err != nil {
		word = "IMPAIRED"
	}
	if h.samples.status != word {
		h.samples.status, h.samples.statusAt = word, now
	}
	return h.write(ctx, c, wire.TypeInstanceStatus, wire.InstanceStatus{
		Metadata:  wire.InstanceMetadata{Cluster: h.node.cluster(), Instance: h.node.arn(), RequestID: uuid.New()},
		Statuses:  []wire.StatusOf{{LastStatusChange: wire.Time{Time: h.samples.statusAt}, LastUpdated: wire.Time{Time: now}, Status: word, Type: "ContainerRuntime"}},
		Timestamp: wire.Time{Time: now},
	})
}

// write sends a signed frame.
func (h *tcsHandler) write(ctx context.Context, c awscall.Conn, kind string, message any) error {
	text, err := wire.Encode(kind, message)
	if err != nil {
		return err
	}
	signed, err := h.node.Calls.SignFrame(ctx, h.address, text)
	if err != nil {
		return err
	}
	return c.Write(signed)
}
