package imageage

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Policy is a minimum age with rules.
type Policy struct {
	// Age is the time for which the host must have known a digest; 0 for any.
	Age time.Duration
	Rules
}

// Demands reports whether the policy can hold anything back.
func (p Policy) Demands() bool {
	return p.Age > 0 || len(p.Registries)+len(p.Tags)+len(p.Hours) > 0
}

// Image is a tag at its registry.
type Image struct {
	// Ref is REGISTRY/NAME:TAG.
	Ref, Registry, Repository, Tag string
}

// Wait is the reason for which a digest is not taken yet.
type Wait struct {
	// Why is a sentence without a full stop; empty if nothing waits.
	Why string
	// Until is the time at which it ends if nothing changes; zero if that is not known.
	Until time.Time
}

// Allowed returns why the digest that a tag has now may not be taken; the zero Wait if it may. The book is that of m.
func (b Book) Allowed(i Image, p Policy, m Moment) Wait {
	if why := p.Refuses(i); why != "" {
		return Wait{Why: why}
	}
	at, why := m.Wall, ""
	if age, since, known := b.Known(i.Ref, b.Tags[i.Ref].Now); !known || age < p.Age {
		at = m.Wall.Add(p.Age - age)
		why = fmt.Sprintf("this host has known it for %s, since %s, and the minimum age is %s", FormatAge(age), since.UTC().Format(time.RFC3339), FormatAge(p.Age))
	}
	if open := p.Opens(at); open.After(at) || why != "" {
		if why == "" {
			why = "it is not within update-hours"
		}
		return Wait{Why: why, Until: open.UTC().Truncate(time.Second)}
	}
	return Wait{}
}

// Decide returns the book after somebody asks for a tag that the book has seen, with the digest to run and why it is not
// the one that the tag has now. Somebody who has no digest yet starts with the digest has, empty for none.
func (b Book) Decide(i Image, name, has string, p Policy, m Moment) (Book, string, Wait) {
	b = b.Advance(m)
	now, taken := b.Tags[i.Ref].Now, b.Tags[i.Ref].Takers[name].Digest
	for _, first := range []string{has, now} {
		if taken == "" {
			taken = first
		}
	}
	wait := Wait{}
	if taken != now {
		if wait = b.Allowed(i, p, m); wait.Why == "" {
			taken = now
		}
	}
	return b.Take(i.Ref, name, taken, p.Age), taken, wait
}

// Pending is a digest that somebody waits for.
type Pending struct {
	Image Image
	// For names the taker: "unit web-task.service" or "service shop".
	For string
	// Digest is the one that it runs, New that of the tag now, Since the time at which the host saw New first.
	Digest, New string
	Since       time.Time
	Wait
}

// Pending returns who waits for what, sorted by image. The parts of an image's name come from parse; one that it does
// not know is left out.
func (b Book) Pending(parse func(ref string) (Image, bool), rules Rules, m Moment) (all []Pending) {
	b = b.Advance(m)
	for ref, t := range b.Tags {
		i, ok := parse(ref)
		if !ok {
			continue
		}
		for _, name := range b.Takers(ref) {
			if taker := t.Takers[name]; taker.Digest != t.Now && t.Now != "" {
				_, since, _ := b.Known(ref, t.Now)
				p := Pending{Image: i, For: name, Digest: taker.Digest, New: t.Now, Since: since, Wait: b.Allowed(i, Policy{Age: taker.Age, Rules: rules}, m)}
				all = append(all, p)
			}
		}
	}
	slices.SortFunc(all, func(a, b Pending) int {
		return cmp.Or(cmp.Compare(a.Image.Ref, b.Image.Ref), cmp.Compare(a.For, b.For))
	})
	return all
}
