// Package forward forwards the TCP connections of one listener to changing targets.
//
// The services of an agent use it: a service has an address that stays the same while its
// copies come and go. Each connection goes to the target that has the fewest. If a target
// cannot be dialed, the next one is, because no byte was sent yet. A target that is taken
// away gets no new connections; those it has continue, and Drain waits for them.
//
// It knows neither tasks nor services, and it does not look into what it forwards.
package forward
