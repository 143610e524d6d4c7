package instance

import (
	"context"
	"net/url"
	"time"

	"github.com/podtask/podtask/internal/aws/instance/awscall"
	"github.com/podtask/podtask/internal/aws/instance/wire"
)

// tcs is the link that takes telemetry.
func (n *node) tcs(e *endpoints) *link {
	return &link{
		node: n, name: "TCS", backoff: n.Pace.TCS, farewell: true, report: func(s *Status) *Link { return &s.TCS },
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
			return &tcsHandler{node: n, address: address, ticker: time.NewTicker(n.Pace.Telemetry)}
		},
	}
}

// tcsHandler handles a connection of TCS.
type tcsHandler struct {
	node    *node
	address string
	ticker  *time.Ticker
}

func (h *tcsHandler) due() <-chan time.Time { return h.ticker.C }
func (h *tcsHandler) end()                  { h.ticker.Stop() }

func (h *tcsHandler) begin(ctx context.Context, c awscall.Conn) error { return h.metrics(ctx, c) }

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

// send sends what is due each time.
func (h *tcsHandler) send(ctx context.Context, c awscall.Conn) error {
	return h.metrics(ctx, c)
}

func (h *tcsHandler) metrics(ctx context.Context, c awscall.Conn) error {
	m := wire.Metrics{Timestamp: wire.Time{Time: time.Now()}}
	m.Metadata = wire.MetricsMetadata{Cluster: h.node.cluster(), Instance: h.node.arn(), Final: true, Idle: true, MessageID: newUUID()}
	return h.write(ctx, c, wire.TypeMetrics, m)
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

// UsageReader reads what containers use.
type UsageReader interface{}
