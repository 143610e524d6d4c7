package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
)

// NodeNames are the names by which the Pods of a node of Kubernetes reach other Pods of that node.
type NodeNames struct {
	Names []NodeName `json:"names"`
}

// NodeName is an address that the Pods of a namespace have for a Service, or for a Pod behind a headless one.
type NodeName struct {
	// Namespace is that of the Pods which have the names.
	Namespace string `json:"namespace"`
	// Hosts are the names of the address: lower-case host names.
	Hosts []string `json:"hosts"`
	// Ports are the TCP ports of the address. All others refuse connections.
	Ports []NodePort `json:"ports"`
}

// NodePort is a TCP port of a name.
type NodePort struct {
	Port uint16 `json:"port"`
	// Targets get the connections in turn. Without any, connections wait for one.
	Targets []NodeTarget `json:"targets,omitempty"`
}

// NodeTarget is a TCP port of a Pod.
type NodeTarget struct {
	// Task is the full ID of the Pod's task.
	Task string `json:"task"`
	Port uint16 `json:"port"`
}

// NodeNamer is a Backend whose tasks may be the Pods of nodes.
type NodeNamer interface {
	// SetNodeNames replaces the names of a node. They are kept until they are replaced, also while no agent runs. The
	// error is a Failure: BadRequest for what is no name, port or node.
	SetNodeNames(ctx context.Context, node string, n NodeNames) error
}

// serveNodeNames replaces the names of a node in a backend that is a NodeNamer.
func (s *Server) serveNodeNames(w http.ResponseWriter, r *http.Request) error {
	b, err := backendAs[NodeNamer](s.backend, "this process owns one task and gives no names: `podtask agent` does")
	if err != nil {
		return err
	}
	var n NodeNames
	if err := readBody(w, r, "names", &n); err != nil {
		return err
	}
	return finish(w, http.StatusNoContent, b.SetNodeNames(r.Context(), r.PathValue("node"), n))
}

// SetNodeNames replaces the names of a node; see NodeNamer.
func SetNodeNames(ctx context.Context, c *Client, node string, n NodeNames) error {
	body, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return c.call(ctx, http.MethodPut, "nodes/"+url.PathEscape(node)+"/names", body, nil)
}
