//go:build race

package nonsense

// long is how long the texts are that parsers read to their end, in bytes. The race
// detector makes that ten times as dear, and one goroutine has no races.
const long = Size / 100
