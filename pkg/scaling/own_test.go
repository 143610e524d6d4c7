package scaling

import (
	"strings"
	"testing"
)

func TestParseOwn(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"app:9090 jobs":                  "app:9090/metrics jobs",
		`app:9090/m?x=1 jobs{a="x y=}"}`: `app:9090/m?x=1 jobs{a="x y=}"}`,
		"app:0 jobs":                     "",
		"app:65536 jobs":                 "",
		"app:9090":                       "",
		"app:9090 ":                      "",
		":9090 jobs":                     "",
		"app jobs":                       "",
		"app:9090metrics jobs":           "",
		"app:9090/a#b jobs":              "",
		"app:9090/ jobs 5":               "",
		"../x:80 jobs":                   "",
	} {
		o, err := ParseOwn(text)
		if (err == nil) != (want != "") || err == nil && string(o.Metric()) != want {
			t.Errorf("%s: %q, %v; want %q", text, o.Metric(), err, want)
		}
	}
}

func TestAPolicyOfAnOwnMetric(t *testing.T) {
	t.Parallel()
	c := Config{Min: 1, Max: 4, Policies: []Policy{{Name: "jobs", Metric: "app:9090/metrics jobs", Target: 10}, {Name: "more", Metric: "app:9090/metrics more", Target: 10}}}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	if all := c.Own(); len(all) != 1 || len(all[Endpoint{"app", 9090, "/metrics"}]) != 2 {
		t.Errorf("%+v", all)
	}
	c.Policies[0].Metric, c.Policies[1].Metric = "app:9090 jobs", "jobs"
	err := c.Check()
	for _, want := range []string{`is to be written "app:9090/metrics jobs"`, `CONTAINER:PORT/PATH NAME, not "jobs"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in %v", want, err)
		}
	}
	w := newWorld(1, Config{Min: 1, Max: 4, Policies: []Policy{{Name: "jobs", Metric: "app:9090/metrics jobs", Target: 10}}})
	for range 3 {
		w.sample(1, map[Metric]float64{"app:9090/metrics jobs": 25})
	}
	w.want(t, 3, "")
}
