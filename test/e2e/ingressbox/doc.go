// Package ingressbox has tests of the program podtask-ingress with foreign clients: h2spec's cases of HTTP/2, and
// grpcurl; and its speed and memory beside Caddy. It is a module of its own, so that the product does not get the
// dependencies of these.
package ingressbox
