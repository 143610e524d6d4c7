// Package awscall makes signed calls of AWS services that speak JSON 1.1, and signs web sockets and
// their frames. It has the few calls that an agent of ECS makes, among them members that the public
// SDK does not have, so the clients of the SDK are not used; the signatures are the SDK's.
//
// No call is repeated here: how often depends on what is asked.
package awscall
