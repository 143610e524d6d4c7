package imageage_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/images/imageage"
)

// host is a host with a clock that people set, seen from outside: at is the time that has truly passed.
type host struct {
	at      time.Duration
	skew    time.Duration // of the wall clock
	boots   int
	started time.Duration
}

var epoch = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func (h *host) moment() imageage.Moment {
	return imageage.Moment{Wall: epoch.Add(h.at + h.skew), Boot: fmt.Sprint(h.boots), Up: h.at - h.started}
}

var web = imageage.Image{Ref: "ghcr.io/team/web:1", Registry: "ghcr.io", Repository: "team/web", Tag: "1"}

// model is the specification beside the book: what the host saw when, and for how long it was surely awake since then.
type model struct {
	t      *testing.T
	host   host
	book   imageage.Book
	tag    int                      // the digest that the tag has
	first  map[string]time.Duration // of each digest that was seen
	awake  map[string]time.Duration
	last   host
	taken  map[string]string
	policy imageage.Policy
	moved  int
}

// observe counts the time that the host was surely awake.
func (m *model) observe() {
	if m.last.boots == m.host.boots {
		for d := range m.awake {
			m.awake[d] += m.host.at - m.last.at
		}
	}
	m.last = m.host
}

func (m *model) look() {
	m.observe()
	d := fmt.Sprint("sha256:", m.tag)
	if _, seen := m.first[d]; !seen {
		m.first[d], m.awake[d] = m.host.at, 0
	}
	m.book = m.book.See(web.Ref, d, m.host.moment())
}

// ask lets somebody ask for the tag, which is a look too.
func (m *model) ask(name string) {
	m.look()
	now, before := fmt.Sprint("sha256:", m.tag), m.taken[name]
	var got string
	var wait imageage.Wait
	m.book, got, wait = m.book.Decide(web, name, "", m.policy, m.host.moment())
	m.taken[name] = got
	wall := m.host.moment().Wall
	open := len(m.policy.Hours) == 0 || wall.Hour() >= 2 && wall.Hour() < 5
	switch {
	case before == "" && got != now:
		m.t.Fatalf("%s starts with %s, and the tag has %s", name, got, now)
	case before != "" && got != before && got != now:
		m.t.Fatalf("%s goes from %s to %s, and the tag has %s", name, before, got, now)
	case before != "" && got != before && (m.host.at-m.first[got] < m.policy.Age || !open):
		m.t.Fatalf("early: %s takes %s after %v", name, got, m.host.at-m.first[got])
	case got != now && open && m.awake[now] >= m.policy.Age:
		m.t.Fatalf("forgotten: %s waits for %s, which the host has known for %v: %+v", name, now, m.awake[now], wait)
	case got != now && wait.Why == "" || got == now && wait.Why != "":
		m.t.Fatalf("%s gets %s while the tag has %s: %+v", name, got, now, wait)
	}
	if before != "" && got != before {
		m.moved++
	}
}

// kill starts again from what is stored.
func (m *model) kill() {
	text, err := json.Marshal(m.book)
	if err != nil {
		m.t.Fatal(err)
	}
	m.book = imageage.Book{}
	if err := json.Unmarshal(text, &m.book); err != nil {
		m.t.Fatal(err)
	}
}

func (m *model) step(r *rand.Rand) {
	m.host.at += time.Duration(r.Int64N(int64(9 * time.Hour)))
	switch r.IntN(12) {
	case 0:
		m.tag = r.IntN(8) // new, earlier, or taken over and given back
	case 1:
		m.host.boots++
		m.host.started = m.host.at
		// A clock that is some days ahead when the host starts is believed. One without a battery is far behind, or anywhere.
		m.host.skew = []time.Duration{0, -1000 * time.Hour, -2000 * time.Hour, 20 * 365 * 24 * time.Hour}[r.IntN(4)]
		m.look()
	case 2:
		m.host.skew = []time.Duration{-1000 * time.Hour, time.Duration(r.Int64N(int64(120 * time.Hour)))}[r.IntN(2)]
		m.ask("unit web") // while the clock is wrong
	case 3:
		m.host.skew = 0
	case 4:
		m.kill()
	case 5:
		m.book = m.book.Failed(web.Ref, "the registry is away", m.host.moment())
		m.observe()
	case 6, 7, 8:
		m.look()
	case 9:
		m.ask("service shop")
	default:
		m.ask("unit web")
	}
}

// TestAMonthOfTags: tags move, return and are taken over while the host starts again, processes are killed and clocks
// are set. Nobody gets a digest early, and nobody is forgotten.
func TestAMonthOfTags(t *testing.T) {
	t.Parallel()
	moved := 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := &model{t: t, first: map[string]time.Duration{}, awake: map[string]time.Duration{}, taken: map[string]string{}}
		m.policy.Age = time.Duration(r.IntN(6)) * 24 * time.Hour
		if seed%4 == 0 {
			m.policy.Hours = []imageage.Hours{{From: 120, To: 300}}
		}
		m.look() // the clock is right when the book begins
		for m.host.at < 31*24*time.Hour {
			m.step(r)
		}
		moved += m.moved
	}
	if moved < 400 {
		t.Errorf("only %d updates in 400 months", moved)
	}
}
