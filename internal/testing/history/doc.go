// Package history checks what clients of an agent were told while it was killed: whether an agent that does one request after
// the other, each at some time between its call and its answer, could have told them the same. The search for such an order is
// porcupine's. A request whose answer was lost may have been done at any later time, or never.
//
// Two models say what an order allows: [Services] and [Tasks]. A [Recorder] writes down what clients do, and [Check] explains
// what cannot have been, with all requests about that service or task.
package history
