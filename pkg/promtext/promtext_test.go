package promtext

import (
	"reflect"
	"strings"
	"testing"
)

const page = `# HELP jobs Jobs that wait.
# TYPE jobs gauge
jobs{queue="mail",shard="1"} 3
jobs{queue="mail",shard="2"} 4.5
jobs{queue="video"} 100
# TYPE done_total counter
done_total 12 1700000000000
plain 7
this line is of no metric that anybody asked for
# TYPE took histogram
took_bucket{le="1"} 1
took_bucket{le="+Inf"} 2
took_sum 9
took_count 2
`

func TestRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Sum{
		"jobs":                          {107.5, true, false},
		`jobs{queue="mail"}`:            {7.5, true, false},
		`jobs{queue="mail", shard="2"}`: {4.5, true, false},
		`jobs{queue="none"}`:            {},
		"done_total":                    {12, true, true},
		"plain":                         {7, true, false},
		"took_count":                    {2, true, true},
		"took_sum":                      {9, true, true},
		"took":                          {},
		"job":                           {},
		"nothing_count":                 {},
		"this":                          {},
		"jobs{queue=\"mail\",shard=\"1\",more=\"\"}": {},
	} {
		s, err := ParseSeries(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if text == "this" {
			if _, err := Read(strings.NewReader(page), s); err == nil || strings.Contains(err.Error(), "anybody") {
				t.Errorf("a line that cannot be read: %v", err)
			}
			continue
		}
		got, err := Read(strings.NewReader(page), s)
		if err != nil || got[0] != want {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
	if _, err := Read(strings.NewReader("jobs "+strings.Repeat("1", maxLine)), Series{Name: "jobs"}); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("a long line: %v", err)
	}
}

func TestParseSeries(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", " ", "1a", "a b", "a 2", "a{", "a{b}", "a{b=c}", "a\nb", "# TYPE a counter", `a{b="c"} 5`, "a=1"} {
		if s, err := ParseSeries(bad); err == nil || !strings.Contains(err.Error(), "is no metric") {
			t.Errorf("%q is %+v", bad, s)
		}
	}
	s, err := ParseSeries(`a{c="x,\"}",b="2"}`)
	if err != nil || s.String() != `a{b="2",c="x,\"}"}` {
		t.Errorf("%s, %v", s, err)
	}
}

// FuzzRead: whatever an endpoint answers is read or refused, and a series that was read is written as it can be read again.
func FuzzRead(f *testing.F) {
	f.Add(page, `jobs{queue="mail"}`)
	f.Add("# TYPE jobs histogram\njobs_bucket{le=\"x\"} 1\njobs_count -1\n", "jobs_count")
	f.Add("{\"jobs\",queue=\"mail\"} NaN\n", "jobs")
	f.Add("jobs{queue=\"\\", "jobs")
	f.Fuzz(func(t *testing.T, text, series string) {
		s, err := ParseSeries(series)
		if err != nil {
			return
		}
		if again, err := ParseSeries(s.String()); err != nil || !reflect.DeepEqual(again, s) {
			t.Errorf("%q is %+v, then %+v, %v", series, s, again, err)
		}
		sums, err := Read(strings.NewReader(text), s)
		if err == nil && len(sums) != 1 {
			t.Errorf("%d sums", len(sums))
		}
	})
}
