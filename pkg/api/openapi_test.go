package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/google/go-cmp/cmp"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef"
)

// roots are the types that requests and replies are made of; what they hold is found.
var roots = []reflect.Type{
	reflect.TypeFor[Version](), reflect.TypeFor[Budget](), reflect.TypeFor[Task](), reflect.TypeFor[Event](), reflect.TypeFor[LogLine](), reflect.TypeFor[Pull](),
	reflect.TypeFor[NewTask](), reflect.TypeFor[stopRequest](), reflect.TypeFor[failureReply](),
	reflect.TypeFor[lifecycle.Quota](), reflect.TypeFor[Service](), reflect.TypeFor[NewService](), reflect.TypeFor[ServiceUpdate](), reflect.TypeFor[ContinueRequest](), reflect.TypeFor[NewFault](),
	reflect.TypeFor[PodResources](), reflect.TypeFor[NodeNames](),
}

type object = map[string]any

// schemas makes JSON Schemas of what encoding/json makes of types.
type schemas struct {
	t        *testing.T
	comments map[string]string
	types    map[string]reflect.Type // structs, by their names in the document
	made     object
}

// of is the schema of a type; a struct is referred to by its name.
func (s *schemas) of(typ reflect.Type) object {
	s.t.Helper()
	switch typ {
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[json.RawMessage]():
		return object{"type": "object"}
	}
	switch typ.Kind() {
	case reflect.Pointer:
		return s.of(typ.Elem())
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return object{"type": "integer", "minimum": 0}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return object{"type": "integer"}
	case reflect.Slice:
		return object{"type": "array", "items": s.of(typ.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(typ.Elem())}
	case reflect.Struct:
		name := strings.ToUpper(typ.Name()[:1]) + typ.Name()[1:]
		if known := s.types[name]; known == nil {
			s.types[name] = typ
			s.made[name] = s.whole(typ)
		} else if known != typ {
			s.t.Fatalf("%s and %s would have one name", known, typ)
		}
		return object{"$ref": "#/components/schemas/" + name}
	}
	s.t.Fatalf("%s has no schema", typ)
	return nil
}

// whole is the schema of a struct itself.
func (s *schemas) whole(typ reflect.Type) object {
	properties, required := object{}, []string{}
	for _, f := range reflect.VisibleFields(typ) {
		if f.Anonymous {
			continue // its fields are seen by themselves
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue // it is not in the body: a parameter of the query
		}
		schema := s.of(f.Type)
		declared := typ
		for _, i := range f.Index[:len(f.Index)-1] {
			declared = declared.Field(i).Type
		}
		if c := s.comments[declared.Name()+"."+f.Name]; c != "" {
			schema["description"] = c
		}
		properties[name] = schema
		if options == "" {
			required = append(required, name)
		}
	}
	schema := object{"type": "object", "properties": properties}
	if len(required) > 0 {
		schema["required"] = required
	}
	if c := s.comments[typ.Name()]; c != "" {
		schema["description"] = c
	}
	return schema
}

// commentsIn are the comments of types and fields in a directory's Go files, as
// TYPE and TYPE.FIELD.
func commentsIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			decl, ok := n.(*ast.GenDecl)
			if !ok || decl.Tok != token.TYPE {
				return true
			}
			for _, spec := range decl.Specs {
				typ := spec.(*ast.TypeSpec)
				st, ok := typ.Type.(*ast.StructType)
				if !ok {
					continue
				}
				out[typ.Name.Name] = oneLine(decl.Doc.Text())
				for _, f := range st.Fields.List {
					for _, n := range f.Names {
						out[typ.Name.Name+"."+n.Name] = oneLine(f.Doc.Text() + f.Comment.Text())
					}
				}
			}
			return true
		})
	}
	return out
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// The schemas of the document are those of the Go types; UPDATE_GOLDEN=1 writes them.
func TestSchemasAreThoseOfTheTypes(t *testing.T) {
	t.Parallel()
	var doc object
	if err := json.Unmarshal(OpenAPI, &doc); err != nil {
		t.Fatal(err)
	}
	comments := commentsIn(t, filepath.Join("..", "taskdef"))
	maps.Copy(comments, commentsIn(t, filepath.Join("..", "lifecycle")))
	maps.Copy(comments, commentsIn(t, filepath.Join("..", "fault")))
	maps.Copy(comments, commentsIn(t, "."))
	s := &schemas{t: t, comments: comments, types: map[string]reflect.Type{}, made: object{}}
	for _, typ := range roots {
		s.of(typ)
	}
	doc["components"].(object)["schemas"] = s.made
	var want bytes.Buffer
	enc := json.NewEncoder(&want)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(doc); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(want.Bytes(), OpenAPI) {
		return
	}
	if os.Getenv("UPDATE_GOLDEN") == "" {
		t.Fatal("openapi.json differs from the types: run UPDATE_GOLDEN=1 go test ./pkg/api")
	}
	if err := os.WriteFile("openapi.json", want.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func document(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestEveryRouteIsDescribedAndEveryDescriptionIsARoute(t *testing.T) {
	t.Parallel()
	var in []string
	for path, item := range document(t).Paths.Map() {
		for method := range item.Operations() {
			in = append(in, method+" "+path)
		}
	}
	slices.Sort(in)
	served := slices.Sorted(maps.Keys(NewServer(&backend{}, Version{}).routes()))
	if !slices.Equal(in, served) {
		t.Errorf("described: %q\nserved: %q", in, served)
	}
}

// full is a backend that does everything.
type full struct{ *backend }

func (full) Adopt(context.Context, string) error { return nil }

func (full) Budget(context.Context) (Budget, error) { return Budget{CPU: 2, Memory: 1 << 30}, nil }

func (f full) Create(_ context.Context, n NewTask) (Task, error) {
	if n.Name == "taken" {
		return Task{}, Failed(Conflict, "the name is taken")
	}
	if string(n.Definition) == "{}" {
		return Task{}, &Failure{Code: BadRequest, Message: "not valid", Problems: []taskdef.Problem{{Pointer: "/family", Message: "it is missing"}}}
	}
	return owned(f.state), nil
}

func (full) Void(_ context.Context, clientToken string) error {
	if clientToken == "made" {
		return Failed(Conflict, "the task exists")
	}
	return nil
}

var anEvent = Event{Seq: 7, At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Task: taskID, Family: "web", Status: "RUNNING"}

func (full) Events(_ context.Context, q EventQuery, fn func(Event) error) error {
	if q.After >= anEvent.Seq {
		return nil
	}
	return fn(anEvent)
}

var aPull = Pull{Image: "docker.io/library/app:1", Phase: "pulling", Layer: "0123456789ab", Current: 1 << 20, Total: 1 << 30}

func (full) Pulls(ctx context.Context, _ string, follow bool, fn func(Pull) error) error {
	if err := fn(aPull); err != nil || !follow {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

func (full) Pod(context.Context, string) (json.RawMessage, error) {
	return json.RawMessage(`{"apiVersion": "v1", "kind": "Pod"}`), nil
}

// aService is what full keeps.
func aService() Service {
	s := service.New(taskID, "web", service.Spec{TaskDefinition: "web:1"}, 1, service.Config{Bounds: &service.Bounds{MaximumPercent: 200}}, anEvent.At)
	s, _ = service.Step(s, anEvent.At, service.TimerFired{})
	return FromService(s, anEvent.At)
}

func (full) Services(context.Context) ([]Service, error) { return []Service{aService()}, nil }

func (full) Service(_ context.Context, name string) (Service, error) {
	if name != "web" {
		return Service{}, Failed(NotFound, "no such service")
	}
	return aService(), nil
}

func (full) CreateService(_ context.Context, n NewService) (Service, error) {
	if n.DesiredCount < 0 {
		return Service{}, Failed(BadRequest, "fewer than none")
	}
	return aService(), nil
}

func (f full) UpdateService(ctx context.Context, name string, _ ServiceUpdate) (Service, error) {
	return f.Service(ctx, name)
}

func (f full) RollbackService(ctx context.Context, name string, _ bool) (Service, error) {
	if name == "young" {
		return Service{}, Failed(Conflict, "there is nothing to return to")
	}
	return f.Service(ctx, name)
}

func (f full) WakeService(ctx context.Context, name, _ string) (Service, error) {
	return f.Service(ctx, name)
}

func (f full) ContinueService(ctx context.Context, name string, q ContinueRequest) (Service, error) {
	if q.Hook == "ended" {
		return Service{}, Failed(Conflict, "the deployment does not wait at a pause")
	}
	return f.Service(ctx, name)
}

func (full) RemoveService(_ context.Context, _ string, force bool) error {
	if !force {
		return Failed(Conflict, "it is not scaled down")
	}
	return nil
}

func (full) WatchService(_ context.Context, _ string, fn func(Service) bool) error {
	fn(aService())
	return nil
}

var aLine = LogLine{Container: "app", Stream: "stdout", Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Text: "hello <&>"}

func (full) Logs(_ context.Context, _ string, q LogQuery, fn func(LogLine) error) error {
	if q.Tail == 0 {
		return errors.New("disk on fire")
	}
	if aLine.Time.Before(q.Since) || !q.Until.IsZero() && aLine.Time.After(q.Until) {
		return nil
	}
	return fn(aLine)
}

// Every reply of the handlers, failures too, is as the document says, and so is every
// request that they take.
func TestRepliesAreAsDescribed(t *testing.T) {
	t.Parallel()
	router, err := gorillamux.NewRouter(document(t))
	if err != nil {
		t.Fatal(err)
	}
	// One line of JSON Lines is an object of the type.
	openapi3filter.RegisterBodyDecoder("application/jsonl", openapi3filter.RegisteredBodyDecoder("application/json"))
	b := &backend{state: someState()}
	b.state.Containers[0].Digest = "sha256:1"
	server := NewServer(full{b}, ThisVersion("1"))
	tests := []struct {
		request string
		body    string
		status  int
	}{
		{"GET /v1/version", "", 200},
		{"GET /v1/openapi.json", "", 200},
		{"GET /v1/budget", "", 200},
		{"PUT /v1/nodes/host/names", `{"names": []}`, 204},
		{"GET /v1/events", "", 200},
		{"GET /v1/events?after=6&task=mine&follow=true", "", 200},
		{"GET /v1/events?task=none", "", 404},
		{"GET /v1/tasks", "", 200},
		{"POST /v1/tasks", `{"definition":{"family":"web"},"name":"n","environment":[{"name":"A","value":"1"}],"vars":{"X":"y"},"pull":"once","limits":"off","remove":true}`, 201},
		{"POST /v1/tasks", `{"definition":{"family":"web"},"name":"taken"}`, 409},
		{"POST /v1/tasks", `{"definition":{}}`, 400},
		{"DELETE /v1/tasks?clientToken=one", "", 204},
		{"DELETE /v1/tasks?clientToken=made", "", 409},
		{"GET /v1/tasks/mine", "", 200},
		{"GET /v1/tasks/none", "", 404},
		{"GET /v1/tasks/two", "", 409},
		{"GET /v1/tasks/bad", "", 500},
		{"DELETE /v1/tasks/mine?by=me&force=true", "", 202},
		{"DELETE /v1/tasks/mine", "", 409},
		{"GET /v1/tasks/mine/logs?container=app&since=2026-01-02T03:04:05Z&tail=3", "", 200},
		{"GET /v1/tasks/mine/logs?until=2026-01-02T03:04:05Z", "", 200},
		{"GET /v1/tasks/mine/logs?container=none", "", 404},
		{"GET /v1/tasks/mine/logs?tail=0", "", 500},
		{"GET /v1/tasks/mine/pulls", "", 200},
		{"GET /v1/tasks/none/pulls", "", 404},
		{"GET /v1/tasks/mine/podstatus", "", 200},
		{"GET /v1/tasks/none/podstatus", "", 404},
		{"POST /v1/tasks/mine/adopt", "", 202},
		{"POST /v1/tasks/mine/stop", `{"by":"me","force":true}`, 202},
		{"POST /v1/tasks/mine/stop", "", 202},
		{"PUT /v1/tasks/mine/quota", `{"cpu":0.5}`, 202},
		{"PUT /v1/tasks/mine/resources", `{"containers":{"app":{"limits":{"memory":"64Mi"}}},"pod":{}}`, 204},
		{"PUT /v1/tasks/mine/resources", `{"containers":{"none":{}}}`, 400},
		{"POST /v1/tasks/mine/pause", "", 202},
		{"POST /v1/tasks/none/pause", "", 404},
		{"POST /v1/tasks/mine/unpause", "", 202},
		{"POST /v1/tasks/none/unpause", "", 404},
		{"POST /v1/tasks/mine/containers/app/restart", "", 202},
		{"POST /v1/tasks/mine/containers/none/restart", "", 404},
		{"POST /v1/tasks/mine/faults", `{"kind":"latency","delayMilliseconds":200,"sources":["0.0.0.0/0"],"durationSeconds":60}`, 204},
		{"POST /v1/tasks/mine/faults", `{"kind":"latency","sources":["nowhere"],"port":1}`, 400},
		{"POST /v1/tasks/mine/faults", `{"kind":"network-packet-loss","lossPercent":20,"sources":["::/0"]}`, 409},
		{"POST /v1/tasks/none/faults", `{"kind":"latency","delayMilliseconds":200,"sources":["0.0.0.0/0"]}`, 404},
		{"DELETE /v1/tasks/mine/faults?kind=blackhole-port&port=80&protocol=tcp&trafficType=egress", "", 204},
		{"DELETE /v1/tasks/mine/faults?kind=fire", "", 400},
		{"DELETE /v1/tasks/none/faults", "", 404},
		{"GET /v1/services", "", 200},
		{"POST /v1/services", `{"serviceName":"web","taskDefinition":"web:1","desiredCount":2,"deploymentConfiguration":{"minimumHealthyPercent":50,"maximumPercent":200,"deploymentCircuitBreaker":{"enable":true,"rollback":false,"threshold":{"type":"COUNT","value":2}},"strategy":"LINEAR","linear":{"percent":12.5,"bakeSeconds":60},"bakeSeconds":300,"hooks":[{"name":"ok","stages":["POST_SCALE_UP"],"kind":"PAUSE","timeoutSeconds":60,"timeoutAction":"CONTINUE"}]},"healthCheckGracePeriodSeconds":5,"vars":{"X":"y"},"environment":[{"name":"A","value":"1"}]}`, 201},
		{"POST /v1/services", `{"serviceName":"web","taskDefinition":"web:1","desiredCount":-2}`, 400},
		{"GET /v1/services/web", "", 200},
		{"GET /v1/services/none", "", 404},
		{"GET /v1/services/web/watch", "", 200},
		{"GET /v1/services/none/watch", "", 404},
		{"PATCH /v1/services/web", `{"desiredCount":0,"taskDefinition":"web:2","forceNewDeployment":true}`, 200},
		{"POST /v1/services/web/rollback", "", 200},
		{"POST /v1/services/young/rollback", "", 409},
		{"POST /v1/services/web/continue", `{"hook":"ok","rollback":true}`, 200},
		{"POST /v1/services/web/continue", `{"hook":"ended"}`, 409},
		{"POST /v1/services/web/wake?by=somebody", "", 200},
		{"POST /v1/services/none/wake", "", 404},
		{"DELETE /v1/services/web?force=true", "", 202},
		{"DELETE /v1/services/web", "", 409},
	}
	tried := map[string]bool{}
	for _, tt := range tests {
		method, target, _ := strings.Cut(tt.request, " ")
		req := httptest.NewRequestWithContext(t.Context(), method, "http://podtask"+target, strings.NewReader(tt.body))
		if tt.body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		route, params, err := router.FindRoute(req)
		if err != nil {
			t.Errorf("%s: %v", tt.request, err)
			continue
		}
		tried[route.Operation.OperationID] = true
		input := &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route}
		if err := openapi3filter.ValidateRequest(t.Context(), input); err != nil {
			t.Errorf("%s: the request: %v", tt.request, err)
		}
		req.Body = io.NopCloser(strings.NewReader(tt.body))
		rec := httptest.NewRecorder()
		server.http.Handler.ServeHTTP(rec, req)
		if rec.Code != tt.status {
			t.Errorf("%s: status %d, want %d: %s", tt.request, rec.Code, tt.status, rec.Body)
			continue
		}
		reply := &openapi3filter.ResponseValidationInput{RequestValidationInput: input, Status: rec.Code, Header: rec.Header(), Options: &openapi3filter.Options{IncludeResponseStatus: true}}
		reply.SetBodyBytes(rec.Body.Bytes())
		if err := openapi3filter.ValidateResponse(t.Context(), reply); err != nil {
			t.Errorf("%s: the reply: %v\n%s", tt.request, err, rec.Body)
		}
	}
	tried["watch"] = true // never ends by itself: TestWatch has it
	for path, item := range document(t).Paths.Map() {
		for method, op := range item.Operations() {
			if !tried[op.OperationID] {
				t.Errorf("%s %s is not tried", method, path)
			}
		}
	}
}

func TestMalformedRequestsAreRefused(t *testing.T) {
	t.Parallel()
	server := NewServer(full{&backend{state: someState()}}, Version{})
	for _, tt := range []struct{ request, body string }{
		{"GET /v1/events?after=x", ""},
		{"GET /v1/tasks/mine/logs?since=yesterday", ""},
		{"GET /v1/tasks/mine/logs?until=yesterday", ""},
		{"GET /v1/tasks/mine/logs?until=2026-01-02T03:04:05Z&follow=true", ""},
		{"GET /v1/tasks/mine/logs?tail=few", ""},
		{"POST /v1/tasks", ""},
		{"POST /v1/tasks", "{}"},
		{"POST /v1/tasks", `{"definition":{"family":"web"},"nmae":"x"}`},
		{"POST /v1/tasks", `{"definition":"` + strings.Repeat("x", 3<<20) + `"}`},
		{"DELETE /v1/tasks", ""},
		{"DELETE /v1/tasks?clientToken=" + strings.Repeat("x", MaxClientToken+1), ""},
		{"POST /v1/tasks/mine/stop", "[]"},
		{"DELETE /v1/tasks/mine?force=perhaps", ""},
		{"DELETE /v1/services/web?force=perhaps", ""},
		{"POST /v1/services", `{"name":"web"}`},
		{"PATCH /v1/services/web", ""},
	} {
		method, target, _ := strings.Cut(tt.request, " ")
		rec := httptest.NewRecorder()
		server.http.Handler.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(tt.body)))
		if rec.Code != http.StatusBadRequest {
			t.Errorf("%s: status %d", tt.request, rec.Code)
		}
	}
}

func TestTheOwnerOfOneTaskSaysWhatItDoesNotDo(t *testing.T) {
	t.Parallel()
	b := &backend{state: someState()}
	c, _ := serve(t, b)
	_, err := c.Create(t.Context(), NewTask{Definition: json.RawMessage("{}")})
	_, services := c.Services(t.Context())
	for what, err := range map[string]error{
		"services": services,
		"create":   err, "void": c.Void(t.Context(), "one"), "adopt": c.Adopt(t.Context(), taskID),
		"events": c.Events(t.Context(), EventQuery{}, func(Event) error { return nil }),
		"logs":   c.Logs(t.Context(), taskID, LogQuery{}, func(LogLine) error { return nil }),
	} {
		if !Is(err, Unsupported) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestServicesCrossTheWire(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, full{&backend{state: someState()}})
	want := aService()
	all, err := c.Services(t.Context())
	if diff := cmp.Diff([]Service{want}, all); diff != "" || err != nil {
		t.Error(diff, err)
	}
	var seen []Service
	watched := c.WatchService(t.Context(), "web", func(s Service) bool { seen = append(seen, s); return false })
	one, errOne := c.Service(t.Context(), "web")
	made, errMade := c.CreateService(t.Context(), NewService{ServiceName: "web", TaskDefinition: "web:1"})
	zero := 0
	changed, errChanged := c.UpdateService(t.Context(), "web", ServiceUpdate{DesiredCount: &zero})
	back, errBack := c.RollbackService(t.Context(), "web", true)
	on, errOn := c.ContinueService(t.Context(), "web", ContinueRequest{Hook: "ok"})
	if err := errors.Join(watched, errOne, errMade, errChanged, errBack, errOn, c.RemoveService(t.Context(), "web", true)); err != nil {
		t.Error(err)
	}
	for _, s := range append(seen, one, made, changed, back, on) {
		if diff := cmp.Diff(want, s); diff != "" {
			t.Error(diff)
		}
	}
	if err := c.RemoveService(t.Context(), "web", false); !Is(err, Conflict) {
		t.Error(err)
	}
}

func TestStreamsCrossTheWire(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, full{&backend{state: someState()}})
	var events []Event
	if err := c.Events(t.Context(), EventQuery{After: 6, Follow: true}, func(e Event) error { events = append(events, e); return nil }); err != nil || len(events) != 1 || events[0] != anEvent {
		t.Errorf("events %+v, %v", events, err)
	}
	if err := c.Events(t.Context(), EventQuery{After: 7}, func(Event) error { return errors.New("one too many") }); err != nil {
		t.Error(err)
	}
	var lines []LogLine
	q := LogQuery{Container: "app", Since: aLine.Time, Until: aLine.Time.Add(time.Minute), Tail: 5}
	if err := c.Logs(t.Context(), "mine", q, func(l LogLine) error { lines = append(lines, l); return nil }); err != nil || len(lines) != 1 || lines[0] != aLine {
		t.Errorf("lines %+v, %v", lines, err)
	}
	for _, q := range []LogQuery{{Tail: -1, Since: aLine.Time.Add(time.Second)}, {Tail: -1, Until: aLine.Time.Add(-time.Second)}} {
		if err := c.Logs(t.Context(), "mine", q, func(LogLine) error { return errors.New("one too many") }); err != nil {
			t.Errorf("%+v: %v", q, err)
		}
	}
	stop := errors.New("stop")
	if err := c.Logs(t.Context(), "mine", LogQuery{Tail: -1}, func(LogLine) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("an error of the reader: %v", err)
	}
	made, err := c.Create(t.Context(), NewTask{Definition: json.RawMessage(`{"family":"web"}`)})
	if err != nil || made.ID != taskID {
		t.Errorf("created %q, %v", made.ID, err)
	}
	_, err = c.Create(t.Context(), NewTask{Definition: json.RawMessage("{}")})
	var f *Failure
	if !errors.As(err, &f) || f.Code != BadRequest || len(f.Problems) != 1 || f.Problems[0].Pointer != "/family" {
		t.Errorf("an invalid definition: %+v", err)
	}
}
