package imageage

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Moment is a reading of the host's clocks.
type Moment struct {
	// Wall is the wall clock, in the time zone of the host.
	Wall time.Time `json:"wall"`
	// Boot tells one run of the host from another, Up is the time since its start, suspension included.
	Boot string        `json:"boot"`
	Up   time.Duration `json:"up"`
}

// longestOff is the longest time for which a host is believed to have been off. A clock that says more is wrong.
const longestOff = 30 * 24 * time.Hour

// Since returns the time from before to m; never less than 0. Over a restart of the host it is that of the wall clock, or, where that
// cannot be right, the time since the start.
func (m Moment) Since(before Moment) time.Duration {
	passed := m.Wall.Sub(before.Wall)
	switch {
	case before.Wall.IsZero():
		return 0
	case m.Boot == before.Boot && m.Boot != "":
		return max(0, m.Up-before.Up)
	case passed > longestOff:
		passed = 0
	}
	return max(0, m.Up, passed)
}

// Book is the memory of a host. The zero value is empty. It has no secret.
type Book struct {
	// Clock is the time that has passed since the first entry, Last the reading at which it was brought forward, with the
	// latest wall clock that was seen.
	Clock time.Duration `json:"clock"`
	Last  Moment        `json:"last"`
	// Behind: the wall clock was behind at Last, so that the next start of the host does not count by it.
	Behind bool `json:"behind,omitempty"`
	// Damaged is the time at which an earlier book could not be read; zero for never.
	Damaged time.Time `json:"damaged,omitzero"`
	// Tags are by REGISTRY/NAME:TAG.
	Tags map[string]Tag `json:"tags,omitempty"`
}

// Tag has the digests and takers of one tag.
type Tag struct {
	// Now is the digest at the latest look, which was at Looked by the book's clock.
	Now    string        `json:"now,omitempty"`
	Looked time.Duration `json:"looked"`
	// Sights are the digests by the time of the first sight, the earliest first.
	Sights []Sight `json:"sights,omitempty"`
	// Takers are by name, such as "unit web-task.service".
	Takers map[string]Taker `json:"takers,omitempty"`
	// Failures counts looks in a row that have failed, Problem is the latest failure, NotBefore the time of the next look.
	Failures  int           `json:"failures,omitempty"`
	Problem   string        `json:"problem,omitempty"`
	NotBefore time.Duration `json:"notBefore,omitempty"`
}

// Sight is a digest with the time of the first sight.
type Sight struct {
	Digest string `json:"digest"`
	// First is by the book's clock; Wall is the wall clock then, for people.
	First time.Duration `json:"first"`
	Wall  time.Time     `json:"wall"`
}

// Taker is a unit, service or stack with an image of a tag.
type Taker struct {
	// Digest is the one that it runs, Asked the time at which it last asked, by the book's clock.
	Digest string        `json:"digest"`
	Asked  time.Duration `json:"asked"`
	// Age is its minimum age.
	Age time.Duration `json:"age"`
}

const (
	// maxTags, maxSights and maxTakers bound the book.
	maxTags, maxSights, maxTakers = 2000, 50, 500
	// takerTime is the time after which a taker that does not ask is no more looked for.
	takerTime = 90 * 24 * time.Hour
)

// tolerance is by how much the wall clock and the time since the start of the host may differ, as while NTP corrects it.
const tolerance = time.Minute

// Advance returns the book with its clock brought forward to m.
func (b Book) Advance(m Moment) Book {
	passed := m.Since(b.Last)
	if b.Behind && m.Boot != b.Last.Boot {
		passed = max(0, m.Up)
	}
	wall := b.Last.Wall.Add(passed)
	if b.Behind = !b.Last.Wall.IsZero() && m.Wall.Before(wall.Add(-tolerance)); b.Behind {
		m.Wall = wall
	}
	b.Clock, b.Last = b.Clock+passed, m
	return b
}

// See returns the book after a look at m, which found digest for a tag.
func (b Book) See(ref, digest string, m Moment) Book {
	return b.Advance(m).change(ref, func(t Tag, clock time.Duration) Tag {
		t.Now, t.Looked, t.Failures, t.Problem, t.NotBefore = digest, clock, 0, "", 0
		if slices.ContainsFunc(t.Sights, func(s Sight) bool { return s.Digest == digest }) {
			return t
		}
		t.Sights = append(slices.Clone(t.Sights), Sight{Digest: digest, First: clock, Wall: m.Wall.UTC().Truncate(time.Second)})
		for i := 0; len(t.Sights) > maxSights; {
			if d := t.Sights[i].Digest; d == t.Now || t.taken(d) {
				i++ // at most maxTakers
				if i == len(t.Sights) {
					return t
				}
				continue
			}
			t.Sights = slices.Delete(t.Sights, i, i+1)
		}
		return t
	})
}

func (t Tag) taken(digest string) bool {
	for _, taker := range t.Takers {
		if taker.Digest == digest {
			return true
		}
	}
	return false
}

const (
	// LookEvery is the time between two looks at a tag; the caller adds jitter.
	LookEvery = 24 * time.Hour
	// firstPause and its doubles are the pauses after looks that have failed, up to LookEvery.
	firstPause = 30 * time.Minute
	maxProblem = 300
)

// Failed returns the book after a look at m that has failed.
func (b Book) Failed(ref, problem string, m Moment) Book {
	return b.Advance(m).change(ref, func(t Tag, clock time.Duration) Tag {
		pause := min(firstPause<<max(0, min(t.Failures, 10)), LookEvery)
		t.Failures, t.Problem, t.NotBefore = t.Failures+1, problem[:min(len(problem), maxProblem)], clock+pause
		return t
	})
}

// Due returns the tags that somebody takes and that were not looked at for a day, by name. Early is subtracted from the day.
func (b Book) Due(early time.Duration, m Moment) (refs []string) {
	b = b.Advance(m)
	for ref, t := range b.Tags {
		if b.Clock-t.Looked >= LookEvery-early && b.Clock >= t.NotBefore && len(b.Takers(ref)) > 0 {
			refs = append(refs, ref)
		}
	}
	slices.Sort(refs)
	return refs
}

// Takers returns the names of those who run images of a tag and have asked for it within 90 days.
func (b Book) Takers(ref string) (names []string) {
	for name, t := range b.Tags[ref].Takers {
		if b.Clock-t.Asked < takerTime {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Known returns for how long the host has known a digest of a tag, and the wall clock at the first sight; false if it does not.
func (b Book) Known(ref, digest string) (age time.Duration, since time.Time, ok bool) {
	for _, s := range b.Tags[ref].Sights {
		if s.Digest == digest {
			return b.Clock - s.First, s.Wall, true
		}
	}
	return 0, time.Time{}, false
}

// Take returns the book after name was given a digest of a tag.
func (b Book) Take(ref, name, digest string, age time.Duration) Book {
	return b.change(ref, func(t Tag, clock time.Duration) Tag {
		if t.Takers = maps.Clone(t.Takers); t.Takers == nil {
			t.Takers = map[string]Taker{}
		}
		t.Takers[name] = Taker{Digest: digest, Asked: clock, Age: age}
		for len(t.Takers) > maxTakers {
			delete(t.Takers, least(t.Takers, func(t Taker) time.Duration { return t.Asked }))
		}
		return t
	})
}

// Forget returns the book without a taker.
func (b Book) Forget(name string) Book {
	for ref, t := range b.Tags {
		if _, takes := t.Takers[name]; takes {
			b = b.change(ref, func(t Tag, _ time.Duration) Tag {
				t.Takers = maps.Clone(t.Takers)
				delete(t.Takers, name)
				return t
			})
		}
	}
	return b
}

// change replaces what is known of a tag, and forgets the tags that nobody has looked at for longest if there are too many.
func (b Book) change(ref string, change func(t Tag, clock time.Duration) Tag) Book {
	if b.Tags = maps.Clone(b.Tags); b.Tags == nil {
		b.Tags = map[string]Tag{}
	}
	b.Tags[ref] = change(b.Tags[ref], b.Clock)
	for len(b.Tags) > maxTags {
		delete(b.Tags, least(b.Tags, func(t Tag) time.Duration { return t.Looked }))
	}
	return b
}

// least returns the key of the least value.
func least[T any](all map[string]T, of func(T) time.Duration) string {
	return slices.MinFunc(slices.Sorted(maps.Keys(all)), func(a, b string) int { return cmp.Compare(of(all[a]), of(all[b])) })
}

// fresh is by how much the times of a book may be behind before it is worth writing.
const fresh = time.Hour

// Fresh reports whether after says no more than b, but for times within an hour, so that it need not be written.
func (b Book) Fresh(after Book) bool {
	if after.Clock-b.Clock >= fresh || after.Last.Boot != b.Last.Boot || after.Behind != b.Behind || !after.Damaged.Equal(b.Damaged) || len(after.Tags) != len(b.Tags) {
		return false
	}
	for ref, t := range after.Tags {
		old := b.Tags[ref]
		if t.Now != old.Now || t.Problem != old.Problem || t.Failures != old.Failures || len(t.Sights) != len(old.Sights) || len(t.Takers) != len(old.Takers) || t.Looked-old.Looked >= fresh {
			return false
		}
		for name, taker := range t.Takers {
			if was := old.Takers[name]; taker.Digest != was.Digest || taker.Age != was.Age || taker.Asked-was.Asked >= fresh {
				return false
			}
		}
	}
	return true
}
