// Package prober makes a check or a hook of a container over its network: HTTP, TCP or the
// health service of gRPC. The interpreter of effects calls it, once for each check. It
// connects from inside the network namespace of the container, because a rootless host
// cannot reach it otherwise; with the network of the host it connects directly. What an
// answer means follows the kubelet (pkg/probe). It never decides when to check, never
// counts, and keeps nothing but a few sockets for each container.
package prober
