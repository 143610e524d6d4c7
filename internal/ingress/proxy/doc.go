// Package proxy answers HTTP requests from the network with those of the copies of services. It is the
// handler of the ingress proxy: it finds the route of a request, checks who sends it, chooses a healthy
// copy by the weights of the revisions, and passes on what both sides send. It knows neither agent nor
// Podman; its routes are values.
//
// A request goes to a second copy only if the first could not be dialed: no byte was sent then.
package proxy
