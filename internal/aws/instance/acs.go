package instance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/podtask/podtask/internal/aws/instance/awscall"
	"github.com/podtask/podtask/internal/aws/instance/wire"
	"github.com/podtask/podtask/internal/ecsstatus"
)

// AgentVersion is the version of the agent whose protocol this is. ECS refuses versions that it does
// not know, so it is told this one; the User-Agent has podtask's own.
const AgentVersion = "1.105.1"

// agentHash stands for the commit of the agent.
const agentHash = "podtask"

// acs is the link that says what to run.
func (n *node) acs(e *endpoints) *link {
	var connected atomic.Bool // once in this process: ECS has sent all credentials
	return &link{
		node: n, name: "ACS", backoff: n.Pace.ACS, report: func(s *ecsstatus.Status) *ecsstatus.Link { return &s.ACS },
		address: func(ctx context.Context) (string, error) {
			found, err := e.get(ctx)
			if err != nil {
				return "", err
			}
			return join(found.ACS, url.Values{
				"agentHash": {agentHash}, "agentVersion": {AgentVersion}, "clusterArn": {n.cluster()}, "containerInstanceArn": {n.arn()},
				"dockerVersion": {"DockerVersion: " + n.Engine}, "protocolVersion": {"2"}, "sendCredentials": {fmt.Sprint(!connected.Load())}, "seqNum": {"1"},
			})
		},
		opened: func(string) handler {
			connected.Store(true)
			return &acsHandler{node: n}
		},
	}
}

// acsHandler handles a connection of ACS.
type acsHandler struct{ node *node }

func (*acsHandler) begin(context.Context, awscall.Conn) error { return nil }
func (*acsHandler) due() <-chan time.Time                     { return nil }
func (*acsHandler) send(context.Context, awscall.Conn) error  { return nil }
func (*acsHandler) end()                                      {}

func (h *acsHandler) frame(ctx context.Context, c awscall.Conn, f wire.Frame) error {
	var err error
	switch f.Type {
	case wire.TypeHeartbeat:
		err = handle(c, f, h.node.heartbeat)
	case wire.TypePayload:
		err = handle(c, f, h.node.payload)
	case wire.TypeCredentials:
		err = handle(c, f, h.node.credentials)
	case wire.TypeManifest:
		err = handle(c, f, h.node.compare)
	case wire.TypeStopVerificationAck:
		err = handle(c, f, h.node.verified)
	case wire.TypeStageUpdate, wire.TypePerformUpdate:
		err = handle(c, f, func(m wire.Header) ([]reply, error) { return []reply{{wire.TypeNack, wire.UpdateRefused(m)}}, nil })
	case wire.TypeAttachTaskENI, wire.TypeAttachInstanceENI, wire.TypeConfirmAttachment:
		err = handle(c, f, func(m wire.Header) ([]reply, error) { return []reply{{wire.TypeAck, wire.AckOf(m)}}, nil })
	case wire.TypeError, wire.TypeClose:
		h.node.Log.Warn("ECS says", "type", f.Type, "message", string(f.Message[:min(len(f.Message), maxReason)]))
	case wire.TypeInactiveInstance:
		return errInactive
	default:
		h.node.Log.Warn("ECS sent a message of a type that is not known", "type", f.Type)
	}
	if send, ok := errors.AsType[*sendError](err); ok {
		return send.err
	}
	var repeated *repeatedError
	switch {
	case errors.As(err, &repeated):
		h.node.Log.Debug("a message of ECS has been followed before", "type", f.Type, "reason", err)
	case err != nil:
		h.node.Log.Error("a message of ECS is not followed", "type", f.Type, "error", err)
	}
	return nil
}

// repeatedError is the reason for which a message is not followed that ECS repeats by design.
type repeatedError struct{ why string }

func (e *repeatedError) Error() string { return e.why }

// reply is a message to ECS.
type reply struct {
	kind    string
	message any
}

// sendError is a failure of the connection.
type sendError struct{ err error }

func (e *sendError) Error() string { return e.err.Error() }

// handle reads a message, follows it, and sends the replies.
func handle[M any](c awscall.Conn, f wire.Frame, follow func(M) ([]reply, error)) error {
	var m M
	if err := json.Unmarshal(f.Message, &m); err != nil {
		return fmt.Errorf("it cannot be read: %w", plain(err))
	}
	replies, err := follow(m)
	for _, r := range replies {
		text, encodeErr := wire.Encode(r.kind, r.message)
		if encodeErr != nil {
			return encodeErr
		}
		if err := c.Write(text); err != nil {
			return &sendError{err}
		}
	}
	return err
}

func (n *node) heartbeat(m wire.Heartbeat) ([]reply, error) {
	select {
	case n.heartbeats <- struct{}{}:
	default: // one is enough
	}
	return []reply{{wire.TypeHeartbeatAck, wire.HeartbeatAck{MessageID: m.MessageID}}}, nil
}

// complete reports what a message lacks without which it cannot be answered.
func complete(h wire.Header) error {
	if h.MessageID == "" || h.ClusterARN == "" || h.InstanceARN == "" {
		return errors.New("it lacks messageId, clusterArn or containerInstanceArn")
	}
	return nil
}

// payload records the tasks of a message, and acknowledges it. Tasks that are to stop go first. A
// task that cannot be read is told to ECS, and the message is acknowledged all the same; if a record
// cannot be written it is not, and ECS sends it again.
func (n *node) payload(m wire.Payload) (out []reply, err error) {
	if err := complete(m.Header); err != nil {
		return nil, err
	}
	var begin, stop []wire.Task
	for _, raw := range m.Tasks {
		t, err := readTask(raw)
		switch {
		case err != nil && t.ARN == "":
			n.Log.Error("a task of a payload has no ARN, so it cannot even be refused", "message", m.MessageID, "error", err)
		case err != nil:
			if err := n.unreadable(t, err); err != nil {
				return nil, err
			}
		case t.DesiredStatus == wire.StatusStopped:
			stop = append(stop, t)
		default:
			begin = append(begin, t)
		}
	}
	for _, t := range stop {
		if err := n.stop(t); err != nil {
			return nil, err
		}
	}
	for _, t := range begin {
		if err := n.accept(t); err != nil {
			return nil, err
		}
	}
	for _, t := range append(stop, begin...) {
		for _, c := range given(t) {
			out = append(out, reply{wire.TypeCredentialsAck, wire.CredentialsAck{CredentialsID: c.ID, Expiration: c.Expiration, MessageID: m.MessageID}})
		}
	}
	if err := n.advance(m.SeqNum); err != nil {
		return nil, err
	}
	return append(out, reply{wire.TypeAck, wire.AckOf(m.Header)}), nil
}

// advance notes the number of a message.
func (n *node) advance(timeline int64) error {
	n.mu.Lock()
	known := n.identity.Timeline
	n.mu.Unlock()
	if timeline <= known {
		return nil
	}
	return n.change(func(id *Identity) { id.Timeline = timeline })
}

// readTask reads a task of a payload. If it cannot, it returns what ECS calls the task, as far as
// that can be read.
func readTask(raw json.RawMessage) (wire.Task, error) {
	var t wire.Task
	err := plain(json.Unmarshal(raw, &t))
	if err == nil {
		switch t.DesiredStatus {
		case wire.StatusRunning, wire.StatusStopped:
		default:
			err = errors.New("Unrecognized TaskStatus") //nolint:staticcheck // the wording of the agent of AWS
		}
	}
	if err == nil && t.ARN == "" {
		err = errors.New("it has no arn")
	}
	for _, c := range t.Containers {
		if err == nil && t.DesiredStatus == wire.StatusRunning {
			err = readOverrides(c)
		}
	}
	if err == nil {
		return t, nil
	}
	var name struct {
		ARN string `json:"arn"`
	}
	_ = json.Unmarshal(raw, &name) // an ARN that is no text is none
	return wire.Task{ARN: name.ARN}, err
}

// readOverrides checks the overrides of a container, JSON in text.
func readOverrides(c wire.Container) error {
	if c.Overrides == "" {
		return nil
	}
	d := json.NewDecoder(strings.NewReader(c.Overrides))
	d.DisallowUnknownFields()
	var overrides struct {
		Command *[]string `json:"command"`
	}
	if d.Decode(&overrides) != nil {
		return fmt.Errorf("the overrides of the container %s are not a JSON object with the member command alone", c.Name)
	}
	return nil
}

// plain is an error of JSON without the names of Go's types.
func plain(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("the member %s cannot be a JSON %s", wrong.Field, wrong.Value)
	}
	return err
}

// unreadable records that ECS is to be told of a task that cannot be read.
func (n *node) unreadable(t wire.Task, why error) error {
	if w := n.worker(t.ARN); w != nil {
		return nil // it was told, or the task runs
	}
	// The spelling is that of the agent of AWS.
	reason := "UnrecogniedTaskError: Error loading task - " + why.Error()
	return n.add(record{Task: t, Ended: time.Now(), Told: told{Stopped: true}, Queue: []wire.StateChange{never(t, n.cluster(), reason, nil, time.Now())}}, nil)
}

// stop notes that a task is to stop. One that is not known is told to have stopped.
func (n *node) stop(t wire.Task) error {
	if w := n.worker(t.ARN); w != nil {
		return w.stop()
	}
	return n.add(record{Task: withoutSecrets(t), Stop: true, Ended: time.Now(), Told: told{Stopped: true}, Queue: []wire.StateChange{never(t, n.cluster(), "", nil, time.Now())}}, nil)
}

// given are the credentials in a payload's task, by the type of the role.
func given(t wire.Task) map[string]wire.RoleCredentials {
	out := make(map[string]wire.RoleCredentials)
	if c := t.ExecutionRole; c != nil && c.AccessKeyID != "" {
		out[wire.RoleExecution] = *c
	}
	if c := t.Role; c != nil && c.AccessKeyID != "" {
		out[wire.RoleApplication] = *c
	}
	return out
}

// accept records a task that is to run, and its credentials.
func (n *node) accept(t wire.Task) error {
	w := n.worker(t.ARN)
	if w == nil {
		return n.add(record{Task: withoutSecrets(t)}, given(t))
	}
	if rec, _ := w.get(); !rec.Ended.IsZero() {
		return nil
	}
	for kind, c := range given(t) {
		if err := w.roles.set(kind, c); err != nil {
			return err
		}
	}
	return nil
}

// add records a new task and runs it.
func (n *node) add(rec record, given map[string]wire.RoleCredentials) error {
	w := newTaskWorker(n, rec)
	for kind, c := range given {
		if err := w.roles.set(kind, c); err != nil {
			return err
		}
	}
	if err := n.records.put(rec); err != nil {
		return err
	}
	n.start(w)
	return nil
}

// credentials gives a task new credentials of a role.
func (n *node) credentials(m wire.Credentials) ([]reply, error) {
	if roleFiles[m.RoleType] == "" {
		return nil, fmt.Errorf("roles of the type %q are not known", m.RoleType)
	}
	w := n.worker(m.TaskARN)
	if w == nil {
		return nil, fmt.Errorf("the task %s is not known", m.TaskARN)
	}
	if rec, _ := w.get(); rec.Ended.IsZero() {
		if err := w.roles.set(m.RoleType, m.Role); err != nil {
			return nil, err
		}
	}
	return []reply{{wire.TypeCredentialsAck, wire.CredentialsAck{CredentialsID: m.Role.ID, Expiration: m.Role.Expiration, MessageID: m.MessageID}}}, nil
}

// compare compares the tasks that ECS lists with those that are to run here. Those that it lacks are
// not stopped before ECS has confirmed it.
func (n *node) compare(m wire.Manifest) ([]reply, error) {
	if err := complete(m.Header); err != nil {
		return nil, err
	}
	n.mu.Lock()
	old := m.Timeline <= n.identity.Timeline
	n.mu.Unlock()
	if old {
		return nil, &repeatedError{fmt.Sprintf("its timeline %d is not above the last one", m.Timeline)}
	}
	if err := n.change(func(id *Identity) { id.Timeline = m.Timeline }); err != nil {
		return nil, err
	}
	wanted := make(map[string]bool)
	for _, t := range m.Tasks {
		wanted[t.TaskARN] = t.DesiredStatus == wire.StatusRunning
	}
	out := []reply{{wire.TypeAck, wire.AckOf(m.Header)}}
	verify := wire.StopVerification{MessageID: m.MessageID}
	for _, w := range n.all() {
		rec, _ := w.get()
		if rec.Stop || !rec.Ended.IsZero() || wanted[w.arn()] {
			continue
		}
		cluster := rec.Task.ClusterARN
		if cluster == "" {
			cluster = m.ClusterARN
		}
		verify.Candidates = append(verify.Candidates, wire.TaskRef{TaskARN: w.arn(), ClusterARN: cluster, DesiredStatus: wire.StatusStopped})
	}
	n.mu.Lock()
	n.manifest = ""
	if len(verify.Candidates) > 0 {
		n.manifest = m.MessageID
		out = append(out, reply{wire.TypeStopVerification, verify})
	}
	n.mu.Unlock()
	return out, nil
}

// verified stops the tasks that ECS has confirmed to be stopped.
func (n *node) verified(m wire.StopVerificationAck) ([]reply, error) {
	n.mu.Lock()
	known := m.MessageID != "" && m.MessageID == n.manifest
	if known {
		n.manifest = "" // each works once
	}
	n.mu.Unlock()
	if !known {
		return nil, &repeatedError{"it is not of the last manifest"}
	}
	var errs []error
	for _, t := range m.Tasks {
		if w := n.worker(t.TaskARN); w != nil {
			errs = append(errs, w.stop())
		}
	}
	return nil, errors.Join(errs...)
}
