package forward

import (
	"cmp"
	"slices"
)

// share is a set with its part of the connections so far.
type share struct {
	Set
	// credit is what the set is due, in units of weight; the sum over all sets is zero.
	credit    int
	turn      int // the index from which a target is looked for
	forwarded uint64
}

// reroute returns the shares of new sets. While weights stay as they are, each set keeps what
// it is due; with other weights, all begin again from zero.
func reroute(before []*share, sets []Set) (after []*share, changed bool) {
	same := len(before) == len(sets)
	for i, set := range sets {
		set.Targets = slices.Clone(set.Targets)
		s := &share{Set: set}
		if n := slices.IndexFunc(before, func(b *share) bool { return b.ID == set.ID }); n >= 0 {
			s.credit, s.turn, s.forwarded = before[n].credit, before[n].turn, before[n].forwarded
		}
		same = same && before[i].ID == set.ID && before[i].Weight == set.Weight
		changed = changed || !same || !slices.Equal(before[i].Targets, set.Targets)
		after = append(after, s)
	}
	if !same {
		for _, s := range after {
			s.credit = 0
		}
	}
	return after, changed || !same
}

// choose returns the set whose turn it is among those that have weight and a target; nil if
// there is none. A connection keeps the set that was chosen for it, as long as that may be.
//
// It is a smooth weighted round robin: each set gains its weight, the one that is due most
// pays the sum. With two sets, in any row of connections each gets its part, up to one
// connection more or less.
func choose(sets []*share, kept string) (best *share) {
	sum := 0
	for _, s := range sets {
		if s.Weight <= 0 || len(s.Targets) == 0 {
			continue
		}
		if s.ID == kept {
			return s
		}
		sum += s.Weight
	}
	for _, s := range sets {
		if s.Weight <= 0 || len(s.Targets) == 0 {
			continue
		}
		if s.credit += s.Weight; best == nil || s.credit > best.credit {
			best = s
		}
	}
	if best != nil {
		best.credit -= sum
	}
	return best
}

// inOrder are the sets in the order in which a connection tries them: the chosen one, then
// those with the most weight.
func inOrder(sets []*share, chosen string) []*share {
	rank := func(s *share) int {
		if s.ID == chosen {
			return -1
		}
		return 0
	}
	return slices.SortedStableFunc(slices.Values(sets), func(a, b *share) int {
		return cmp.Or(rank(a)-rank(b), b.Weight-a.Weight)
	})
}

// pick chooses the target with the fewest open connections, equals in turn, that is not among
// those that failed.
func (s *share) pick(failed []string, open func(id string) int) (best Target, found bool) {
	at := 0
	for i := range s.Targets {
		n := (s.turn + i) % len(s.Targets)
		t := s.Targets[n]
		if slices.Contains(failed, t.ID) || found && open(t.ID) >= open(best.ID) {
			continue
		}
		best, found, at = t, true, n
	}
	if found {
		s.turn = at + 1
	}
	return best, found
}
