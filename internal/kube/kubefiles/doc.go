// Package kubefiles writes the files of ConfigMaps, Secrets, tokens and fields of a Pod into
// directories of the host, which containers mount, so that the files can change while containers
// run.
//
// It owns the content of such a volume and the way in which it is replaced: all files at one
// moment, as a kubelet does. The package asks no server itself, and it never changes a
// file that a container has open.
package kubefiles
