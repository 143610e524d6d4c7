// Package failpoint kills the process, or makes it hang, at a place that a test has chosen.
// The owner and the interpreter of effects pass these places; without a choice nothing happens.
package failpoint
