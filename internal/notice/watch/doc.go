// Package watch tells people: it follows the event log of the host, lets the package notice decide, and has the messages
// delivered. One process of the user does so at a time, the holder of a lock. The state is saved before a message is
// sent, so after a kill the next process sends it again, with the same ID, and goes on in the event log where this one
// ended.
package watch
