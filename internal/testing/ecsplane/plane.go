package ecsplane

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/podtask/podtask/internal/aws/sigv4"
)

// The keys of instances and of roles, the account and the region of the plane.
const (
	KeyID      = "AKIDEXAMPLE"
	Secret     = "SECRETEXAMPLE"
	Token      = "TOKENEXAMPLE"
	RoleKeyID  = "ASIAEXAMPLE"
	RoleSecret = "S"
	Region     = "us-east-1"
	Account    = "111122223333"
	prefix     = "arn:aws:ecs:" + Region + ":" + Account + ":"
)

// Event is something that an instance said.
type Event struct {
	// On is http, acs or tcs; Op the call or the type of the message, or connect and closed.
	On, Op string
	// Instance is the ARN of the instance whose web socket it is; empty for calls.
	Instance string
	Query    url.Values
	// Header has those of the handshake of a web socket.
	Header http.Header
	// At is the time at which it came.
	At   time.Time
	Body json.RawMessage
	// Key is the ID of the access key with which a call was signed.
	Key string
	// Planned: it got a planned answer.
	Planned bool
}

// Answer is a planned answer to a call.
type Answer struct {
	Status int
	// Type and Message make the exception; empty for a body that is empty.
	Type, Message string
	// Body is the whole answer, if it is not empty.
	Body string
	// Cut ends the connection without an answer.
	Cut bool
}

// Plane is a control plane. It is safe for concurrent use, and an http.Handler.
type Plane struct {
	// Address is the URL at which instances reach the plane.
	Address string
	// Now is the time for signatures; nil for time.Now.
	Now func() time.Time
	// Wrong, if not nil, answers calls whose signature does not fit, as AWS does; handshakes are refused and
	// frames end their connection. Without it such a signature is a problem.
	Wrong *Answer
	// Lose, if not nil, is asked for each frame and call, by its type or operation. True: it is lost with its
	// connection, and nothing has come.
	Lose func(on, op string) bool
	// Serve, if not nil, may answer a call that no planned answer is for; false: the plane answers.
	Serve func(w http.ResponseWriter, operation string, body []byte) bool
	// Notify, if not nil, is called with each event, in its order on its connection. It must not wait.
	Notify func(Event)

	mu      sync.Mutex
	events  []Event
	changed chan struct{}
	answers map[string][]Answer
	sockets map[string]*websocket.Conn
	writing map[string]*sync.Mutex
	reject  map[string][]Answer // of handshakes
	arns    int
	tokens  map[string]string // instances by client token
	// Attributes, if not nil, replaces the attributes in the next answer to a registration.
	attributes []map[string]string
	replaced   bool
	problems   []string
	values     map[string]string
	definition string
	granted    map[string]bool
}

// New returns a plane.
func New(address string) *Plane {
	return &Plane{Address: address, changed: make(chan struct{}), answers: make(map[string][]Answer), sockets: make(map[string]*websocket.Conn),
		writing: make(map[string]*sync.Mutex), reject: make(map[string][]Answer), tokens: make(map[string]string), values: make(map[string]string), granted: make(map[string]bool)}
}

// The actions of IAM that the keys of instances and those of roles have: AmazonEC2ContainerServiceforEC2Role, and
// AmazonECSTaskExecutionRolePolicy with the secrets and files that AWS documents for execution roles.
var (
	instanceActions = []string{
		"ecs:CreateCluster", "ecs:DeregisterContainerInstance", "ecs:DiscoverPollEndpoint", "ecs:Poll", "ecs:RegisterContainerInstance", "ecs:StartTelemetrySession",
		"ecs:SubmitTaskStateChange", "ecs:UpdateContainerInstancesState", "ecr:GetAuthorizationToken", "logs:CreateLogStream", "logs:PutLogEvents",
	}
	roleActions = []string{"ecr:GetAuthorizationToken", "logs:CreateLogStream", "logs:PutLogEvents", "ssm:GetParameters", "secretsmanager:GetSecretValue", "s3:GetObject"}
)

// Grant grants actions of IAM, such as ecs:DescribeClusters, to all keys, beside those of the policies.
func (p *Plane) Grant(actions ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range actions {
		p.granted[a] = true
	}
}

// services are the services of the prefixes of X-Amz-Target, as actions of IAM name them.
var services = map[string]string{"AmazonEC2ContainerServiceV20141113": "ecs", "AmazonSSM": "ssm", "secretsmanager": "secretsmanager", "AmazonEC2ContainerRegistry_V20150921": "ecr"}

// permitted reports whether a key has an action. Of a call that is denied, the plane knows nothing more.
func (p *Plane) permitted(key, action string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := instanceActions
	if key == RoleKeyID {
		list = roleActions
	}
	return p.granted[action] || slices.Contains(list, action)
}

// deny answers as AWS does when no policy has the action.
func deny(w http.ResponseWriter, action string) {
	w.WriteHeader(http.StatusBadRequest)
	answer(w, map[string]string{"__type": "AccessDeniedException", "message": "User: arn:aws:sts::" + Account + ":assumed-role/x/y is not authorized to perform: " + action + " because no identity-based policy allows the " + action + " action"})
}

// InstanceARN is that of the first instance.
func InstanceARN(n int) string { return fmt.Sprintf("%scontainer-instance/lab/%032x", prefix, n) }

// ClusterARN is that of the cluster.
const ClusterARN = prefix + "cluster/lab"

// TaskARN is that of the n-th task.
func TaskARN(n int) string { return fmt.Sprintf("%stask/lab/%032x", prefix, n) }

// Plan has the next calls of an operation answered so, one after the other. For the operations acs and
// tcs it refuses handshakes.
func (p *Plane) Plan(operation string, answers ...Answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers[operation] = append(p.answers[operation], answers...)
}

// PlanFor has the next states of a task answered so, whatever is planned for others.
func (p *Plane) PlanFor(task string, answers ...Answer) {
	p.Plan("SubmitTaskStateChange "+task, answers...)
}

// SetValue has a parameter or a secret.
func (p *Plane) SetValue(name, value string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.values[name] = value
}

// SetObject has an object of S3, BUCKET/KEY. With a region, it is of a bucket there: others are sent there.
func (p *Plane) SetObject(name, content, region string) {
	p.SetValue("s3 "+name, region+" "+content)
}

// SetLogin has USER:PASSWORD as the token of a registry of ECR, for those who sign with a key; empty: for all.
func (p *Plane) SetLogin(key, login string) { p.SetValue(strings.TrimSpace("registry "+key), login) }

// Describe permits DescribeTaskDefinition, which has this definition then.
func (p *Plane) Describe(definition string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.definition = definition
	p.granted["ecs:DescribeTaskDefinition"] = true
}

// Omit has the next registration answered with these attributes alone.
func (p *Plane) Omit(attributes ...map[string]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.attributes, p.replaced = attributes, true
}

// Events returns what the instance said so far.
func (p *Plane) Events() []Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.events)
}

// Forget forgets what was said so far.
func (p *Plane) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = nil
}

// Problems are signatures that did not fit, and calls that are not known.
func (p *Plane) Problems() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.problems)
}

// Of returns the bodies of events.
func (p *Plane) Of(on, op string) (out []json.RawMessage) {
	for _, e := range p.Events() {
		if e.On == on && e.Op == op {
			out = append(out, e.Body)
		}
	}
	return out
}

// Wait waits until fn returns true. It is called at each event.
func (p *Plane) Wait(ctx context.Context, fn func([]Event) bool) error {
	for {
		p.mu.Lock()
		events, changed := slices.Clone(p.events), p.changed
		p.mu.Unlock()
		if fn(events) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// WaitFor waits for a number of events.
func (p *Plane) WaitFor(ctx context.Context, on, op string, n int) error {
	return p.Wait(ctx, func([]Event) bool { return len(p.Of(on, op)) >= n })
}

func (p *Plane) note(e Event) {
	e.At = time.Now()
	p.mu.Lock()
	p.events = append(p.events, e)
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	if p.Notify != nil {
		p.Notify(e)
	}
}

func (p *Plane) problem(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problems = append(p.problems, fmt.Sprintf(format, args...))
}

// SocketOf names a web socket of one instance, for Say, SayText and End; acs and tcs alone name the one
// that was opened last.
func SocketOf(on, instance string) string { return on + " " + instance }

// Say sends a message on a web socket, acs or tcs.
func (p *Plane) Say(on, kind string, message any) error {
	text, err := json.Marshal(map[string]any{"type": kind, "message": message})
	if err != nil {
		return err
	}
	return p.SayText(on, text)
}

// SayText sends a frame as it is.
func (p *Plane) SayText(on string, text []byte) error {
	p.mu.Lock()
	ws, lock := p.sockets[on], p.writing[on]
	p.mu.Unlock()
	if ws == nil {
		return fmt.Errorf("%s is not connected", on)
	}
	lock.Lock()
	defer lock.Unlock()
	return ws.WriteMessage(websocket.TextMessage, text)
}

// End ends a web socket: with a close frame, or with code 0 without one.
func (p *Plane) End(on string, code int) {
	p.mu.Lock()
	ws := p.sockets[on]
	p.mu.Unlock()
	if ws == nil {
		return
	}
	if code != 0 {
		_ = ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, "x"), time.Now().Add(time.Second))
	}
	_ = ws.Close()
}

// Payload sends tasks to the instance.
func (p *Plane) Payload(id string, seq int, tasks ...any) error {
	return p.Say("acs", "PayloadMessage", map[string]any{"messageId": id, "clusterArn": ClusterARN, "containerInstanceArn": p.instance(),
		"seqNum": seq, "generatedAt": 1, "tasks": tasks})
}

func (p *Plane) instance() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return InstanceARN(max(p.arns, 1))
}

// ServeHTTP implements http.Handler.
func (p *Plane) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		p.problem("read: %v", err)
		return
	}
	if p.Now != nil {
		w.Header().Set("Date", p.Now().UTC().Format(http.TimeFormat))
	}
	if r.Method == http.MethodHead { // somebody looks whether there is a service
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if !p.verify(r, body) {
		w.WriteHeader(p.Wrong.Status)
		answer(w, map[string]string{"__type": p.Wrong.Type, "message": p.Wrong.Message})
		return
	}
	switch {
	case strings.HasSuffix(r.URL.Path, "/acs/ws"):
		p.socket(w, r, "acs")
	case strings.HasSuffix(r.URL.Path, "/tcs/ws"):
		p.socket(w, r, "tcs")
	case r.Method == http.MethodGet:
		p.object(w, r)
	default:
		p.call(w, r, body)
	}
}

// keyOf is the ID of the access key of a request, scopeOf the region that it is signed for.
func keyOf(r *http.Request) string {
	_, credential, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	id, _, _ := strings.Cut(credential, "/")
	return id
}

func scopeOf(r *http.Request) (region string) {
	_, credential, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	if parts := strings.Split(credential, "/"); len(parts) > 2 {
		region = parts[2]
	}
	return region
}

// object answers as S3 does.
func (p *Plane) object(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	body, _ := json.Marshal(name)
	p.note(Event{On: "http", Op: "GetObject", Key: keyOf(r), Body: body})
	p.mu.Lock()
	value, ok := p.values["s3 "+name]
	p.mu.Unlock()
	region, content, _ := strings.Cut(value, " ")
	status, code := http.StatusOK, ""
	switch {
	case !p.permitted(keyOf(r), "s3:GetObject"):
		status, code = http.StatusForbidden, "AccessDenied"
	case !ok:
		status, code = http.StatusNotFound, "NoSuchKey"
	case region != "" && region != scopeOf(r):
		w.Header().Set("X-Amz-Bucket-Region", region)
		status, code = http.StatusMovedPermanently, "PermanentRedirect"
	}
	w.WriteHeader(status)
	if code != "" {
		content = "<?xml version=\"1.0\"?><Error><Code>" + code + "</Code><Message>The object is not here</Message></Error>"
	}
	_, _ = io.WriteString(w, content)
}

// planned takes the next planned answer of an operation.
func (p *Plane) planned(operation string) (Answer, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.answers[operation]
	if len(list) == 0 {
		return Answer{}, false
	}
	p.answers[operation] = list[1:]
	return list[0], true
}

func (p *Plane) call(w http.ResponseWriter, r *http.Request, body []byte) {
	service, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if strings.HasPrefix(string(body), "Action=GetCallerIdentity&") {
		p.note(Event{On: "http", Op: "GetCallerIdentity", Key: keyOf(r)})
		_, _ = io.WriteString(w, `<GetCallerIdentityResponse><GetCallerIdentityResult><Arn>arn:aws:sts::`+Account+`:assumed-role/instance/mi-0123456789abcdef0</Arn><Account>`+Account+`</Account></GetCallerIdentityResult></GetCallerIdentityResponse>`)
		return
	}
	if p.Lose != nil && p.Lose("http", operation) {
		panic(http.ErrAbortHandler)
	}
	var of struct {
		Task string `json:"task"`
	}
	_ = json.Unmarshal(body, &of) // most calls are not about a task
	a, ok := p.planned(operation + " " + of.Task)
	if !ok {
		a, ok = p.planned(operation)
	}
	key := keyOf(r)
	p.note(Event{On: "http", Op: operation, Key: key, Body: body, Planned: ok})
	if ok {
		a.write(w, map[string]string{"__type": a.Type, "message": a.Message})
		return
	}
	if action := services[service] + ":" + operation; !p.permitted(key, action) {
		deny(w, action)
		return
	}
	if p.Serve != nil && p.Serve(w, operation, body) {
		return
	}
	switch operation {
	case "RegisterContainerInstance":
		p.register(w, body)
	case "DiscoverPollEndpoint":
		answer(w, map[string]string{"endpoint": p.Address + "/acs/", "telemetryEndpoint": p.Address + "/tcs/", "serviceConnectEndpoint": p.Address + "/sc/"})
	case "SubmitTaskStateChange":
		answer(w, map[string]string{"acknowledgment": "ACK"})
	case "CreateCluster", "DeregisterContainerInstance":
		answer(w, map[string]any{})
	case "UpdateContainerInstancesState", "DescribeContainerInstances":
		answer(w, map[string]any{"containerInstances": []any{map[string]any{"containerInstanceArn": p.instance(), "status": "ACTIVE", "agentConnected": true}}})
	case "DescribeClusters":
		answer(w, map[string]any{"clusters": []any{map[string]string{"status": "ACTIVE"}}})
	case "DescribeTaskDefinition":
		p.mu.Lock()
		definition := p.definition
		p.mu.Unlock()
		answer(w, map[string]json.RawMessage{"taskDefinition": json.RawMessage(definition)})
	case "GetParameters":
		p.parameters(w, body)
	case "GetSecretValue":
		p.value(w, body)
	case "GetAuthorizationToken":
		p.token(w, key)
	default:
		p.problem("the call %q is not known", operation)
		w.WriteHeader(http.StatusBadRequest)
	}
}

func (p *Plane) token(w http.ResponseWriter, key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	token := cmp.Or(p.values["registry "+key], p.values["registry"], "AWS:token")
	answer(w, map[string]any{"authorizationData": []any{map[string]string{"authorizationToken": base64.StdEncoding.EncodeToString([]byte(token))}}})
}

func (p *Plane) value(w http.ResponseWriter, body []byte) {
	var in struct{ SecretId string }
	_ = json.Unmarshal(body, &in)
	p.mu.Lock()
	value, ok := p.values[in.SecretId]
	p.mu.Unlock()
	if !ok {
		w.WriteHeader(http.StatusBadRequest)
		answer(w, map[string]string{"__type": "ResourceNotFoundException", "message": "no such value"})
		return
	}
	answer(w, map[string]any{"SecretString": value})
}

// parameters answers as Parameter Store does: what is missing is named, and up to ten names may be asked for, each once.
func (p *Plane) parameters(w http.ResponseWriter, body []byte) {
	var in struct{ Names []string }
	_ = json.Unmarshal(body, &in)
	names := slices.Clone(in.Names)
	slices.Sort(names)
	if n := len(names); n < 1 || n > 10 || len(slices.Compact(names)) != n {
		w.WriteHeader(http.StatusBadRequest)
		answer(w, map[string]string{"__type": "ValidationException", "message": "names must be 1 to 10 that differ"})
		return
	}
	found, invalid := []map[string]string{}, []string{}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, asked := range in.Names {
		name := asked
		if _, path, ok := strings.Cut(asked, ":parameter/"); ok {
			name = "/" + path
		}
		selector := ""
		if before, after, ok := strings.Cut(name, ":"); ok {
			name, selector = before, ":"+after
		}
		if value, ok := p.values[name+selector]; ok {
			found = append(found, map[string]string{"Name": name, "Selector": selector, "Value": value, "ARN": "arn:aws:ssm:" + Region + ":" + Account + ":parameter" + name})
		} else {
			invalid = append(invalid, asked)
		}
	}
	answer(w, map[string]any{"Parameters": found, "InvalidParameters": invalid})
}

func (p *Plane) register(w http.ResponseWriter, body []byte) {
	var in struct {
		Attributes  []map[string]string `json:"attributes"`
		ClientToken string              `json:"clientToken"`
		InstanceARN string              `json:"containerInstanceArn"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		p.problem("RegisterContainerInstance: %v", err)
	}
	p.mu.Lock()
	arn := in.InstanceARN
	if arn == "" {
		arn = p.tokens[in.ClientToken]
	}
	if arn == "" {
		p.arns++
		arn = InstanceARN(p.arns)
		p.tokens[in.ClientToken] = arn
	}
	attributes := append(in.Attributes, map[string]string{"name": "ecs.availability-zone", "value": Region + "a"})
	if p.replaced {
		attributes, p.replaced = p.attributes, false
	}
	p.mu.Unlock()
	answer(w, map[string]any{"containerInstance": map[string]any{"containerInstanceArn": arn, "attributes": attributes, "status": "ACTIVE"}})
}

// write writes a planned answer, with the document of its exception.
func (a Answer) write(w http.ResponseWriter, exception any) {
	if a.Cut {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(a.Status)
	switch {
	case a.Body != "":
		_, _ = io.WriteString(w, a.Body)
	case a.Type != "":
		answer(w, exception)
	}
}

func answer(w http.ResponseWriter, v any) {
	_ = json.NewEncoder(w).Encode(v) // a client that has left gets none
}

// verify verifies a signature. One that does not fit is a problem, unless Wrong answers it: then it is false.
func (p *Plane) verify(r *http.Request, body []byte) bool {
	now := time.Now()
	if p.Now != nil {
		now = p.Now()
	}
	key := sigv4.Key{ID: KeyID, Secret: Secret}
	if strings.Contains(r.Header.Get("Authorization"), "Credential="+RoleKeyID+"/") {
		key = sigv4.Key{ID: RoleKeyID, Secret: RoleSecret}
	}
	signed, err := sigv4.ParseRequest(r, key, now)
	if err == nil {
		err = signed.Verify(body)
	}
	if err != nil && p.Wrong != nil {
		return false
	}
	if err != nil {
		p.problem("%s %s: %v", r.Method, r.URL.Path, err)
	}
	return true
}

var upgrader = websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}

func (p *Plane) socket(w http.ResponseWriter, r *http.Request, on string) {
	query := r.URL.Query()
	instance := query.Get("containerInstance") + query.Get("containerInstanceArn")
	p.note(Event{On: on, Op: "connect", Instance: instance, Query: query, Header: r.Header.Clone()})
	if a, ok := p.planned(on); ok {
		a.write(w, map[string]any{"type": a.Type, "message": map[string]string{"message": a.Message}})
		return
	}
	ws, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		p.problem("%s: %v", on, err)
		return
	}
	one, writing := SocketOf(on, instance), new(sync.Mutex)
	p.mu.Lock()
	for _, name := range []string{on, one} {
		p.sockets[name], p.writing[name] = ws, writing
	}
	p.mu.Unlock()
	p.note(Event{On: on, Op: "open", Instance: instance})
	defer func() {
		_ = ws.Close()
		p.mu.Lock()
		for _, name := range []string{on, one} {
			if p.sockets[name] == ws {
				p.sockets[name] = nil
			}
		}
		p.mu.Unlock()
		p.note(Event{On: on, Op: "closed", Instance: instance})
	}()
	for {
		_, text, err := ws.ReadMessage()
		if err != nil {
			return
		}
		if on == "tcs" {
			if text, err = p.unsigned(r, text); err != nil {
				return
			}
		}
		var f struct {
			Type    string
			Message json.RawMessage
		}
		if err := json.Unmarshal(text, &f); err != nil {
			p.problem("%s: %v in %.200q", on, err, text)
			continue
		}
		if p.Lose != nil && p.Lose(on, f.Type) {
			return
		}
		p.note(Event{On: on, Op: f.Type, Instance: instance, Body: f.Message})
		if kind := map[string]string{"PublishMetricsRequest": "AckPublishMetric", "PublishHealthRequest": "AckPublishHealth", "PublishInstanceStatusRequest": "AckPublishInstanceStatus"}[f.Type]; kind != "" {
			_ = p.Say(one, kind, map[string]string{"message": "ok"})
		}
	}
}

var errWrong = errors.New("the signature does not fit")

// unsigned verifies the signature of a frame, and returns what is signed.
func (p *Plane) unsigned(opened *http.Request, text []byte) ([]byte, error) {
	head, body, ok := bytes.Cut(text, []byte("\r\n\r\n"))
	if !ok {
		p.problem("a frame without a signature")
		return text, nil
	}
	r := opened.Clone(context.Background())
	r.Header = make(http.Header)
	for line := range strings.SplitSeq(string(head), "\r\n") {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Host" {
			r.Host = value
		} else {
			r.Header.Set(name, value)
		}
	}
	if !p.verify(r, body) {
		return nil, errWrong
	}
	return body, nil
}
