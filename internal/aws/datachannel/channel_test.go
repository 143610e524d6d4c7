package datachannel_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/internal/aws/datachannel"
	"pgregory.net/rapid"
)

var start = time.Unix(1700000000, 0).UTC()

// parsed reads a frame that the channel made.
func parsed(t interface{ Fatalf(string, ...any) }, frame []byte) datachannel.Message {
	m, err := datachannel.Parse(frame)
	if err != nil {
		t.Fatalf("%x: %v", frame, err)
	}
	return m
}

// input is a message of a client. Its ID is that of its payload.
func input(sequence int64, kind datachannel.Kind, payload string) []byte {
	m := datachannel.Message{Type: datachannel.TypeInput, Created: 1, Sequence: sequence, Kind: kind, Payload: []byte(payload)}
	copy(m.ID[1:], payload)
	return m.Bytes()
}

const willing = `{"ClientVersion":"1.2","ProcessedClientActions":[{"ActionType":"SessionType","ActionStatus":1,"ActionResult":null,"Error":""}],"Errors":null}`

// acknowledgement is a client's, of the message of a number.
func acknowledgement(sequence int64) []byte {
	return datachannel.Message{Type: datachannel.TypeAcknowledge, Created: 1, Flags: 3, Payload: fmt.Appendf(nil,
		`{"AcknowledgedMessageType":"output_stream_data","AcknowledgedMessageId":"x","AcknowledgedMessageSequenceNumber":%d,"IsSequentialMessage":true}`, sequence)}.Bytes()
}

// shaken is a channel whose handshake is done and acknowledged; 1 is the client's next number.
func shaken(t testing.TB) *datachannel.Channel {
	c := datachannel.New("s", 1, datachannel.Forwarding{})
	c.Connect(start)
	if events, _, err := c.Receive(input(0, datachannel.KindHandshakeResponse, willing), true, start); err != nil || len(events) != 1 || events[0].What != datachannel.Ready {
		t.Fatalf("%+v %v", events, err)
	}
	for n := range int64(2) {
		if _, _, err := c.Receive(acknowledgement(n), true, start); err != nil {
			t.Fatal(err)
		}
	}
	if !c.Idle() {
		t.Fatal("the handshake is not acknowledged")
	}
	return c
}

func TestHandshake(t *testing.T) {
	t.Parallel()
	c := datachannel.New("s", 1, datachannel.Forwarding{})
	out := c.Connect(start)
	if len(out) != 1 {
		t.Fatalf("%d messages", len(out))
	}
	if m := parsed(t, out[0]); m.Kind != datachannel.KindHandshakeRequest || m.Sequence != 0 || m.Type != datachannel.TypeOutput || m.Created == 0 || !strings.Contains(string(m.Payload), `"SessionType":"Standard_Stream"`) {
		t.Errorf("%+v %s", m, m.Payload)
	}
	if _, _, err := c.Receive(input(0, datachannel.KindData, "x"), true, start); err == nil {
		t.Error("input is taken before the handshake")
	}

	c = datachannel.New("s", 1, datachannel.Forwarding{})
	c.Connect(start)
	events, out, err := c.Receive(input(0, datachannel.KindHandshakeResponse, willing), true, start.Add(time.Second))
	if err != nil || len(events) != 1 || events[0].What != datachannel.Ready || len(out) != 2 {
		t.Fatalf("%+v %d %v", events, len(out), err)
	}
	if m := parsed(t, out[0]); m.Type != datachannel.TypeAcknowledge || !strings.Contains(string(m.Payload), `"AcknowledgedMessageId":"007b2243-6c69-656e-7456-657273696f6e","AcknowledgedMessageSequenceNumber":0,"IsSequentialMessage":true`) {
		t.Errorf("%s", m.Payload)
	}
	if m := parsed(t, out[1]); m.Kind != datachannel.KindHandshakeComplete || m.Sequence != 1 || string(m.Payload) != `{"HandshakeTimeToComplete":1000000000,"CustomerMessage":""}` {
		t.Errorf("%+v %s", m, m.Payload)
	}
	if _, _, err := c.Receive(input(1, datachannel.KindHandshakeResponse, willing), true, start); err == nil {
		t.Error("a second answer is taken")
	}

	c = datachannel.New("s", 1, datachannel.Forwarding{})
	c.Connect(start)
	events, _, err = c.Receive(input(0, datachannel.KindHandshakeResponse, `{"ProcessedClientActions":[{"ActionType":"SessionType","ActionStatus":2,"Error":"unknown type"}]}`), true, start)
	if err != nil || len(events) != 1 || events[0].What != datachannel.Refused || !strings.Contains(string(events[0].Data), "unknown type") {
		t.Errorf("%+v %v", events, err)
	}
}

func TestWhatAClientWants(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind    datachannel.Kind
		payload string
		want    []datachannel.Event
		bad     bool
	}{
		{kind: datachannel.KindData, payload: "\x03", want: []datachannel.Event{{What: datachannel.Typed, Data: []byte{3}}}},
		{kind: datachannel.KindSize, payload: `{"cols":80,"rows":24}`, want: []datachannel.Event{{What: datachannel.Resized, Size: datachannel.Size{Rows: 24, Columns: 80}}}},
		{kind: datachannel.KindSize, payload: `{"cols":4294967295,"rows":65536}`, want: []datachannel.Event{{What: datachannel.Resized, Size: datachannel.Size{Rows: 65535, Columns: 65535}}}},
		{kind: datachannel.KindSize, payload: `{"cols":0,"rows":24}`},
		{kind: datachannel.KindSize, payload: `{"cols":-1,"rows":24}`, bad: true},
		{kind: datachannel.KindSize, payload: `wide`, bad: true},
		{kind: datachannel.KindFlag, payload: "\x00\x00\x00\x02", want: []datachannel.Event{{What: datachannel.Ended}}},
		{kind: datachannel.KindFlag, payload: "\x00\x00\x00\x01"},
		{kind: datachannel.KindFlag, payload: "\x02"},
		{kind: 99, payload: "of another version"},
	} {
		events, out, err := shaken(t).Receive(input(1, tt.kind, tt.payload), true, start)
		if diff := cmp.Diff(tt.want, events); diff != "" || (err != nil) != tt.bad || !tt.bad && len(out) != 1 {
			t.Errorf("%d %q: %s %d %v", tt.kind, tt.payload, diff, len(out), err)
		}
	}
}

func TestNumbersOutOfOrder(t *testing.T) {
	t.Parallel()
	c := shaken(t)
	typed := func(sequence int64, text string, room bool, want string, answers int) {
		t.Helper()
		events, out, err := c.Receive(input(sequence, datachannel.KindData, text), room, start)
		var got string
		for _, e := range events {
			got += string(e.Data)
		}
		if got != want || len(out) != answers || err != nil {
			t.Errorf("message %d gives %q and %d answers, want %q and %d; %v", sequence, got, len(out), want, answers, err)
		}
	}
	typed(3, "c", true, "", 1)   // kept
	typed(200, "z", true, "", 0) // too early to keep
	typed(1, "a", false, "", 0)  // no room
	typed(2, "b", false, "", 0)
	typed(1, "a", true, "a", 1)
	typed(1, "a", true, "", 1) // again: the acknowledgement was lost
	typed(2, "b", true, "bc", 1)
	typed(4, "d", true, "d", 1)
	if _, _, err := c.Receive(input(-1, datachannel.KindData, "x"), true, start); err == nil {
		t.Error("a negative number is taken")
	}
}

// TestNumbersAreUsedTwice has what session-manager-plugin does when it sends what was typed and
// the size of the terminal at the same time.
func TestNumbersAreUsedTwice(t *testing.T) {
	t.Parallel()
	type message struct {
		sequence int64
		text     string
		full     bool // there is no room
		want     string
		answers  string // numbers of what is acknowledged
	}
	for name, messages := range map[string][]message{
		"and the next one is left out":      {{1, "a", false, "a", "1"}, {1, "b", false, "b", "1"}, {3, "c", false, "c", "3"}, {4, "d", false, "d", "4"}},
		"and none is left out":              {{1, "a", false, "a", "1"}, {1, "b", false, "b", "1"}, {2, "c", false, "c", "2"}, {3, "d", false, "d", "3"}},
		"and a later one is left out":       {{1, "a", false, "a", "1"}, {2, "b", false, "b", "2"}, {1, "c", false, "c", "1"}, {4, "d", false, "d", "4"}},
		"by three":                          {{1, "a", false, "a", "1"}, {1, "b", false, "b", "1"}, {1, "c", false, "c", "1"}, {4, "d", false, "d", "4"}},
		"and both are sent again":           {{1, "a", false, "a", "1"}, {1, "b", false, "b", "1"}, {1, "a", false, "", "1"}, {1, "b", false, "", "1"}, {3, "c", false, "c", "3"}},
		"before their turn":                 {{2, "b", false, "", "2"}, {2, "c", false, "", "2"}, {2, "b", false, "", "2"}, {1, "a", false, "abc", "1"}, {2, "c", false, "", "2"}, {4, "d", false, "d", "4"}},
		"without room":                      {{1, "a", false, "a", "1"}, {1, "b", true, "", ""}, {3, "c", true, "", ""}, {3, "c", false, "", "3"}, {1, "b", false, "bc", "1"}},
		"and one comes late":                {{1, "a", false, "a", "1"}, {1, "b", false, "b", "1"}, {2, "c", true, "", ""}, {3, "d", false, "d", "3"}, {2, "c", false, "c", "2"}, {5, "e", false, "e", "5"}},
		"and only one is left out":          {{1, "a", false, "a", "1"}, {1, "b", false, "b", "1"}, {3, "c", false, "c", "3"}, {5, "e", false, "", "5"}, {4, "d", false, "de", "4"}},
		"and the next one is waited for":    {{1, "a", false, "a", "1"}, {1, "b", false, "b", "1"}, {1, "b", false, "", "1"}, {1, "b", false, "", "1"}, {1, "b", false, "", "1 2"}},
		"but one message is not waited for": {{1, "a", false, "a", "1"}, {1, "a", false, "", "1"}, {1, "a", false, "", "1"}, {1, "a", false, "", "1"}, {1, "a", false, "", "1"}},
	} {
		c := shaken(t)
		for _, m := range messages {
			events, out, err := c.Receive(input(m.sequence, datachannel.KindData, m.text), !m.full, start)
			var got string
			for _, e := range events {
				got += string(e.Data)
			}
			var answers []string
			for _, frame := range out {
				var content struct{ AcknowledgedMessageSequenceNumber int64 }
				if err := json.Unmarshal(parsed(t, frame).Payload, &content); err != nil {
					t.Fatal(err)
				}
				answers = append(answers, fmt.Sprint(content.AcknowledgedMessageSequenceNumber))
			}
			if got != m.want || strings.Join(answers, " ") != m.answers || err != nil {
				t.Errorf("%s: message %d %s gives %q and acknowledges %v, want %q and %s; %v", name, m.sequence, m.text, got, answers, m.want, m.answers, err)
			}
		}
	}
}

func TestOutputIsSentAgainUntilItIsAcknowledged(t *testing.T) {
	t.Parallel()
	c, now := shaken(t), start
	one, two := c.Output([]byte("one"), now), c.Output([]byte("two"), now)
	if again := c.Again(now.Add(199 * time.Millisecond)); again != nil {
		t.Error("sent again too early")
	}
	var waits []time.Duration
	for range 5 {
		wake := c.Wake()
		waits = append(waits, wake.Sub(now))
		if now = wake; !bytes.Equal(c.Again(now), one) {
			t.Error("the oldest message is not sent again")
		}
	}
	if want := []time.Duration{200e6, 400e6, 800e6, 1e9, 1e9}; !slices.Equal(waits, want) {
		t.Errorf("it waits %v, want %v", waits, want)
	}
	for _, frame := range [][]byte{one, two} {
		if _, _, err := c.Receive(acknowledgement(parsed(t, frame).Sequence), true, now); err != nil {
			t.Error(err)
		}
	}
	if !c.Idle() || !c.Wake().IsZero() || c.Again(now.Add(time.Hour)) != nil {
		t.Error("something is left")
	}
	if _, _, err := c.Receive(datachannel.Message{Type: datachannel.TypeAcknowledge, Payload: []byte("[")}.Bytes(), true, now); err == nil {
		t.Error("an acknowledgement that cannot be read is taken")
	}
}

func TestOutputWaitsForAReaderThatStops(t *testing.T) {
	t.Parallel()
	c := shaken(t)
	for n := range 1000 {
		if c.Free() != 1000-n {
			t.Fatalf("with %d messages there is room for %d", n, c.Free())
		}
		c.Output([]byte("x"), start)
	}
	if c.Free() != 0 {
		t.Errorf("room for %d", c.Free())
	}
}

func TestTheEndIsSaid(t *testing.T) {
	t.Parallel()
	m := parsed(t, shaken(t).Close("why", start))
	var closed map[string]any
	if err := json.Unmarshal(m.Payload, &closed); err != nil || m.Type != datachannel.TypeClosed || closed["SessionId"] != "s" || closed["Output"] != "why" || closed["SchemaVersion"] != 1.0 {
		t.Errorf("%s %v", m.Payload, err)
	}
}

// plugin behaves as session-manager-plugin does: it acknowledges what it takes, in order or
// early, and does not acknowledge what it has had.
type plugin struct {
	t        *rapid.T
	deaf     bool // its terminal is not set up yet
	expected int64
	early    map[int64]string
	got      string
	next     int64
	waiting  []unanswered
}

// unanswered is what the plugin sends again until the number is acknowledged.
type unanswered struct {
	sequence int64
	frame    []byte
}

func (p *plugin) receive(frame []byte) (answers [][]byte) {
	m := parsed(p.t, frame)
	switch {
	case m.Type == datachannel.TypeAcknowledge:
		var content struct{ AcknowledgedMessageSequenceNumber int64 }
		if err := json.Unmarshal(m.Payload, &content); err != nil {
			p.t.Fatal(err)
		}
		if i := slices.IndexFunc(p.waiting, func(u unanswered) bool { return u.sequence == content.AcknowledgedMessageSequenceNumber }); i >= 0 {
			p.waiting = slices.Delete(p.waiting, i, i+1)
		}
	case m.Sequence > p.expected:
		p.early[m.Sequence] = string(m.Payload)
		return [][]byte{acknowledgement(m.Sequence)}
	case m.Sequence == p.expected:
		if m.Kind == datachannel.KindData && p.deaf {
			return nil
		}
		answers = append(answers, acknowledgement(m.Sequence))
		switch p.expected++; m.Kind {
		case datachannel.KindHandshakeRequest:
			answers = append(answers, p.send(datachannel.KindHandshakeResponse, willing))
		case datachannel.KindData:
			p.got += string(m.Payload)
		}
		for text, ok := p.early[p.expected]; ok; text, ok = p.early[p.expected] {
			p.got += text
			p.expected++
		}
	}
	return answers
}

func (p *plugin) send(kind datachannel.Kind, payload string) []byte {
	frame := input(p.next, kind, payload)
	p.waiting = append(p.waiting, unanswered{p.next, frame})
	p.next++
	return frame
}

// race sends two messages at once. Each step of the plugin may come between those of the
// other message: it uses its number when it sends, when it notes what to send again, and
// when it counts.
func (p *plugin) race(one, two string) [][]byte {
	first, second := input(p.next, datachannel.KindData, one), input(p.next, datachannel.KindData, two)
	late := rapid.Int64Range(0, 1).Draw(p.t, "noted under the number after")
	p.waiting = append(p.waiting, unanswered{p.next, first}, unanswered{p.next + late, second})
	p.next += rapid.Int64Range(1, 2).Draw(p.t, "counted")
	return [][]byte{first, second}
}

// TestNothingIsLostOrDoubled lets connections break off at any time, with what is under way
// in both directions.
func TestNothingIsLostOrDoubled(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c, now := datachannel.New("s", 7, datachannel.Forwarding{}), start
		p := &plugin{t: t, deaf: rapid.Bool().Draw(t, "deaf"), early: map[int64]string{}}
		var down, up [][]byte // under way
		var printed, typed, read string
		ready, ping := false, -1 // ping: frames to be read before it
		// With one number for two messages, the plugin does not send all again that was lost.
		racing := rapid.Bool().Draw(t, "racing")
		down = append(down, c.Connect(now)...)
		deliverDown := func() {
			if ping == 0 {
				c.Pong()
				ping = -1
			} else if len(down) > 0 {
				up = append(up, p.receive(down[0])...)
				down = down[1:]
				ping = max(-1, ping-1)
			}
		}
		deliverUp := func(room bool) {
			if len(up) == 0 {
				return
			}
			events, out, err := c.Receive(up[0], room, now)
			if err != nil {
				t.Fatal(err)
			}
			up, down = up[1:], append(down, out...)
			for _, e := range events {
				ready = ready || e.What == datachannel.Ready
				read += string(e.Data)
			}
		}
		// The pong stands behind the acknowledgements on the way up.
		drain := func() {
			for len(down)+len(up) > 0 || ping == 0 {
				for len(up) > 0 {
					deliverUp(true)
				}
				deliverDown()
			}
		}
		again := func() {
			now = now.Add(2 * time.Second)
			if frame := c.Again(now); frame != nil {
				down = append(down, frame)
			}
			if len(p.waiting) > 0 { // the plugin sends the oldest again
				up = append(up, p.waiting[0].frame)
			}
		}
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 7).Draw(t, "step") {
			case 0:
				if ready && c.Free() > 0 {
					text := fmt.Sprintf("<%d>", len(printed))
					printed, down = printed+text, append(down, c.Output([]byte(text), now))
				}
			case 1:
				if p.next > 0 {
					text := fmt.Sprintf("[%d]", len(typed))
					typed, up = typed+text, append(up, p.send(datachannel.KindData, text))
				}
			case 2:
				if ping != 0 || len(up) == 0 {
					deliverDown()
				}
			case 3:
				deliverUp(racing || rapid.Bool().Draw(t, "room"))
			case 4:
				again()
			case 5:
				p.deaf = false
			case 6:
				if racing {
					continue
				}
				up, down = nil, c.Connect(now)
				ping = len(down)
				p.deaf = p.deaf && !ready // who connects again has set its terminal up
			case 7:
				if p.next > 0 && racing {
					one, two := fmt.Sprintf("[%d]", len(typed)), fmt.Sprintf("[%d!]", len(typed))
					typed, up = typed+one+two, append(up, p.race(one, two)...)
				}
			}
		}
		p.deaf = false
		for i := range 400 {
			if i == 200 && p.next > 0 { // what the plugin has left out is noticed with the next key
				typed, up = typed+"[end]", append(up, p.send(datachannel.KindData, "[end]"))
			}
			drain()
			again()
		}
		drain()
		if racing { // all arrives, but not in order
			order := func(s string) string { return strings.Join(slices.Sorted(strings.SplitAfterSeq(s, "]")), "") }
			read, typed = order(read), order(typed)
		}
		if p.got != printed || read != typed || !c.Idle() || len(p.waiting) > 0 {
			t.Fatalf("printed %q, shown %q; typed %q, read %q; %d left", printed, p.got, typed, read, len(p.waiting))
		}
	})
}

// FuzzReceive gives a channel frames in any order. It answers, and keeps little.
func FuzzReceive(f *testing.F) {
	add := func(frames ...[]byte) {
		var all []byte
		for _, frame := range frames {
			all = append(binary.BigEndian.AppendUint16(all, uint16(len(frame))), frame...)
		}
		f.Add(all)
	}
	add(input(0, datachannel.KindHandshakeResponse, willing), input(1, datachannel.KindData, "ls\r"), acknowledgement(0))
	add(input(0, datachannel.KindHandshakeResponse, willing), input(1, datachannel.KindData, "a"), input(1, datachannel.KindData, "b"), input(3, datachannel.KindData, "c"))
	add(input(1, datachannel.KindData, "x"), input(0, datachannel.KindHandshakeResponse, willing), input(2, datachannel.KindSize, `{"cols":1,"rows":1}`))
	f.Fuzz(func(t *testing.T, all []byte) {
		c := datachannel.New("s", 1, datachannel.Forwarding{})
		c.Connect(start)
		for len(all) >= 2 {
			n := min(int(binary.BigEndian.Uint16(all)), len(all)-2)
			events, out, err := c.Receive(all[2:2+n], n%2 == 0, start)
			if err != nil {
				return
			}
			if len(events) > 129 || len(out) > 2 {
				t.Fatalf("one message gives %d events and %d answers", len(events), len(out))
			}
			for _, frame := range out {
				parsed(t, frame)
			}
			all = all[2+n:]
		}
	})
}
