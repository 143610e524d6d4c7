package awsapi

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/aws/awsapi/autoscaling"
	"github.com/podtask/podtask/internal/aws/awsapi/logstreams"
	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
	"github.com/podtask/podtask/internal/aws/awsapi/resource"
	"github.com/podtask/podtask/internal/aws/sigv4"
	"github.com/podtask/podtask/internal/define/catalog"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/api/connlimit"
)

// Config is what a Server works with.
type Config struct {
	Log *slog.Logger
	// Key returns the key with which requests must be signed, as it is now.
	Key func() (sigv4.Key, error)
	// Definitions are the registered task definitions.
	Definitions *catalog.Catalog
	// Records holds clusters and tags.
	Records *state.Store
	Tasks   Tasks
	Parser  Parser
	// Services are the services of the host.
	Services Services
	// Scaling gives access to the services that scale.
	Scaling autoscaling.Scaling
	// Registry returns the host name that a registry of Cloud Map, an ARN, stands for; nil: none stands for one.
	Registry func(arn string) (name string, ok bool)
	Logs     logstreams.Logs
	Sessions Sessions
	Host     Host
	// ExpressDomain is the domain of the public addresses of Express services; empty: there are no such services.
	ExpressDomain string
	// Throttling limits the rate of requests as ECS does. Without it each request is answered.
	Throttling bool
	// NoDefaultCluster: the cluster default is not there until it is created.
	NoDefaultCluster bool
	// Now is the clock.
	Now func() time.Time
}

// Server answers clients of ECS, of CloudWatch Logs, and those of sessions. It is safe for concurrent use.
type Server struct {
	cfg         Config
	operations  map[string]protocol.Operation // by target
	throttle    *throttle
	definitions *definitions
}

// New returns a server.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, operations: make(map[string]protocol.Operation), throttle: newThrottle(!cfg.Throttling, cfg.Now)}
	tags := resource.NewTagStore(cfg.Records)
	clusters := &clusters{records: cfg.Records, tags: tags, tasks: cfg.Tasks, host: cfg.Host, now: cfg.Now, noDefault: cfg.NoDefaultCluster}
	definitions := &definitions{catalog: cfg.Definitions, parser: cfg.Parser, tasks: cfg.Tasks, tags: tags, now: cfg.Now}
	s.definitions = definitions
	tasks := &tasks{clusters: clusters, definitions: definitions, tags: tags, tasks: cfg.Tasks, host: cfg.Host, log: cfg.Log}
	instances := &instances{clusters: clusters, tasks: cfg.Tasks, host: cfg.Host}
	index := newServiceIndex(cfg.Services, tags, cfg.Records, cfg.Now)
	services := &serviceOps{serviceIndex: index, clusters: clusters, definitions: definitions, registry: cfg.Registry}
	if services.registry == nil {
		services.registry = func(string) (string, bool) { return "", false }
	}
	express := &expressOps{serviceOps: services, scaling: cfg.Scaling, domain: cfg.ExpressDomain}
	clusters.services, definitions.used, tasks.service = index.perCluster, index.uses, index.Known
	tasks.executes = index.executes
	execute := &execute{tasks, cfg.Sessions}
	tagged := &tagging{services: index, tags: tags, clusters: clusters, definitions: definitions, tasks: tasks}
	deployments := serviceDeployments{index, clusters, cfg.Tasks}
	settings := &accountSettings{records: cfg.Records}
	for _, o := range join(clusters.operations(), providers{clusters}.operations(), settings.operations(), definitions.operations(), tasks.operations(), instances.operations(), services.operations(), express.operations(), deployments.operations(), tagged.operations(), protection{tasks, cfg.Now}.operations(), execute.operations()) {
		s.operations[targetECS+o.Name] = o
	}
	for _, o := range logstreams.Operations(cfg.Logs, cfg.Records, cfg.Now) {
		s.operations[logstreams.Target+o.Name] = o
	}
	for _, o := range autoscaling.Operations(cfg.Scaling, index, tags, cfg.Records, cfg.Now) {
		s.operations[autoscaling.Target+o.Name] = o
	}
	for _, o := range execute.operationsSSM() {
		s.operations[targetSSM+o.Name] = o
	}
	return s
}

func join(lists ...[]protocol.Operation) (all []protocol.Operation) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// The prefixes of X-Amz-Target, by service.
const targetECS = "AmazonEC2ContainerServiceV20141113."

// Signed answers requests that are signed with the user's key. It is for a listener that
// others than the user can reach. The web sockets of sessions are there too: their token says
// who may have one.
func (s *Server) Signed() http.Handler {
	signed := s.handler(s.authenticate)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id, ok := strings.CutPrefix(r.URL.Path, channelPath); ok && r.Method == http.MethodGet {
			s.cfg.Sessions.Serve(w, r, id)
			return
		}
		signed.ServeHTTP(w, r.WithContext(withHost(r.Context(), r)))
	})
}

// Trusted answers requests of a listener that only the user can reach.
func (s *Server) Trusted() http.Handler {
	return s.handler(func(r *http.Request, _ []byte) (string, error) { return "", nil })
}

// handler answers what check lets pass. Check is called before the body is read, with nil,
// and again with the body; it returns the service of the signature's scope.
func (s *Server) handler(check func(*http.Request, []byte) (service string, err error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(protocol.RequestIDHeader, requestID())
		service, err := check(r, nil)
		p, form := protocol.EncodingOf(r, service)
		if err != nil {
			p.Fail(w, protocol.AsFailure(err))
			return
		}
		if r.Method != http.MethodPost || r.URL.Path != "/" && r.URL.Path != "" {
			p.Fail(w, protocol.Failf(protocol.CodeUnknown, "requests are POST /, not %s %s", r.Method, protocol.Shortened(r.URL.Path)))
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, protocol.MaxBody))
		if err != nil {
			p.Fail(w, protocol.Failf(protocol.CodeSyntax, "the request cannot be read: %v", err))
			return
		}
		if _, err := check(r, append([]byte{}, body...)); err != nil {
			p.Fail(w, protocol.AsFailure(err))
			return
		}
		// Until here the connection is closed in favor of others when there are too many.
		defer connlimit.Serving(r.Context())()
		var answer any
		if form {
			answer, err = s.answerForm(service, body)
		} else {
			answer, err = s.answer(r.Context(), r, body)
		}
		if err != nil {
			s.report(w.Header().Get(protocol.RequestIDHeader), r, err)
			p.Fail(w, protocol.AsFailure(err))
			return
		}
		p.Write(w, answer)
	})
}

// report logs what went wrong on this side.
func (s *Server) report(id string, r *http.Request, err error) {
	if f := protocol.AsFailure(err); f.Code == protocol.CodeServer {
		s.cfg.Log.Error("an AWS client's request failed", "request", id, "target", protocol.Shortened(r.Header.Get("X-Amz-Target")), "error", f.Message)
	}
}

// requestID is a random one in the form of AWS'.
func requestID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// authenticate checks the signature of a request: without a body all that needs none.
func (s *Server) authenticate(r *http.Request, body []byte) (service string, err error) {
	key, err := s.cfg.Key()
	if err != nil {
		s.cfg.Log.Error("requests of AWS clients cannot be checked", "error", err)
		return "", protocol.Failf(protocol.CodeServer, "the agent has no key to check signatures with; its log says why")
	}
	signed, err := sigv4.ParseRequest(r, key, s.cfg.Now())
	if err == nil && body != nil {
		err = signed.Verify(body)
	}
	switch {
	case err == nil:
		return signed.Service, nil
	case errors.Is(err, sigv4.ErrMissing):
		return "", protocol.Failf("MissingAuthenticationTokenException", "%v: `podtask aws env` prints the key", err)
	case errors.Is(err, sigv4.ErrUnknownKey):
		return "", protocol.Failf("UnrecognizedClientException", "%v: `podtask aws env` prints the key", err)
	}
	return "", protocol.Failf("InvalidSignatureException", "%v", err)
}

// answer answers a request of the JSON protocol.
func (s *Server) answer(ctx context.Context, r *http.Request, body []byte) (any, error) {
	target := r.Header.Get("X-Amz-Target")
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/x-amz-json-1.1" && kind != "application/x-amz-json-1.0" {
		return nil, protocol.Failf(protocol.CodeUnknown, "the content type is %q, not application/x-amz-json-1.1", protocol.Shortened(kind))
	}
	if o, ok := s.operations[target]; ok {
		err := s.throttle.take(target)
		var answer any
		if err == nil {
			answer, err = o.Answer(ctx, body)
		}
		s.throttle.count(servicePrefix(target)+o.Name, err)
		return answer, err
	}
	if target == "" {
		return nil, protocol.Failf(protocol.CodeUnknown, "the header X-Amz-Target is missing: it names the operation")
	}
	service, name, _ := strings.Cut(target, ".")
	if why, ok := refusals[name]; ok && service+"." == targetECS {
		return nil, protocol.Failf(protocol.CodeUnsupported, "podtask does not do %s: %s", name, why)
	}
	if service+"." == targetECS {
		return nil, protocol.Failf(protocol.CodeUnknown, "ECS has no operation %s that podtask knows", protocol.Shortened(name))
	}
	if service+"." == targetSSM {
		return nil, protocol.Failf(protocol.CodeUnknown, "of Systems Manager podtask answers what the sessions of execute-command and port forwarding need, not %s", protocol.Shortened(name))
	}
	if service+"." == logstreams.Target {
		return nil, protocol.Failf(protocol.CodeUnknown, "of CloudWatch Logs podtask answers what makes groups and streams and reads the log of a task, not %s", protocol.Shortened(name))
	}
	if service+"." == autoscaling.Target {
		return nil, protocol.Failf(protocol.CodeUnknown, "of Application Auto Scaling podtask answers scalable targets, policies, scheduled actions and activities of services of ECS, not %s", protocol.Shortened(name))
	}
	return nil, protocol.Failf(protocol.CodeUnknown, "podtask answers operations of Amazon ECS, not %s", protocol.Shortened(target))
}

// answerForm answers a request of the query protocol.
func (s *Server) answerForm(service string, body []byte) (any, error) {
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, protocol.Failf("MalformedQueryString", "the form cannot be read")
	}
	action := form.Get("Action")
	if action == "GetCallerIdentity" && (service == "sts" || service == "") {
		return callerIdentity(), nil
	}
	if action == "GetRole" && (service == "iam" || service == "") {
		return s.definitions.role(form.Get("RoleName"))
	}
	return nil, protocol.Failf(protocol.CodeInvalidQuery, "podtask does not do %s: it answers Amazon ECS, sts GetCallerIdentity, and iam GetRole", protocol.Shortened(strings.TrimSpace(service+" "+action)))
}
