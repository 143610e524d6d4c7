package images

import "runtime"

// NumClasses closes the list of classes.
const NumClasses = numClasses

// AwaitWaiters returns once n callers wait for ref.
func AwaitWaiters(r *Resolver, ref string, n int) {
	parsed, err := ParseRef(ref)
	if err != nil {
		panic(err)
	}
	for r.flights.Waiters(question{ref: parsed}) < n {
		runtime.Gosched()
	}
}
