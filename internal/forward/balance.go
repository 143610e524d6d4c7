package forward

// Balance chooses targets by the weights of their sets, as a Forwarder does for its connections. It is
// for one goroutine at a time. The zero value has no targets.
type Balance struct{ shares []*share }

// Route replaces the sets.
func (b *Balance) Route(sets ...Set) { b.shares, _ = reroute(b.shares, sets) }

// Turn returns the set whose turn it is; "" if none has a target and a weight.
func (b *Balance) Turn() string {
	if s := choose(b.shares, ""); s != nil {
		return s.ID
	}
	return ""
}

// Pick returns the target with the fewest open connections of the set, or of the others after that,
// that is not among those that failed.
func (b *Balance) Pick(set string, failed []string, open func(id string) int) (best Target, found bool) {
	for _, s := range inOrder(b.shares, set) {
		if best, found = s.pick(failed, open); found {
			return best, true
		}
	}
	return best, false
}
