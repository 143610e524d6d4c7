// Package faults stands between a client and a Podman service on a unix socket
// and breaks their conversation on order: for tests that ask what becomes of a
// task when an answer is lost, late, cut in half, doubled or wrong.
//
// A Proxy passes every request on to the service and keeps a log of them, which
// tests count. A Rule, made with Proxy.Fault, sends the requests it matches
// through an Action instead. Nothing here sleeps or draws lots: what is held is
// held until the test lets go, and what breaks breaks at a place that is named.
//
// Rules do the same before any other HTTP handler, such as the registry of
// internal/registrytest, with actions of its own.
//
// All methods are safe for concurrent use.
package faults
