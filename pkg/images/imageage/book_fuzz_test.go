package imageage

import (
	"encoding/json"
	"testing"
	"time"
)

// FuzzBook: a book that was edited can be worked with, keeps its bounds, and makes no digest older than its clock.
func FuzzBook(f *testing.F) {
	for _, text := range []string{
		`{"tags":{"example.com/a:1":{"failures":-5}}}`,
		`{"clock":-9223372036854775808,"last":{"wall":"9999-12-31T23:59:59Z","boot":"b","up":9223372036854775807},"tags":{"example.com/a:1":{"now":"x","looked":-5,"sights":[{"digest":"y","first":9223372036854775807}],"takers":{"unit a":{"digest":"z","age":-9223372036854775808}}}}}`,
		`{"behind":true,"tags":{"":{"takers":{"":{}}},"example.com/a:1":{"notBefore":9223372036854775807}}}`,
		`null`,
	} {
		f.Add([]byte(text))
	}
	m := Moment{Wall: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Boot: "b", Up: time.Hour}
	const ref = "example.com/a:1"
	i := Image{Ref: ref, Registry: "example.com", Repository: "a", Tag: "1"}
	f.Fuzz(func(t *testing.T, text []byte) {
		var b Book
		if json.Unmarshal(text, &b) != nil {
			return
		}
		tags, sights := len(b.Tags), len(b.Tags[ref].Sights)
		b = b.Failed(ref, "it does not answer", m)
		b = b.See(ref, "sha256:new", m)
		b, _, _ = b.Decide(i, "unit b", "", Policy{Age: time.Hour}, m)
		b.Due(time.Minute, m)
		b.Pending(func(string) (Image, bool) { return i, true }, Rules{}, m)
		b = b.Forget("unit b")
		if len(b.Tags) > max(tags+1, maxTags) || len(b.Tags[ref].Sights) > max(sights+1, maxSights+maxTakers+1) {
			t.Errorf("%d tags and %d sights became %d and %d", tags, sights, len(b.Tags), len(b.Tags[ref].Sights))
		}
	})
}
