package datachannel

import "slices"

const (
	// earlyMost is how far before its turn a message is kept, in numbers.
	earlyMost = 64
	// keptMost is the number of messages that are kept before their turn, and how many are remembered
	// that were handled.
	keptMost = 2 * earlyMost
	// againMany is how often a message comes again over one connection before its
	// acknowledgement is thought to be of no use to the client.
	againMany = 3
)

// inputs are the messages of a client, in order.
//
// session-manager-plugin numbers its messages in several threads without a lock. When a key is
// typed while the size of the terminal is sent, both may have the same number. The plugin then
// leaves the next number out, or not, and may wait for the acknowledgement of that number
// instead of the message's own.
type inputs struct {
	next  int64     // number of the next message
	early []Message // whose turn it is not yet
	taken []taken   // the last ones
	twice int64     // messages with a number that another one had, for which none was left out yet
}

// taken is a message that was handled.
type taken struct {
	sequence int64
	id       [16]byte
	again    int // how often it came again over this connection
}

// add keeps a message and returns the numbers to acknowledge. Without any, the client is to
// send the message again.
func (in *inputs) add(m Message, room bool) []int64 {
	if numbers := in.again(m); numbers != nil {
		return numbers
	}
	switch ahead := m.Sequence - in.next; {
	case ahead < -earlyMost: // long handled: its acknowledgement was lost with a connection
		return []int64{m.Sequence}
	case ahead > earlyMost, len(in.early) == keptMost, !room && (ahead > 0 || m.Kind == KindData):
		return nil
	}
	m.Payload = slices.Clone(m.Payload)
	in.early = append(in.early, m)
	return []int64{m.Sequence}
}

// again returns the numbers to acknowledge for a message that was added before; nil: it was not.
func (in *inputs) again(m Message) []int64 {
	if slices.ContainsFunc(in.early, func(e Message) bool { return e.Sequence == m.Sequence && e.ID == m.ID }) {
		return []int64{m.Sequence}
	}
	var found *taken
	same := 0 // messages of that number
	for i := range in.taken {
		if t := &in.taken[i]; t.sequence == m.Sequence {
			if same++; t.id == m.ID {
				found = t
			}
		}
	}
	if found == nil {
		return nil
	}
	numbers := []int64{m.Sequence}
	if found.again++; found.again >= againMany && same > 1 {
		numbers = append(numbers, m.Sequence+int64(found.again%same))
	}
	return numbers
}

// pop is the message whose turn it is.
func (in *inputs) pop() (Message, bool) {
	if len(in.early) == 0 {
		return Message{}, false
	}
	first := 0
	for i, m := range in.early {
		if m.Sequence < in.early[first].Sequence {
			first = i
		}
	}
	m := in.early[first]
	switch missing := m.Sequence - in.next; {
	case missing > in.twice:
		return Message{}, false
	case missing < 0:
		in.twice = min(in.twice+1, earlyMost)
	default:
		in.twice -= missing
		in.next = m.Sequence + 1
	}
	in.early = slices.Delete(in.early, first, first+1)
	if len(in.taken) == keptMost {
		in.taken = slices.Delete(in.taken, 0, 1)
	}
	in.taken = append(in.taken, taken{sequence: m.Sequence, id: m.ID})
	return m, true
}

// reconnect notes that acknowledgements may have been lost.
func (in *inputs) reconnect() {
	for i := range in.taken {
		in.taken[i].again = 0
	}
}
