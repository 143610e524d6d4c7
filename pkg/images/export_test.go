package images

import "runtime"

// NumClasses closes the list of classes.
const NumClasses = numClasses

// AwaitWaiters returns once n callers wait for ref.
func AwaitWaiters(r *Resolver, ref string, n int) {
	await(r, ref, func(f *flight) bool { return f.waiters >= n })
}

// AwaitBackOff returns once containers/image sits out a 429 for ref. It is to
// be called after the request for the manifest has arrived.
func AwaitBackOff(r *Resolver, ref string) {
	await(r, ref, func(f *flight) bool { return f.watch.backingOff() })
}

func await(r *Resolver, ref string, ready func(*flight) bool) {
	parsed, err := ParseRef(ref)
	if err != nil {
		panic(err)
	}
	for done := false; !done; runtime.Gosched() {
		r.mu.Lock()
		f := r.flights[parsed]
		done = f != nil && ready(f)
		r.mu.Unlock()
	}
}
