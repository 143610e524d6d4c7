// Package faults is a proxy between a client and the Podman service on a unix socket
// that injects faults, for tests of lost, late, truncated, duplicated or wrong replies.
//
// A Proxy forwards every request to the service and logs it, so that tests can count
// requests. A Rule, created with Proxy.Fault, passes the requests that it matches to an
// Action instead. Nothing here sleeps or is random: a held request is held until the
// test releases it, and a connection breaks at a defined place.
//
// Rules can also be placed in front of any other HTTP handler, such as the registry of
// internal/testing/registrytest.
//
// All methods are safe for concurrent use.
package faults
