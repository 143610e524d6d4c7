// Package archtest holds tests about the code: which package may import which,
// what pure packages must not do, that everything is documented. The rules are
// the tables in its test files; a change of the architecture is a change of a
// row, with its reason.
package archtest
