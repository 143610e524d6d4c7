package sim

import "fmt"

// Report counts what an exploration has seen.
type Report struct {
	States int // worlds that differ in their future
	Moves  int // moves made, those to known worlds included
}

// Explore makes every possible move in w and in every world that comes of it,
// and brings each of them to its goal. The error is a *Violation with the fewest
// moves, if a property is broken; it is another one when there are more than maxStates
// states. w itself is left as it is.
func (w *World) Explore(maxStates int) (r Report, err error) {
	defer catch(&err)
	var (
		key   []byte
		moves []move
		seen  = map[string]bool{string(w.key(nil)): true}
		good  = make(map[string]bool)
		queue = []*World{w}
	)
	for len(queue) > 0 {
		w, queue[0] = queue[0], nil
		queue = queue[1:]
		finish(w, good)
		moves = w.moves(moves[:0])
		for _, m := range moves {
			n := w.next(m)
			key = n.key(key[:0])
			if seen[string(key)] {
				continue
			}
			seen[string(key)] = true
			checkWhy(n)
			queue = append(queue, n)
		}
		r.Moves += len(moves)
		if r.States = len(seen); r.States > maxStates {
			return r, fmt.Errorf("more than %d states: the budget %+v is too large", maxStates, w.left)
		}
	}
	return r, nil
}
