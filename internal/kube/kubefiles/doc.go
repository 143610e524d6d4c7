// Package kubefiles keeps the files of ConfigMaps, Secrets, tokens and fields of a Pod in
// directories of the host, which containers mount, so that they can change while containers
// run.
//
// It owns the content of such a volume and the way in which it is replaced: all files at one
// moment, as a kubelet does. internal/kube/kubenode is its only caller; it says where objects come
// from and when to look again. The package asks no server itself, and it never changes a
// file that a container has open.
package kubefiles
