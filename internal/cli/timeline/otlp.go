package timeline

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
)

// OTLP returns the chart as a trace: the JSON form of an ExportTraceServiceRequest of
// OpenTelemetry 1, which collectors read from a file or by POST to /v1/traces. The root span is
// the first lane, its children are the other lanes, and theirs the spans. Trace is the trace ID,
// 32 hexadecimal digits; equal charts give equal IDs of spans. Attributes describe the resource.
func (c Chart) OTLP(trace string, attributes map[string]string) ([]byte, error) {
	var spans []otlpSpan
	root := ""
	for i, l := range c.Lanes {
		from, to := c.From, c.To
		if n := len(l.Spans); n > 0 {
			from, to = l.Spans[0].From, l.Spans[n-1].To
		}
		lane := newSpan(trace, root, l.Name, Span{From: from, To: to}, strconv.Itoa(i))
		lane.fail(l.Failed, l.Note)
		if i == 0 {
			root = lane.SpanID
		}
		spans = append(spans, lane)
		for k, s := range l.Spans {
			kind := s.Activity
			if kind == "" {
				kind = s.State
			}
			step := newSpan(trace, lane.SpanID, kind, s, fmt.Sprintf("%d/%d", i, k))
			step.Attributes = []otlpAttribute{attribute("podtask.status", s.State)}
			step.fail(s.Failed || l.Failed && k == len(l.Spans)-1, l.Note)
			spans = append(spans, step)
		}
	}
	resource := []otlpAttribute{attribute("service.name", "podtask")}
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		resource = append(resource, attribute(name, attributes[name]))
	}
	return json.MarshalIndent(map[string]any{"resourceSpans": []any{map[string]any{
		"resource":   map[string]any{"attributes": resource},
		"scopeSpans": []any{map[string]any{"scope": map[string]any{"name": "podtask"}, "spans": spans}},
	}}}, "", "  ")
}

// otlpSpan is a span in the JSON encoding of OTLP: IDs in hexadecimal, 64-bit numbers as text.
type otlpSpan struct {
	TraceID    string          `json:"traceId"`
	SpanID     string          `json:"spanId"`
	Parent     string          `json:"parentSpanId,omitempty"`
	Name       string          `json:"name"`
	Kind       int             `json:"kind"`
	Start      string          `json:"startTimeUnixNano"`
	End        string          `json:"endTimeUnixNano"`
	Attributes []otlpAttribute `json:"attributes,omitempty"`
	Status     *otlpStatus     `json:"status,omitempty"`
}

type otlpStatus struct {
	Message string `json:"message,omitempty"`
	Code    int    `json:"code"`
}

type otlpAttribute struct {
	Key   string            `json:"key"`
	Value map[string]string `json:"value"`
}

// Values of OTLP.
const (
	otlpInternal = 1 // SPAN_KIND_INTERNAL
	otlpError    = 2 // STATUS_CODE_ERROR
)

// newSpan returns a span with the times of s; place makes its ID unique in the trace.
func newSpan(trace, parent, name string, s Span, place string) otlpSpan {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%s", trace, place)
	return otlpSpan{
		TraceID: trace, SpanID: fmt.Sprintf("%016x", max(1, h.Sum64())), Parent: parent, Name: name, Kind: otlpInternal,
		Start: strconv.FormatInt(s.From.UnixNano(), 10), End: strconv.FormatInt(s.To.UnixNano(), 10),
	}
}

func (s *otlpSpan) fail(failed bool, message string) {
	if failed {
		s.Status = &otlpStatus{message, otlpError}
	}
}

func attribute(key, value string) otlpAttribute {
	return otlpAttribute{key, map[string]string{"stringValue": value}}
}
