// Package kubeserve is the HTTPS endpoint of a node of Kubernetes: what the API server calls for
// kubectl logs, exec, attach, cp and port-forward, and what metrics-server reads for kubectl top.
//
// It owns the protocol: the TLS certificate and its rotation, who may call, and the paths,
// parameters and streams of a kubelet. What a Pod is on this host it learns from Pods, an interface
// that it declares.
//
// It never lets a caller in because of a certificate authority alone: the API server decides about
// each user (SubjectAccessReview on the resource nodes), as it does for a kubelet. It never caches
// a denial for longer than 30 seconds or a permission for longer than five minutes.
//
// # Decisions
//
//   - The API server decides who may call a node. A client certificate or a token says who calls; a
//     SubjectAccessReview says whether that user may.
package kubeserve
