package logstest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Event is a log event.
type Event struct {
	Timestamp int64  `json:"timestamp"`
	Message   string `json:"message"`
}

// Request is one that came in.
type Request struct {
	// Operation is PutLogEvents and so on.
	Operation     string
	Group, Stream string
	Events        []Event
	// Header has the headers.
	Header http.Header
}

// Failure is the answer to a request that fails.
type Failure struct {
	Status        int
	Code, Message string
	// Cut ends the connection without an answer; After does the request before.
	Cut, After bool
}

// Server is a CloudWatch Logs. Make it with New.
type Server struct {
	mu       sync.Mutex
	streams  map[string]map[string][]Event // by group
	requests []Request
	fail     func(Request) *Failure
	changed  chan struct{}
	rejected map[string]int // fields of rejectedLogEventsInfo of the next answer
}

// New returns a server with the groups given, each without streams.
func New(groups ...string) *Server {
	s := &Server{streams: map[string]map[string][]Event{}, changed: make(chan struct{})}
	for _, g := range groups {
		s.streams[g] = map[string][]Event{}
	}
	return s
}

// Fail asks fn before each request how it fails; nil: it does not.
func (s *Server) Fail(fn func(Request) *Failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fn
}

// Reject puts rejectedLogEventsInfo into the next answer to PutLogEvents.
func (s *Server) Reject(info map[string]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rejected = info
}

// Messages returns the texts of a stream.
func (s *Server) Messages(group, stream string) (texts []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.streams[group][stream] {
		texts = append(texts, e.Message)
	}
	return texts
}

// Streams returns the names of the streams of a group.
func (s *Server) Streams(group string) (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.streams[group] {
		names = append(names, name)
	}
	return names
}

// Requests returns the requests that came in.
func (s *Server) Requests(operation string) (all []Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if r.Operation == operation {
			all = append(all, r)
		}
	}
	return all
}

// Changed is closed at the next request that has been answered.
func (s *Server) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		LogGroupName, LogStreamName, NextToken string
		LogEvents                              []Event
	}
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		answer(w, Failure{Status: 400, Code: "SerializationException", Message: err.Error()})
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { close(s.changed); s.changed = make(chan struct{}) }()
	request := Request{operation, in.LogGroupName, in.LogStreamName, in.LogEvents, r.Header.Clone()}
	s.requests = append(s.requests, request)
	var planned *Failure
	if s.fail != nil {
		planned = s.fail(request)
	}
	if planned == nil && !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ") {
		planned = &Failure{Status: 400, Code: "MissingAuthenticationTokenException", Message: "the request is not signed"}
	}
	if planned != nil && !planned.After {
		answer(w, *planned)
		return
	}
	failure := s.do(request)
	switch {
	case failure != nil:
		answer(w, *failure)
	case planned != nil:
		answer(w, *planned)
	default:
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		out := s.read(request, in.NextToken)
		if operation == "PutLogEvents" && s.rejected != nil {
			out["rejectedLogEventsInfo"], s.rejected = s.rejected, nil
		}
		_ = json.NewEncoder(w).Encode(out) // the client has gone
	}
}

// pageEvents is the number of events that a page has, so few that clients have to turn pages.
const pageEvents = 3

// read answers what reads events: those of a stream from a token on, or all of a group.
func (s *Server) read(r Request, token string) map[string]any {
	switch r.Operation {
	case "GetLogEvents":
		all := s.streams[r.Group][r.Stream]
		begin, _ := strconv.Atoi(token)
		begin = min(max(begin, 0), len(all))
		end := min(begin+pageEvents, len(all))
		return map[string]any{"events": all[begin:end], "nextForwardToken": strconv.Itoa(end), "nextBackwardToken": strconv.Itoa(max(0, begin-pageEvents))}
	case "FilterLogEvents":
		events := []map[string]any{}
		for stream, all := range s.streams[r.Group] {
			for i, e := range all {
				events = append(events, map[string]any{"eventId": fmt.Sprint(stream, i), "logStreamName": stream, "timestamp": e.Timestamp, "ingestionTime": e.Timestamp, "message": e.Message})
			}
		}
		return map[string]any{"events": events}
	}
	return map[string]any{}
}

func answer(w http.ResponseWriter, f Failure) {
	if f.Cut {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	w.WriteHeader(f.Status)
	_ = json.NewEncoder(w).Encode(map[string]string{"__type": f.Code, "message": f.Message}) // the client has gone
}

func (s *Server) do(r Request) *Failure {
	streams, there := s.streams[r.Group]
	absent := func(what string) *Failure {
		return &Failure{Status: 400, Code: "ResourceNotFoundException", Message: "The specified log " + what + " does not exist."}
	}
	already := &Failure{Status: 400, Code: "ResourceAlreadyExistsException", Message: "It exists."}
	switch r.Operation {
	case "CreateLogGroup":
		if there {
			return already
		}
		s.streams[r.Group] = map[string][]Event{}
	case "CreateLogStream":
		if !there {
			return absent("group")
		}
		if _, there := streams[r.Stream]; there {
			return already
		}
		streams[r.Stream] = nil
	case "PutLogEvents":
		if !there {
			return absent("group")
		}
		if _, there := streams[r.Stream]; !there {
			return absent("stream")
		}
		if err := limits(r.Events); err != nil {
			return &Failure{Status: 400, Code: "InvalidParameterException", Message: err.Error()}
		}
		streams[r.Stream] = append(streams[r.Stream], r.Events...)
	case "GetLogEvents":
		if _, has := streams[r.Stream]; !there || !has {
			return absent("stream")
		}
	case "FilterLogEvents":
		if !there {
			return absent("group")
		}
	default:
		return &Failure{Status: 400, Code: "UnknownOperationException", Message: r.Operation}
	}
	return nil
}

// limits are those of the reference of PutLogEvents.
func limits(events []Event) error {
	if len(events) < 1 || len(events) > 10_000 {
		return fmt.Errorf("%d events", len(events))
	}
	bytes := 0
	for i, e := range events {
		if bytes += len(e.Message) + 26; e.Message == "" || !utf8.ValidString(e.Message) || len(e.Message) > 1<<20-26 {
			return fmt.Errorf("event %d has %d bytes or is no text", i, len(e.Message))
		}
		if i > 0 && e.Timestamp < events[i-1].Timestamp {
			return fmt.Errorf("event %d is older than the one before", i)
		}
	}
	if bytes > 1<<20 {
		return fmt.Errorf("%d bytes", bytes)
	}
	if span := events[len(events)-1].Timestamp - events[0].Timestamp; span > (24 * time.Hour).Milliseconds() {
		return fmt.Errorf("the events span %d ms", span)
	}
	return nil
}
