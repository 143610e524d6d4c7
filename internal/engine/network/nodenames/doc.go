// Package nodenames gives the Pods of a node of Kubernetes the names of the Services whose Pods are on that node.
//
// podtask-kubelet says which names there are and which tasks are behind them. A connection to a name goes into the network
// namespace of a Pod; how tasks have the names is in package names.
package nodenames
