// Package mutants shows that the tests detect faults. A mutant is one small fault put
// into the code: a condition that always holds, a statement that is skipped, a value
// that is another. There is one for each property that the design promises, and the
// tests named with it must fail.
//
// A mutant names a function and what its place mentions, not the text of the code, so
// it survives formatting, moved code and changes beside it. A place that is not found,
// or found twice, is a failure with the mutant's name.
//
// All mutants are compiled into the tests at once, through the build's overlay, and an
// environment variable switches one on. The source tree is never changed.
//
//	go test -tags "remote containers_image_openpgp mutants" ./internal/testing/mutants
package mutants
