package datachannel

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// MaxOutput is the number of bytes of output that a message has at most, as the
	// plugin's own messages have.
	MaxOutput = 1024
	// window is the number of messages that may be without acknowledgement. A client keeps 10000.
	window = 1000
	// againFirst and againMost are the times after which a message is sent again, the plugin's.
	againFirst = 200 * time.Millisecond
	againMost  = time.Second
	// agentVersion is that of an agent of which clients expect all that is here.
	agentVersion = "3.3.0.0"
)

// Event is what a client wants.
type Event struct {
	What What
	// Data is what was typed, or why the client does not take part.
	Data []byte
	Size Size
}

// What is the sort of an event.
type What int

// The sorts of events.
const (
	Ready   What = iota // the handshake is done: output can be sent
	Typed               // Data is for the program
	Resized             // the terminal has another size
	Refused             // the client cannot do what it must: Data says why
	Ended               // the client wants the session to end
)

// Size is that of a terminal in characters.
type Size struct{ Rows, Columns uint16 }

// Forwarding names the ports of a session that forwards one, as the document of the client gives them.
// The zero value stands for a terminal.
type Forwarding struct {
	// Port is a port of the container. LocalPort is the port that the client opens; 0 means any.
	Port, LocalPort uint16
}

// Channel is the state of the channel of one session, over all its connections.
type Channel struct {
	session string
	forward Forwarding
	seed    uint64 // first half of the IDs of messages
	made    uint64 // messages so far: second half
	next    int64  // number of the next message to the client
	waiting []sent // without acknowledgement, in order
	// before: what has a lower number and is not acknowledged when the client answers a
	// ping was acknowledged on a connection that broke off.
	before  int64
	in      inputs
	ready   bool
	greeted time.Time
}

// sent is a message to the client.
type sent struct {
	sequence int64
	frame    []byte
	at       time.Time
	wait     time.Duration
}

// New returns a channel to which no client is connected yet. The seed makes the IDs of
// messages differ from those of other sessions.
func New(session string, seed uint64, forward Forwarding) *Channel {
	return &Channel{session: session, seed: seed, forward: forward}
}

// sessionType returns the type and properties of the session for the handshake, with the names of AWS' documents. With
// agentVersion, a client that forwards a port carries all its connections in one stream.
func (c *Channel) sessionType() any {
	type parameters struct {
		SessionType string
		Properties  map[string]string
	}
	if c.forward.Port == 0 {
		return parameters{"Standard_Stream", map[string]string{}}
	}
	return parameters{"Port", map[string]string{
		"type": "LocalPortForwarding", "portNumber": strconv.Itoa(int(c.forward.Port)), "localPortNumber": strconv.Itoa(int(c.forward.LocalPort)),
	}}
}

// handshake is the request that begins a session.
func (c *Channel) handshake() []byte {
	type action struct {
		ActionType       string
		ActionParameters any
	}
	return marshal(struct {
		AgentVersion           string
		RequestedClientActions []action
	}{agentVersion, []action{{"SessionType", c.sessionType()}}})
}

// Connect is what to send to a client that has just connected: the handshake, or what it has
// not acknowledged on the connection before. A ping belongs behind it, so that Pong follows.
func (c *Channel) Connect(now time.Time) (out [][]byte) {
	if c.next == 0 {
		c.greeted = now
		return append(out, c.send(KindHandshakeRequest, c.handshake(), now))
	}
	c.before = c.next
	c.in.reconnect()
	for i := range c.waiting {
		c.waiting[i].at, c.waiting[i].wait = now, againFirst
		out = append(out, c.waiting[i].frame)
	}
	return out
}

// Pong notes that the client has read all that was sent before the last ping. It does not
// acknowledge a second time what it had before its connection broke off.
func (c *Channel) Pong() {
	c.waiting = slices.DeleteFunc(c.waiting, func(s sent) bool { return s.sequence < c.before })
	c.before = 0
}

// Free is the number of messages of output that may be sent.
func (c *Channel) Free() int { return max(0, window-len(c.waiting)) }

// Idle reports whether the client has acknowledged everything.
func (c *Channel) Idle() bool { return len(c.waiting) == 0 }

// Output is the message of output of at most MaxOutput bytes.
func (c *Channel) Output(data []byte, now time.Time) []byte { return c.send(KindData, data, now) }

// ConnectFailed is the message that a connection to the forwarded port failed. The client says so.
func (c *Channel) ConnectFailed(now time.Time) []byte {
	const connectToPortError = 3
	return c.send(KindFlag, binary.BigEndian.AppendUint32(nil, connectToPortError), now)
}

// Wake is the time at which a message is to be sent again; zero if none waits.
func (c *Channel) Wake() time.Time {
	if len(c.waiting) == 0 {
		return time.Time{}
	}
	return c.waiting[0].at.Add(c.waiting[0].wait)
}

// Again is the message to be sent again; nil: none is due. The plugin drops output until it
// has set up its terminal, and what follows waits there for it.
func (c *Channel) Again(now time.Time) []byte {
	if at := c.Wake(); at.IsZero() || now.Before(at) {
		return nil
	}
	s := &c.waiting[0]
	s.at, s.wait = now, min(2*s.wait, againMost)
	return s.frame
}

// Close is the message that ends the session; text is shown to the user.
func (c *Channel) Close(text string, now time.Time) []byte {
	m := c.message(TypeClosed, now)
	m.Payload = marshal(struct {
		MessageID     string `json:"MessageId"`
		CreatedDate   string
		DestinationID string `json:"DestinationId"`
		SessionID     string `json:"SessionId"`
		MessageType   string
		SchemaVersion int
		Output        string
	}{uuid(m.ID), now.UTC().Format(time.RFC3339), "", c.session, TypeClosed, theSchema, text})
	return m.Bytes()
}

// Receive handles a frame from the client and returns what it wants and what to send. Without
// room for more, what is typed is not acknowledged, so that the client sends it again. After an error
// the connection is to be closed.
func (c *Channel) Receive(frame []byte, room bool, now time.Time) (events []Event, out [][]byte, err error) {
	m, err := Parse(frame)
	if err != nil {
		return nil, nil, err
	}
	switch m.Type {
	case TypeAcknowledge:
		return nil, nil, c.acknowledged(m)
	case TypeInput:
	default: // a client may say more than it must
		return nil, nil, nil
	}
	if m.Sequence < 0 {
		return nil, nil, fmt.Errorf("message %d has a negative number", m.Sequence)
	}
	for _, number := range c.in.add(m, room) {
		out = append(out, c.acknowledge(m, number, now))
	}
	for next, ok := c.in.pop(); ok; next, ok = c.in.pop() {
		wants, answers, err := c.take(next, now)
		events, out = append(events, wants...), append(out, answers...)
		if err != nil {
			return events, out, err
		}
	}
	return events, out, nil
}

// take handles a message of the client in its turn.
func (c *Channel) take(m Message, now time.Time) (events []Event, out [][]byte, err error) {
	if !c.ready && m.Kind != KindHandshakeResponse {
		return nil, nil, fmt.Errorf("message %d has kind %d, and the handshake is not done", m.Sequence, m.Kind)
	}
	switch m.Kind {
	case KindHandshakeResponse:
		return c.shaken(m, now)
	case KindData:
		return []Event{{What: Typed, Data: slices.Clone(m.Payload)}}, nil, nil
	case KindSize:
		var size struct{ Cols, Rows uint32 }
		if err := json.Unmarshal(m.Payload, &size); err != nil {
			return nil, nil, fmt.Errorf("the size of a terminal cannot be read: %w", err)
		}
		if size.Cols == 0 || size.Rows == 0 {
			return nil, nil, nil
		}
		return []Event{{What: Resized, Size: Size{Rows: uint16(min(size.Rows, math.MaxUint16)), Columns: uint16(min(size.Cols, math.MaxUint16))}}}, nil, nil
	case KindFlag:
		const terminate = 2
		if len(m.Payload) == 4 && binary.BigEndian.Uint32(m.Payload) == terminate {
			return []Event{{What: Ended}}, nil, nil
		}
	}
	return nil, nil, nil
}

// shaken handles the answer to the handshake.
func (c *Channel) shaken(m Message, now time.Time) (events []Event, out [][]byte, err error) {
	if c.ready {
		return nil, nil, errors.New("the handshake is answered twice")
	}
	var answer struct {
		ProcessedClientActions []struct {
			ActionType   string
			ActionStatus int
			Error        string
		}
		Errors []string
	}
	if err := json.Unmarshal(m.Payload, &answer); err != nil {
		return nil, nil, fmt.Errorf("the answer to the handshake cannot be read: %w", err)
	}
	const success = 1
	for _, a := range answer.ProcessedClientActions {
		if a.ActionType == "SessionType" && a.ActionStatus == success {
			c.ready = true
			complete := c.send(KindHandshakeComplete, marshal(struct {
				HandshakeTimeToComplete time.Duration
				CustomerMessage         string
			}{now.Sub(c.greeted), ""}), now)
			return []Event{{What: Ready}}, [][]byte{complete}, nil
		}
		answer.Errors = append(answer.Errors, a.Error)
	}
	return []Event{{What: Refused, Data: []byte("the client cannot take part in the session: " + strings.Join(answer.Errors, "; "))}}, nil, nil
}

// acknowledged handles an acknowledgement.
func (c *Channel) acknowledged(m Message) error {
	var content struct {
		Sequence int64 `json:"AcknowledgedMessageSequenceNumber"`
	}
	if err := json.Unmarshal(m.Payload, &content); err != nil {
		return fmt.Errorf("an acknowledgement cannot be read: %w", err)
	}
	c.waiting = slices.DeleteFunc(c.waiting, func(s sent) bool { return s.sequence == content.Sequence })
	return nil
}

// acknowledge is the acknowledgement of a message under a number.
func (c *Channel) acknowledge(m Message, number int64, now time.Time) []byte {
	a := c.message(TypeAcknowledge, now)
	a.Flags = 3 // as the plugin's: begin and end
	a.Payload = marshal(struct {
		Type         string `json:"AcknowledgedMessageType"`
		ID           string `json:"AcknowledgedMessageId"`
		Sequence     int64  `json:"AcknowledgedMessageSequenceNumber"`
		IsSequential bool   `json:"IsSequentialMessage"`
	}{m.Type, uuid(m.ID), number, true})
	return a.Bytes()
}

// send is the next message of the stream to the client.
func (c *Channel) send(k Kind, payload []byte, now time.Time) []byte {
	m := c.message(TypeOutput, now)
	m.Kind, m.Payload, m.Sequence = k, payload, c.next
	c.next++
	frame := m.Bytes()
	c.waiting = append(c.waiting, sent{sequence: m.Sequence, frame: frame, at: now, wait: againFirst})
	return frame
}

// message is one with an ID of its own.
func (c *Channel) message(kind string, now time.Time) Message {
	c.made++
	m := Message{Type: kind, Created: uint64(now.UnixMilli())}
	binary.BigEndian.PutUint64(m.ID[:], c.seed)
	binary.BigEndian.PutUint64(m.ID[sizeOfHalf:], c.made)
	m.ID[6], m.ID[8] = m.ID[6]&0x0f|0x40, m.ID[8]&0x3f|0x80 // version 4
	return m
}

// marshal writes a payload of texts and numbers, which never fails.
func marshal(v any) []byte {
	b, _ := json.Marshal(v)
	return b
}
