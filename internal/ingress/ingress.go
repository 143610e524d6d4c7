package ingress

import (
	"path/filepath"
	"strconv"
	"time"
)

// Program is the program of the proxy, which is installed beside podtask.
const Program = "podtask-ingress"

// SocketPath is where the proxy answers the agent and the commands, below a runtime directory. Nothing else is
// in the directory of the socket, so that the proxy needs to see no other socket.
func SocketPath(runtimeDir string) string {
	return filepath.Join(runtimeDir, "ingress", "ingress.sock")
}

// OldSocketPath is where a process answers that has left the socket to its successor.
func OldSocketPath(socket string, pid int) string { return socket + "." + strconv.Itoa(pid) }

// OldSockets are those of processes that have left the socket to successors, and finish their requests.
func OldSockets(socket string) []string {
	all, _ := filepath.Glob(socket + ".*") // the pattern is good
	return all
}

// AccessLogPath is the file with the access log below a state directory. Older parts are beside it, with
// .1 and so on at their ends.
func AccessLogPath(stateDir string) string {
	return filepath.Join(stateDir, "ingress", "access.log")
}

// CertificateDir has the files of certificates from secrets, below a state directory.
func CertificateDir(stateDir string) string {
	return filepath.Join(stateDir, "ingress", "certificates")
}

// Status is what the proxy says about itself.
type Status struct {
	PID     int       `json:"pid"`
	Version string    `json:"version"`
	Since   time.Time `json:"since"`
	// Plain and Secure are the addresses where it listens for requests without and with TLS.
	Plain  []string `json:"plain"`
	Secure []string `json:"secure"`
	// Problem explains why the file of routes is not read; the routes before it are served then.
	Problem string `json:"problem,omitempty"`
	// Denied: a port for requests could not be opened because this user may not open it.
	Denied       bool          `json:"denied,omitempty"`
	Routes       []Route       `json:"routes"`
	Certificates []Certificate `json:"certificates"`
	// Connections are open ones, of at most MaxConnections.
	Connections    int     `json:"connections"`
	MaxConnections int     `json:"maxConnections"`
	Requests       []Count `json:"requests"`
	// Ending: the proxy ends, and gives its listeners of services to the agent (TakePath).
	Ending bool `json:"ending,omitempty"`
	// Listeners are the addresses of TCP connections of services.
	Listeners []Listener `json:"listeners"`
	// Uses has the use of each service that may sleep.
	Uses []Use `json:"uses,omitempty"`
}

// Use is the use of the addresses of a service.
type Use struct {
	Service string `json:"service"`
	// Busy: there is a request or a connection; otherwise there was none since IdleSince.
	Busy      bool      `json:"busy"`
	IdleSince time.Time `json:"idleSince"`
	// Waiting: one of them waits, because there is no copy.
	Waiting bool `json:"waiting,omitempty"`
}

// Listener is an address whose TCP connections go to copies of a service.
type Listener struct {
	Address string `json:"address"`
	Service string `json:"service"`
	// Problem explains why the proxy does not listen there.
	Problem string `json:"problem,omitempty"`
	// Awaited: another process has the port. If it is the agent, it passes its listener (PassPath).
	Awaited bool `json:"awaited,omitempty"`
	// Forwarded are the connections so far that reached a copy, by revision; Refused those that were closed because no
	// copy could be dialed in time, and Quiet those that made room for others.
	Forwarded map[string]uint64 `json:"forwarded"`
	Refused   uint64            `json:"refused"`
	Quiet     uint64            `json:"quiet"`
}

// Route is an address that is served.
type Route struct {
	URL     string `json:"url"`
	Service string `json:"service"`
	// Deployments are the revisions that get requests.
	Deployments []Deployment `json:"deployments"`
}

// Deployment is a revision that gets requests.
type Deployment struct {
	ID string `json:"id"`
	// Weight is its part of the sum of all weights.
	Weight int `json:"weight"`
	// Copies are those that are healthy.
	Copies []Copy `json:"copies"`
}

// Copy is where requests go.
type Copy struct {
	Task    string `json:"task"`
	Address string `json:"address"`
	// Requests are those that are under way.
	Requests int `json:"requests"`
}

// Certificate is that of a name.
type Certificate struct {
	Name string `json:"name"`
	// Issuer is acme, internal, a file or a secret.
	Issuer string `json:"issuer"`
	// File has the certificate, and perhaps its key; absent unless it is from a file or a secret.
	File string `json:"file,omitempty"`
	// NotAfter is the time at which it ends; absent while there is none.
	NotAfter time.Time `json:"notAfter,omitzero"`
	// Problem is what is wrong with it, or why there is none. Pending: nothing but that it is being obtained.
	Problem string `json:"problem,omitempty"`
	Pending bool   `json:"pending,omitempty"`
	// Usable: there is one for the name that has not ended, so that the address is served in spite of a problem.
	Usable bool `json:"usable"`
}

// Count is a number of requests that have ended since the proxy started.
type Count struct {
	// Service is empty for requests without a route.
	Service string `json:"service"`
	// Class is 2 for the statuses from 200 to 299, for instance.
	Class int    `json:"class"`
	Count uint64 `json:"count"`
}
