// Package promtext reads single metrics from the text format of Prometheus.
package promtext

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Series names the samples of a metric that have all of the labels.
type Series struct {
	// Name is that of a metric; with _count or _sum behind it, that of a histogram or summary too.
	Name   string
	Labels map[string]string
}

// Sum adds up the samples of a series.
type Sum struct {
	Value float64
	// Found: there is a sample.
	Found bool
	// Counter: the metric only grows, as long as its program runs.
	Counter bool
}

// ParseSeries reads NAME or NAME{LABEL="VALUE",...}.
func ParseSeries(text string) (Series, error) {
	wrong := fmt.Errorf(`%q is no metric: write NAME or NAME{LABEL="VALUE"}`, text)
	if strings.ContainsAny(text, "\n\r#") {
		return Series{}, wrong
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text + " 1\n"))
	if err != nil || len(families) != 1 {
		return Series{}, wrong
	}
	for name, family := range families {
		s := Series{Name: name, Labels: map[string]string{}}
		for _, l := range family.GetMetric()[0].GetLabel() {
			s.Labels[l.GetName()] = l.GetValue()
		}
		if len(family.GetMetric()) == 1 && family.GetMetric()[0].GetUntyped().GetValue() == 1 && s.Name != "" {
			return s, nil
		}
	}
	return Series{}, wrong
}

var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// String is the series as ParseSeries reads it, with its labels in order.
func (s Series) String() string {
	var labels []string
	for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
		labels = append(labels, name+`="`+escape.Replace(s.Labels[name])+`"`)
	}
	if len(labels) == 0 {
		return s.Name
	}
	return s.Name + "{" + strings.Join(labels, ",") + "}"
}

// maxLine is the longest line in bytes.
const maxLine = 64 << 10

// Read returns the sums of series in a text. Lines about other metrics are left out unread, so that they cost nothing. An error
// names no content: it may be secret.
func Read(r io.Reader, wanted ...Series) ([]Sum, error) {
	var ours bytes.Buffer
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		line := bytes.TrimLeft(lines.Bytes(), " \t")
		if slices.ContainsFunc(wanted, func(s Series) bool { return s.about(line) }) {
			ours.Write(line)
			ours.WriteByte('\n')
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("a line is longer than %d bytes", maxLine)
	} else if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(&ours)
	if err != nil {
		return nil, errors.New("it is not in the text format of Prometheus")
	}
	sums := make([]Sum, len(wanted))
	for i, s := range wanted {
		sums[i] = s.sum(families)
	}
	return sums, nil
}

// families are the names that the metric may have in the text.
func (s Series) families() []string {
	names := []string{s.Name}
	for _, suffix := range []string{"_count", "_sum"} {
		if base, ok := strings.CutSuffix(s.Name, suffix); ok {
			names = append(names, base)
		}
	}
	return names
}

// about reports whether a line may belong to the metric.
func (s Series) about(line []byte) bool {
	if after, ok := bytes.CutPrefix(line, []byte("#")); ok {
		after, ok = bytes.CutPrefix(bytes.TrimLeft(after, " \t"), []byte("TYPE"))
		if !ok {
			return false
		}
		line = bytes.TrimLeft(after, " \t")
	}
	return bytes.HasPrefix(line, []byte("{")) || slices.ContainsFunc(s.families(), func(name string) bool { return bytes.HasPrefix(line, []byte(name)) })
}

func (s Series) sum(families map[string]*dto.MetricFamily) (sum Sum) {
	for _, name := range s.families() {
		for _, sample := range families[name].GetMetric() {
			if !s.has(sample) {
				continue
			}
			value, counter, ok := s.value(sample, name)
			if !ok {
				continue
			}
			sum.Value += value
			sum.Found, sum.Counter = true, counter
		}
		if sum.Found {
			return sum
		}
	}
	return sum
}

func (s Series) has(sample *dto.Metric) bool {
	found := 0
	for _, l := range sample.GetLabel() {
		if want, ok := s.Labels[l.GetName()]; ok && want == l.GetValue() {
			found++
		}
	}
	return found == len(s.Labels)
}

// value is that of one sample; of a histogram or summary it is the count or sum that the name says.
func (s Series) value(sample *dto.Metric, family string) (value float64, counter, ok bool) {
	count, sum := s.Name == family+"_count", s.Name == family+"_sum"
	switch {
	case sample.Counter != nil:
		return sample.GetCounter().GetValue(), true, true
	case sample.Gauge != nil:
		return sample.GetGauge().GetValue(), false, true
	case sample.Untyped != nil:
		return sample.GetUntyped().GetValue(), false, true
	case sample.Histogram != nil && count:
		return float64(sample.GetHistogram().GetSampleCount()), true, true
	case sample.Histogram != nil && sum:
		return sample.GetHistogram().GetSampleSum(), true, true
	case sample.Summary != nil && count:
		return float64(sample.GetSummary().GetSampleCount()), true, true
	case sample.Summary != nil && sum:
		return sample.GetSummary().GetSampleSum(), true, true
	}
	return 0, false, false
}
