package autoscaling

import (
	"maps"
	"slices"

	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
	"github.com/podtask/podtask/pkg/promtext"
	"github.com/podtask/podtask/pkg/scaling"
)

const (
	// namespaceOwn is the namespace of metrics that the copies serve themselves. The dimension dimensionEndpoint is
	// CONTAINER:PORT/PATH; others are labels.
	namespaceOwn      = "podtask"
	dimensionEndpoint = "Endpoint"
	ownMetrics        = "metrics of CloudWatch are not known here: the namespace podtask, with the dimension Endpoint CONTAINER:PORT/PATH, is for metrics that the task itself serves in the text format of Prometheus"
)

// customized is a metric in AWS' words.
type customized struct {
	MetricName string
	Namespace  string
	Statistic  string
	Dimensions []dimension
}

type dimension struct{ Name, Value string }

func customizedMembers(of string) []protocol.Member {
	return protocol.Members(
		protocol.Honor(of, of+".MetricName", of+".Namespace", of+".Statistic", of+".Dimensions", of+".Dimensions[].Name!", of+".Dimensions[].Value!"),
		protocol.Refuse(ownMetrics, of+".Metrics", of+".Unit"))
}

// metric returns the metric of the copies' own.
func (in customized) metric() (scaling.Metric, error) {
	const member = "CustomizedMetricSpecification"
	if in.Namespace != namespaceOwn {
		return "", protocol.Invalidf("%s.Namespace: %q: %s", member, protocol.Shortened(in.Namespace), ownMetrics)
	}
	if in.Statistic != "Average" {
		return "", protocol.Invalidf("%s.Statistic: it is Average, over the copies, not %q", member, protocol.Shortened(in.Statistic))
	}
	endpoint, series := "", promtext.Series{Name: in.MetricName, Labels: map[string]string{}}
	for _, d := range in.Dimensions {
		if d.Name == dimensionEndpoint {
			endpoint = d.Value
		} else {
			series.Labels[d.Name] = d.Value
		}
	}
	o, err := scaling.ParseOwn(endpoint + " " + series.String())
	if err == nil {
		_, err = promtext.ParseSeries(o.Series)
	}
	if err != nil {
		return "", protocol.Invalidf("%s: %s", member, protocol.Shortened(err.Error()))
	}
	return o.Metric(), nil
}

// customizedOf returns a metric of the copies' own in AWS' words; nil for another one.
func customizedOf(m scaling.Metric) *customized {
	o, err := scaling.ParseOwn(string(m))
	if err != nil {
		return nil
	}
	series, err := promtext.ParseSeries(o.Series)
	if err != nil {
		return nil
	}
	c := customized{MetricName: series.Name, Namespace: namespaceOwn, Statistic: "Average", Dimensions: []dimension{{dimensionEndpoint, o.Endpoint.String()}}}
	for _, name := range slices.Sorted(maps.Keys(series.Labels)) {
		c.Dimensions = append(c.Dimensions, dimension{name, series.Labels[name]})
	}
	return &c
}
