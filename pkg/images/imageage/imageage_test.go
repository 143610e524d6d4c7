package imageage_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/images/imageage"
)

const day = 24 * time.Hour

func at(days float64) imageage.Moment {
	passed := time.Duration(days * float64(day))
	return imageage.Moment{Wall: epoch.Add(passed), Boot: "a", Up: passed}
}

func TestATagThatReturnsKeepsTheFirstSight(t *testing.T) {
	t.Parallel()
	p := imageage.Policy{Age: 3 * day}
	b := imageage.Book{}.See(web.Ref, "old", at(0))
	b, got, _ := b.Decide(web, "unit web", "", p, at(0))
	if got != "old" {
		t.Fatalf("the first start gets %s", got)
	}
	b = b.See(web.Ref, "new", at(1)).See(web.Ref, "old", at(2)).See(web.Ref, "new", at(3))
	b, got, wait := b.Decide(web, "unit web", "", p, at(3))
	if got != "old" || !wait.Until.Equal(epoch.Add(4*day)) || !strings.Contains(wait.Why, "for 2d, since 2026-03-02T00:00:00Z, and the minimum age is 3d") {
		t.Errorf("after two days: %s, %+v", got, wait)
	}
	if pending := b.Pending(parse, imageage.Rules{}, at(3.5)); len(pending) != 1 || pending[0].For != "unit web" || pending[0].New != "new" || !pending[0].Since.Equal(epoch.Add(day)) {
		t.Errorf("pending: %+v", pending)
	}
	if b, got, wait = b.Decide(web, "unit web", "", p, at(4)); got != "new" || wait.Why != "" {
		t.Errorf("after three days: %s, %+v", got, wait)
	}
	// It was known long enough, so the way back is free as well.
	if _, got, _ := b.See(web.Ref, "old", at(4)).Decide(web, "unit web", "", p, at(4)); got != "old" {
		t.Errorf("on the way back: %s", got)
	}
}

func parse(ref string) (imageage.Image, bool) { return web, ref == web.Ref }

// A digest that the tag had only for a while is never taken, however long ago that was.
func TestATagThatWasTakenOver(t *testing.T) {
	t.Parallel()
	p := imageage.Policy{Age: 3 * day}
	b, _, _ := imageage.Book{}.See(web.Ref, "good", at(0)).Decide(web, "u", "", p, at(0))
	b = b.See(web.Ref, "evil", at(5)).See(web.Ref, "fixed", at(6))
	if _, got, _ := b.Decide(web, "u", "", p, at(8.5)); got != "good" {
		t.Errorf("got %s", got)
	}
	if _, got, _ := b.Decide(web, "u", "", p, at(9)); got != "fixed" {
		t.Errorf("got %s", got)
	}
}

func TestTheFirstStartUsesTheCopyOfTheHost(t *testing.T) {
	t.Parallel()
	p := imageage.Policy{Age: 3 * day}
	b := imageage.Book{}.See(web.Ref, "new", at(0))
	if _, got, wait := b.Decide(web, "u", "old", p, at(0)); got != "old" || wait.Why == "" {
		t.Errorf("got %s, %+v", got, wait)
	}
	if _, got, _ := b.Take(web.Ref, "u", "new", 0).Decide(web, "u", "old", p, at(0)); got != "new" {
		t.Errorf("what was allowed by hand is not used: %s", got)
	}
}

func TestTheBookIsBounded(t *testing.T) {
	t.Parallel()
	var b imageage.Book
	for i := range 2500 {
		b = b.See(fmt.Sprintf("ghcr.io/a/b:%d", i), "d", at(float64(i)))
	}
	if len(b.Tags) != 2000 || b.Tags["ghcr.io/a/b:499"].Now != "" {
		t.Errorf("%d tags", len(b.Tags))
	}
	b = imageage.Book{}.See(web.Ref, "first", at(0)).Take(web.Ref, "u", "first", 0)
	for i := range 200 {
		b = b.See(web.Ref, fmt.Sprint(i), at(float64(i)))
	}
	if _, _, known := b.Known(web.Ref, "first"); !known || len(b.Tags[web.Ref].Sights) != 50 {
		t.Errorf("the digest that runs is known: %v, of %d", known, len(b.Tags[web.Ref].Sights))
	}
	for i := range 600 {
		b = b.Take(web.Ref, fmt.Sprint("u", i), "first", 0)
	}
	if n := len(b.Tags[web.Ref].Takers); n != 500 {
		t.Errorf("%d takers", n)
	}
	if b = b.Forget("u599"); len(b.Tags[web.Ref].Takers) != 499 {
		t.Error("a taker is not forgotten")
	}
}

func TestLooksAreDueOnceADayAndBackOff(t *testing.T) {
	t.Parallel()
	b := imageage.Book{}.See(web.Ref, "d", at(0))
	if due := b.Due(0, at(2)); len(due) != 0 {
		t.Errorf("nobody takes it, and it is due: %q", due)
	}
	b = b.Take(web.Ref, "u", "d", 0)
	for days, want := range map[float64]int{0.5: 0, 0.99: 0, 1: 1, 30: 1, 91: 0} {
		if due := b.Due(0, at(days)); len(due) != want {
			t.Errorf("after %v days are due: %q", days, due)
		}
	}
	asked := 0
	for minute := range 2 * 24 * 60 {
		m := at(1 + float64(minute)/24/60)
		if len(b.Due(0, m)) > 0 {
			asked++
			b = b.Failed(web.Ref, "away", m)
		}
	}
	if asked < 6 || asked > 8 { // after 0.5, 1, 2, 4, 8, 16 and 24 hours
		t.Errorf("asked %d times in two days", asked)
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	tags := func(text string) []imageage.TagRule {
		list, err := imageage.ParseTags(text)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	for _, c := range []struct {
		rules imageage.Rules
		tag   string
		want  bool
	}{
		{imageage.Rules{}, "latest", true},
		{imageage.Rules{Registries: []string{"ghcr.io"}}, "1", true},
		{imageage.Rules{Registries: []string{"ghcr.io/team"}}, "1", true},
		{imageage.Rules{Registries: []string{"ghcr.io/tea"}}, "1", false},
		{imageage.Rules{Registries: []string{"docker.io", "*.io/team/web"}}, "1", true},
		{imageage.Rules{Registries: []string{"docker.io"}}, "1", false},
		{imageage.Rules{Tags: tags("semver: ~1.4")}, "1.4.7", true},
		{imageage.Rules{Tags: tags("semver: ~1.4")}, "v1.4", true},
		{imageage.Rules{Tags: tags("semver: ~1.4")}, "1.5.0", false},
		{imageage.Rules{Tags: tags("semver: ~1.4")}, "latest", false},
		{imageage.Rules{Tags: tags("semver: >=1.2 <2, stable-*")}, "stable-3", true},
	} {
		i := web
		i.Tag = c.tag
		if why := c.rules.Refuses(i); (why == "") != c.want {
			t.Errorf("%+v: the tag %s: %q", c.rules, c.tag, why)
		}
	}
}

func TestHours(t *testing.T) {
	t.Parallel()
	hours, err := imageage.ParseHours("22:30-05:00, 12:00-13:00")
	if err != nil {
		t.Fatal(err)
	}
	for now, want := range map[string]string{"04:59": "04:59", "05:00": "12:00", "12:00": "12:00", "13:00": "22:30", "22:30": "22:30", "23:59": "23:59"} {
		from, _ := time.Parse("15:04", now)
		if got := (imageage.Rules{Hours: hours}).Opens(from).Format("15:04"); got != want {
			t.Errorf("at %s, updates begin at %s, not %s", now, got, want)
		}
	}
	if all, err := imageage.ParseHours("00:00-24:00"); err != nil || !(imageage.Rules{Hours: all}).Opens(epoch.Add(day-time.Minute)).Equal(epoch.Add(day-time.Minute)) {
		t.Errorf("a whole day: %v, %v", all, err)
	}
}

func TestRulesThatNoUpdateCanPass(t *testing.T) {
	t.Parallel()
	for text, parse := range map[string]func(string) error{
		"semver: >2 <1": tagError, "semver: >1.4.2 <1.4.3": tagError, "semver: one": tagError, "": tagError, "a b": tagError, "[": tagError,
		"05:00-05:00": hoursError, "5-6": hoursError, "24:00-01:00": hoursError, "25:00-26:00": hoursError, "00:60-01:00": hoursError,
		"https://ghcr.io": registryError, "localhost/app": registryError, "team/app": registryError, "[.io": registryError, "ghcr.io,": registryError,
	} {
		if parse(text) == nil {
			t.Errorf("%q is accepted", text)
		}
	}
	for text, parse := range map[string]func(string) error{
		"semver: >1.4.2 <1.4.4": tagError, "semver: <0.0.2": tagError, "semver: 1.x": tagError, "semver: >=1.2.3-rc.1": tagError, "semver: ^0.0.3 || 5": tagError, "latest": tagError,
		"localhost:5000/team": registryError, "*": registryError, "registry.example:5000": registryError,
	} {
		if err := parse(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func tagError(text string) error      { _, err := imageage.ParseTags(text); return err }
func hoursError(text string) error    { _, err := imageage.ParseHours(text); return err }
func registryError(text string) error { _, err := imageage.ParseRegistries(text); return err }

func TestAges(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"0": 0, "3d": 3 * day, "2w": 14 * day, "36h": 36 * time.Hour, "365d": 365 * day, "90m": 90 * time.Minute} {
		if got, err := imageage.ParseAge(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "3", "-1h", "366d", "9000h", "1.5d", "99999999999w", "d", "1ns"} {
		if got, err := imageage.ParseAge(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
	for age, want := range map[time.Duration]string{0: "0s", 3 * day: "3d", 52*time.Hour + time.Minute: "2d 4h", 36 * time.Minute: "36m", time.Hour: "1h", 90*time.Second + time.Millisecond: "1m 30s"} {
		if got := imageage.FormatAge(age); got != want {
			t.Errorf("%v is %s, not %s", age, got, want)
		}
	}
}

func FuzzRules(f *testing.F) {
	f.Add("semver: ~1.4", "02:00-05:00", "ghcr.io/team", "3d")
	f.Fuzz(func(t *testing.T, tags, hours, registries, age string) {
		var r imageage.Rules
		var err [4]error
		r.Tags, err[0] = imageage.ParseTags(tags)
		r.Hours, err[1] = imageage.ParseHours(hours)
		r.Registries, err[2] = imageage.ParseRegistries(registries)
		var d time.Duration
		if d, err[3] = imageage.ParseAge(age); err[3] == nil && (d < 0 || d > imageage.MaxAge) {
			t.Errorf("%q is %v", age, d)
		}
		if err[0] != nil || err[1] != nil || err[2] != nil {
			return
		}
		i := web
		i.Tag = hours
		r.Refuses(i)
		if open := r.Opens(epoch); open.Before(epoch) || open.Sub(epoch) > 2*day || !r.Opens(open).Equal(open) {
			t.Errorf("%q opens at %v", hours, open)
		}
	})
}
