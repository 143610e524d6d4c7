package scaling

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"

	"github.com/podtask/podtask/internal/lazy"
)

// Endpoint is a page of a container in the text format of Prometheus, over HTTP.
type Endpoint struct {
	Container string
	Port      uint16
	// Path begins with a slash and may have a query.
	Path string
}

// Own is a metric of the copies' own endpoint, the sum of its samples. The Metric of a policy names it by CONTAINER:PORT/PATH NAME
// or CONTAINER:PORT/PATH NAME{LABEL="VALUE",...}.
type Own struct {
	Endpoint
	// Series is NAME or NAME{LABEL="VALUE",...}. Its labels are not checked here.
	Series string
}

// String is the endpoint as ParseOwn reads it.
func (e Endpoint) String() string { return fmt.Sprintf("%s:%d%s", e.Container, e.Port, e.Path) }

// Metric names the metric in a policy.
func (o Own) Metric() Metric { return Metric(o.Endpoint.String() + " " + o.Series) }

// IsOwn reports whether a metric is one of the copies' own.
func (m Metric) IsOwn() bool { return strings.Contains(string(m), " ") }

var ownMetric = lazy.MustCompile(`^([a-zA-Z0-9][a-zA-Z0-9_-]{0,254}):([0-9]{1,5})(/[!-"$-~]{0,254})? ([a-zA-Z_:][a-zA-Z0-9_:]{0,254}(\{[^\x00-\x1f]{0,1000}\})?)$`)

// ParseOwn reads CONTAINER:PORT[/PATH] NAME[{LABEL="VALUE",...}]. The path is /metrics if there is none.
func ParseOwn(text string) (o Own, err error) {
	m := ownMetric.FindStringSubmatch(text)
	if m == nil {
		return o, fmt.Errorf("%q is no metric of an endpoint: write CONTAINER:PORT[/PATH] NAME, such as app:9090/metrics jobs_waiting", text)
	}
	at, err := netip.ParseAddrPort("0.0.0.0:" + m[2])
	if err != nil || at.Port() == 0 {
		return o, fmt.Errorf("%q: a port is 1 to 65535, not %s", text, m[2])
	}
	return Own{Endpoint{m[1], at.Port(), cmp.Or(m[3], "/metrics")}, m[4]}, nil
}

// Own returns the metrics of the copies' own that the policies track, by endpoint.
func (c Config) Own() map[Endpoint][]Own {
	all := make(map[Endpoint][]Own)
	for _, p := range c.Policies {
		if !p.Metric.IsOwn() {
			continue
		}
		if o, err := ParseOwn(string(p.Metric)); err == nil {
			all[o.Endpoint] = append(all[o.Endpoint], o)
		}
	}
	return all
}

// checkOwn returns what is wrong with the metric of a policy that is none of Metrics.
func (m Metric) checkOwn() error {
	if !m.IsOwn() {
		return fmt.Errorf("the metric is one of %v, or one of an endpoint, CONTAINER:PORT/PATH NAME, not %q", Metrics, m)
	}
	o, err := ParseOwn(string(m))
	if err == nil && o.Metric() != m {
		err = fmt.Errorf("the metric %q is to be written %q", m, o.Metric())
	}
	return err
}
