// Package imagemetrics has the metrics of updates of images that wait.
package imagemetrics

import (
	"time"

	"github.com/podtask/podtask/pkg/images/imageage"
	"github.com/prometheus/client_golang/prometheus"
)

// New returns the metrics of what pending returns: the updates that wait, and tags that could not be looked at.
func New(pending func() ([]imageage.Pending, map[string]string, error)) prometheus.Collector {
	return metrics{pending}
}

type metrics struct {
	pending func() ([]imageage.Pending, map[string]string, error)
}

var (
	pendingDesc = prometheus.NewDesc("podtask_image_update_pending_since_seconds", "When the host saw the image first to which an update waits, in seconds since 1970, by who waits (unit NAME or service NAME).", []string{"image", "for"}, nil)
	unseenDesc  = prometheus.NewDesc("podtask_image_unseen", "1 for an image whose tag was to be looked at, without success.", []string{"image"}, nil)
)

// Describe implements prometheus.Collector.
func (m metrics) Describe(out chan<- *prometheus.Desc) {
	out <- pendingDesc
	out <- unseenDesc
}

// Collect implements prometheus.Collector.
func (m metrics) Collect(out chan<- prometheus.Metric) {
	waiting, unseen, err := m.pending()
	if err != nil {
		return
	}
	for _, p := range waiting {
		out <- prometheus.MustNewConstMetric(pendingDesc, prometheus.GaugeValue, float64(p.Since.UnixNano())/float64(time.Second), p.Image.Ref, p.For)
	}
	for ref := range unseen {
		out <- prometheus.MustNewConstMetric(unseenDesc, prometheus.GaugeValue, 1, ref)
	}
}
