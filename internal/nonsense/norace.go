//go:build !race

package nonsense

// long is how long the texts are that parsers read to their end, in bytes: less than
// many of them take for too long.
const long = Size / 10
