package taskdef

import (
	"fmt"
	"strconv"
	"time"

	"github.com/podtask/podtask/internal/lazy"
)

// Probes are the checks of a container that Kubernetes has. A container has either them or
// a HealthCheck. Nil means that there is none.
type Probes struct {
	// Startup passes once in each run, and until then there are no other checks. A
	// container that fails it is stopped, and its restart policy starts it again.
	Startup *Probe `json:"startup,omitempty"`
	// Readiness decides whether the container is HEALTHY.
	Readiness *Probe `json:"readiness,omitempty"`
	// Liveness is for a container that is to be stopped, as by Startup, when it fails.
	Liveness *Probe `json:"liveness,omitempty"`
}

// Any reports whether there is a check.
func (p Probes) Any() bool { return p.Startup != nil || p.Readiness != nil || p.Liveness != nil }

// Of returns the check with a name: startup, readiness or liveness.
func (p Probes) Of(name string) *Probe {
	switch name {
	case "startup":
		return p.Startup
	case "readiness":
		return p.Readiness
	case "liveness":
		return p.Liveness
	}
	return nil
}

// Probe is one check of a container and when it is made.
type Probe struct {
	Action Action `json:"action"`
	// InitialDelay counts from the start of the container.
	InitialDelay time.Duration `json:"initialDelay,omitempty"`
	Period       time.Duration `json:"period"`  // at least 1 s
	Timeout      time.Duration `json:"timeout"` // at least 1 s
	// SuccessThreshold and FailureThreshold are how many results in a row count; at least 1.
	SuccessThreshold int `json:"successThreshold"`
	FailureThreshold int `json:"failureThreshold"`
	// Grace is the stop timeout of a container that is stopped because of the check; 0
	// means its own.
	Grace time.Duration `json:"grace,omitempty"`
}

// Hooks are actions at the start and the stop of a container, as Kubernetes has them. Nil
// means that there is none.
type Hooks struct {
	// PostStart begins right after each start. If it fails, the container is stopped.
	PostStart *Action `json:"postStart,omitempty"`
	// PreStop begins before the stop signal and takes from the stop timeout.
	PreStop *Action `json:"preStop,omitempty"`
}

// Action is the action of a check or a hook: exactly one of its members is set.
type Action struct {
	// Exec is a command that is run in the container.
	Exec []string    `json:"exec,omitempty"`
	HTTP *HTTPAction `json:"http,omitempty"`
	TCP  *TCPAction  `json:"tcp,omitempty"`
	GRPC *GRPCAction `json:"grpc,omitempty"`
	// Sleep is for hooks only.
	Sleep time.Duration `json:"sleep,omitempty"`
}

// HTTPAction is a GET request from inside the container's network.
type HTTPAction struct {
	HTTPS bool `json:"https,omitempty"` // the certificate is not verified
	// Host is a name or address; empty means the address of the container.
	Host    string       `json:"host,omitempty"`
	Port    uint16       `json:"port"`
	Path    string       `json:"path,omitempty"` // with the query
	Headers []HTTPHeader `json:"headers,omitempty"`
}

// HTTPHeader is one header of a request.
type HTTPHeader struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// TCPAction is a connection that is opened and closed.
type TCPAction struct {
	Host string `json:"host,omitempty"` // as in HTTPAction
	Port uint16 `json:"port"`
}

// httpHealthCheck is the member with the URL of a check by HTTP, for images without a program that a healthCheck could run.
const httpHealthCheck = "httpHealthCheck"

// healthURL matches the URLs of such checks. The request comes from the container's own network. A path with two slashes at its
// start would be read as a host, and no server gets what is behind a #.
var healthURL = lazy.MustCompile(`^(https?)://localhost(:[0-9]+)?(/([!-"$-.0-~][!-"$-~]*)?)?$`)

// decodeHTTPHealthCheck decodes such a URL. The times are those of a probe of Kubernetes, with ECS's timeout of a
// healthCheck.
func decodeHTTPHealthCheck(c cursor) Probes {
	text := c.str()
	if text == "" {
		return Probes{}
	}
	a, err := parseHealthURL(text)
	if err != nil {
		c.wrong(err.Error(), "write http://localhost:8080/health, with the port of the container")
		return Probes{}
	}
	return Probes{Readiness: &Probe{Action: Action{HTTP: a}, Period: 10 * time.Second, Timeout: 5 * time.Second, SuccessThreshold: 1, FailureThreshold: 3}}
}

func parseHealthURL(text string) (*HTTPAction, error) {
	m := healthURL.FindStringSubmatch(text)
	if m == nil {
		return nil, fmt.Errorf("%s is not the URL of a health check", quote(text))
	}
	a := &HTTPAction{HTTPS: m[1] == "https", Port: 80, Path: m[3]}
	if a.HTTPS {
		a.Port = 443
	}
	if m[2] != "" {
		port, err := strconv.ParseUint(m[2][1:], 10, 16)
		if err != nil || port == 0 {
			return nil, fmt.Errorf("the port of %s is not 1 to 65535", quote(text))
		}
		a.Port = uint16(port)
	}
	return a, nil
}

// GRPCAction asks the health service of gRPC (grpc.health.v1).
type GRPCAction struct {
	Port    uint16 `json:"port"`
	Service string `json:"service,omitempty"`
}

// kinds counts the members that are set.
func (a Action) kinds() int {
	n := 0
	for _, set := range []bool{len(a.Exec) > 0, a.HTTP != nil, a.TCP != nil, a.GRPC != nil, a.Sleep > 0} {
		if set {
			n++
		}
	}
	return n
}

// checkProbes checks what no definition of ECS can have: a Kubernetes manifest has been
// checked before, with its own words.
func checkProbes(r rules, c Container) {
	in := r.in(extensionMember)
	probes := c.Extensions.Probes
	in.in(httpHealthCheck).require(!probes.Any() || c.HealthCheck == nil, "remove one of the two", "a container has either a healthCheck or an httpHealthCheck")
	checkProbe(in.in("probes").in("startup"), probes.Startup, 1)
	checkProbe(in.in("probes").in("readiness"), probes.Readiness, maxThreshold)
	checkProbe(in.in("probes").in("liveness"), probes.Liveness, 1)
	for _, a := range []*Action{c.Extensions.Hooks.PostStart, c.Extensions.Hooks.PreStop} {
		in.in("hooks").require(a == nil || a.kinds() == 1, "", "a hook does one of exec, http, tcp, grpc and sleep")
	}
}

const maxThreshold = 1<<31 - 1

func checkProbe(r rules, p *Probe, successes int) {
	if p == nil {
		return
	}
	r.require(p.Action.kinds() == 1 && p.Action.Sleep == 0, "", "a check does one of exec, http, tcp and grpc")
	r.require(p.Period >= time.Second && p.Timeout >= time.Second && p.InitialDelay >= 0 && p.Grace >= 0, "", "period and timeout are at least a second")
	r.require(p.FailureThreshold >= 1 && p.SuccessThreshold >= 1 && p.SuccessThreshold <= successes, "", "a threshold is out of range")
}

// String names an action for people.
func (a Action) String() string {
	switch {
	case a.HTTP != nil:
		return fmt.Sprintf("http port %d%s", a.HTTP.Port, a.HTTP.Path)
	case a.TCP != nil:
		return fmt.Sprintf("tcp port %d", a.TCP.Port)
	case a.GRPC != nil:
		return fmt.Sprintf("grpc port %d", a.GRPC.Port)
	case a.Sleep > 0:
		return "sleep " + a.Sleep.String()
	}
	return "exec"
}
