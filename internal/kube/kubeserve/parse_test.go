package kubeserve

import (
	"net/url"
	"testing"
	"time"
)

func FuzzParseLogs(f *testing.F) {
	for _, q := range []string{"", "follow=true&tailLines=0", "tailLines=99999999999", "sinceTime=2026-01-02T03:04:05Z", "limitBytes=1&previous=1&timestamps=t"} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		r, err := parseLogs(q, time.Unix(1e9, 0))
		if err != nil {
			return
		}
		if r.Tail < -1 || r.limit == 0 || r.limit < -1 || r.Tail == -1 != (q.Get("tailLines") == "") {
			t.Errorf("%q: %+v", text, r)
		}
	})
}
