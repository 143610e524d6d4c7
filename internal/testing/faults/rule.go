package faults

import (
	"net/http"
	"regexp"
	"slices"
	"sync"
)

// Match says which requests a rule is about.
type Match struct {
	// Method is the HTTP method; empty for any.
	Method string
	// Path is a regular expression for the request's path, without the query.
	Path string
	// Skip is how many matching requests pass before the rule begins.
	Skip int
	// Times is how many it then catches; 0 for all until it is removed.
	Times int
}

// Rule is a fault on order.
type Rule struct {
	owner   *Rules
	match   Match
	path    *regexp.Regexp
	do      Action
	seen    int // matching requests
	hits    int
	arrived chan struct{}
}

// Rules are the faults on order for one server. The zero value has none.
type Rules struct {
	mu   sync.Mutex
	list []*Rule
}

// Fault orders a fault. The oldest rule that catches a request decides; one whose
// Skip or Times says no lets the others have it. A bad expression panics.
func (rs *Rules) Fault(m Match, do Action) *Rule {
	r := &Rule{owner: rs, match: m, path: regexp.MustCompile(m.Path), do: do, arrived: make(chan struct{})}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.list = append(rs.list, r)
	return r
}

// Fault orders a fault, see Rules.Fault.
func (p *Proxy) Fault(m Match, do Action) *Rule { return p.rules.Fault(m, do) }

// Hits is the number of requests that the rule has caught.
func (r *Rule) Hits() int {
	r.owner.mu.Lock()
	defer r.owner.mu.Unlock()
	return r.hits
}

// Arrived is closed when the rule catches its first request.
func (r *Rule) Arrived() <-chan struct{} { return r.arrived }

// Remove ends the rule; requests it has caught continue.
func (r *Rule) Remove() {
	r.owner.mu.Lock()
	defer r.owner.mu.Unlock()
	r.owner.list = slices.DeleteFunc(r.owner.list, func(other *Rule) bool { return other == r })
}

// take finds the rule that catches the request, and counts.
func (rs *Rules) take(req *http.Request) *Rule {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, r := range rs.list {
		if r.match.Method != "" && r.match.Method != req.Method || !r.path.MatchString(req.URL.Path) {
			continue
		}
		r.seen++
		if r.seen <= r.match.Skip || r.match.Times > 0 && r.hits >= r.match.Times {
			continue
		}
		r.hits++
		if r.hits == 1 {
			close(r.arrived)
		}
		return r
	}
	return nil
}

// Wrap puts the rules before next: what they catch goes through its Action, all else
// straight on.
func (rs *Rules) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if r := rs.take(req); r != nil {
			r.do(w, req, next)
			return
		}
		next.ServeHTTP(w, req)
	})
}
