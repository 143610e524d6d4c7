// Package forward forwards the TCP connections of listeners to changing targets.
//
// The services of an agent use it: a service has an address that stays the same while its
// copies come and go. Targets are in sets with weights, such as those of the revisions before
// and after a deployment. Each connection goes to the set whose turn it is by its weight, and
// there to the target that has the fewest. If a target cannot be dialed, the next one is, in
// the end one of another set, because no byte was sent yet. A target that is taken away gets no
// new connections; those it has continue, Drain waits for them, and Cut ends those that stay. A
// change of weights touches no connection.
//
// It knows neither tasks nor services, and it does not look into what it forwards.
package forward
