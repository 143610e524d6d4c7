package datachannel_test

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/internal/aws/datachannel"
	"github.com/podtask/podtask/internal/testing/nonsense"
)

// recorded is a frame that session-manager-plugin 1.3.0.0 made.
const recorded = "00000074696e7075745f73747265616d5f64617461202020202020202020202020202020000000010000018bcfe5687b" +
	"000000000000000700000000000000008899aabbccddeeff0011223344554677d53ca1ea7dce87c11432052a8550ed2615cf715ca843c89710ed83325b691cba" +
	"00000003000000157b22636f6c73223a38302c22726f7773223a32347d"

var said = datachannel.Message{
	Type: datachannel.TypeInput, Created: 1700000000123, Sequence: 7,
	ID:   [16]byte{0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x46, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff},
	Kind: datachannel.KindSize, Payload: []byte(`{"cols":80,"rows":24}`),
}

func TestMessagesAreThePlugins(t *testing.T) {
	t.Parallel()
	frame, err := hex.DecodeString(recorded)
	if err != nil {
		t.Fatal(err)
	}
	got, err := datachannel.Parse(frame)
	if diff := cmp.Diff(said, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if diff := cmp.Diff(recorded, hex.EncodeToString(said.Bytes())); diff != "" {
		t.Error(diff)
	}
}

func TestFramesThatLieAreRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func([]byte) []byte{
		"empty":                   func([]byte) []byte { return nil },
		"no whole header":         func(b []byte) []byte { return b[:119] },
		"a longer header":         func(b []byte) []byte { b[3]++; return b },
		"a header of nothing":     func(b []byte) []byte { b[3] = 0; return b },
		"a shorter payload":       func(b []byte) []byte { return b[:len(b)-1] },
		"a longer payload":        func(b []byte) []byte { return append(b, 0) },
		"a length of 4 GiB":       func(b []byte) []byte { copy(b[116:], "\xff\xff\xff\xff"); return b },
		"another payload":         func(b []byte) []byte { b[len(b)-1]++; return b },
		"another digest":          func(b []byte) []byte { b[80]++; return b },
		"more than the most":      func([]byte) []byte { return datachannel.Message{Payload: make([]byte, datachannel.MaxFrame)}.Bytes() },
		"text":                    func([]byte) []byte { return []byte(strings.Repeat("hello ", 30)) },
		"a payload and no digest": func(b []byte) []byte { clear(b[80:112]); return b },
	} {
		if m, err := datachannel.Parse(change(said.Bytes())); err == nil {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(said.Bytes())
	f.Add(datachannel.Message{Type: datachannel.TypeAcknowledge, Sequence: -1}.Bytes())
	f.Fuzz(func(t *testing.T, frame []byte) {
		m, err := datachannel.Parse(frame)
		if err != nil {
			return
		}
		again, err := datachannel.Parse(m.Bytes())
		if diff := cmp.Diff(m, again); diff != "" || err != nil {
			t.Errorf("%x: %s %v", frame, diff, err)
		}
		if m.Payload != nil && !bytes.HasSuffix(frame, m.Payload) {
			t.Errorf("%x: the payload is %x", frame, m.Payload)
		}
	})
}

func TestNonsenseIsNoMessage(t *testing.T) {
	nonsense.Check(t, "", func(text string) {
		c := shaken(t)
		if _, _, err := c.Receive([]byte(text), true, start); err == nil {
			t.Error("nonsense is accepted")
		}
	})
	// With a good header, what stands in the payload is not read beyond its use.
	nonsense.Check(t, "", func(text string) {
		for _, kind := range []datachannel.Kind{datachannel.KindData, datachannel.KindSize, datachannel.KindHandshakeResponse, datachannel.KindFlag} {
			m := datachannel.Message{Type: datachannel.TypeInput, Sequence: 1, Kind: kind, Payload: []byte(text[:min(len(text), datachannel.MaxFrame-120)])}
			_, _, _ = shaken(t).Receive(m.Bytes(), true, start) // it returns
		}
	})
}
