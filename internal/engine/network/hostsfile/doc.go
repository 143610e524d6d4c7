// Package hostsfile keeps the /etc/hosts of Pods on a node of Kubernetes: a file for each task in the
// state directory, which the containers mount. It is that of a kubelet, which programs and users know;
// Podman's would have the names of the host and of its own containers.
// The interpreter of effects makes, completes and removes the files.
package hostsfile
