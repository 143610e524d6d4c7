// Package statetest provides an in-memory disk that can lose power, and a check that a
// store on it keeps its guarantees whenever the power is lost. Only tests use it.
package statetest
