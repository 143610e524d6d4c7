package fault

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	hole    = Fault{Kind: BlackholePort, Port: 5432, Protocol: "tcp", TrafficType: Egress}
	latency = Fault{Kind: Latency, DelayMilliseconds: 200, JitterMilliseconds: 50, Sources: []string{"0.0.0.0/0", "::/0"}, FlowsPercent: 100}
	loss    = Fault{Kind: PacketLoss, LossPercent: 20, Sources: []string{"10.1.2.3/16"}, SourcesToFilter: []string{"10.1.0.7", "2001:db8::/32"}, FlowsPercent: 12}
)

// The words and their order are those of the ECS agent (ecs-agent/tmds/handlers/fault/v1/types).
func TestProblemsAreThoseOfECS(t *testing.T) {
	t.Parallel()
	with := func(f Fault, change func(*Fault)) Fault {
		f = f.Clone()
		change(&f)
		return f
	}
	for _, c := range []struct {
		f    Fault
		want []string
	}{
		{hole, nil},
		{latency, nil},
		{loss, nil},
		{Fault{Kind: BlackholePort}, []string{"required parameter Port is missing", "required parameter Protocol is missing", "required parameter TrafficType is missing"}},
		{with(hole, func(f *Fault) { f.Protocol, f.TrafficType = "icmp", "both" }), []string{"invalid value icmp for parameter Protocol", "invalid value both for parameter TrafficType"}},
		{with(hole, func(f *Fault) { f.SourcesToFilter = []string{"10.0.0.1", "home"} }), []string{"invalid value home for parameter SourcesToFilter"}},
		{Fault{Kind: Latency, FlowsPercent: 100}, []string{"required either DelayMilliseconds or JitterMilliseconds to be non-zero", "required parameter Sources is missing"}},
		{with(latency, func(f *Fault) { f.DelayMilliseconds = MaxDelay + 1 }), []string{"invalid value 3600001 for parameter DelayMilliseconds"}},
		{with(latency, func(f *Fault) { f.Sources = []string{"fe80::1%eth0"} }), []string{"invalid value fe80::1%eth0 for parameter Sources"}},
		{with(latency, func(f *Fault) { f.FlowsPercent = 101 }), []string{"invalid value 101 for parameter flowsPercent"}},
		{with(loss, func(f *Fault) { f.LossPercent = 0 }), []string{"invalid value 0 for parameter LossPercent"}},
		{with(loss, func(f *Fault) { f.Sources = slices.Repeat([]string{"10.0.0.1"}, MaxSources+1) }), []string{"parameter Sources has 101 addresses, at most 100 are allowed"}},
		{Fault{Kind: "network-fire"}, []string{"invalid value network-fire for parameter kind"}},
	} {
		if got := c.f.Problems(); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.f, got, c.want)
		}
	}
}

func TestATaskHasOneShapedFault(t *testing.T) {
	t.Parallel()
	faults, err := Add(nil, latency)
	if err == nil {
		faults, err = Add(faults, hole)
	}
	if err != nil || len(faults) != 2 {
		t.Fatalf("%v %v", faults, err)
	}
	for _, f := range []Fault{latency, loss} {
		_, err := Add(faults, f)
		if refused := new(Error); !errors.As(err, &refused) || refused.Code != Conflict || refused.Message != "There is already one network latency fault running" {
			t.Errorf("%s: %v", f.Kind, err)
		}
	}
	if _, err := Add([]Fault{loss}, latency); err == nil || err.Error() != "There is already one network packet loss fault running" {
		t.Errorf("%v", err)
	}
	again := hole
	again.Until = time.Unix(100, 0)
	if got, err := Add(faults, again); err != nil || len(got) != 2 || !got[1].Until.Equal(again.Until) || !faults[1].Until.IsZero() {
		t.Errorf("a black hole again: %+v %v", got, err)
	}
	var many []Fault
	for i := range MaxFaults {
		f := hole
		f.Port = uint16(i + 1)
		many = append(many, f)
	}
	if _, err := Add(many, hole); err == nil {
		t.Error("the number of faults has no limit")
	}
}

func TestRemoveAndMatch(t *testing.T) {
	t.Parallel()
	other := hole
	other.TrafficType = Ingress
	all := []Fault{latency, hole, other}
	for _, c := range []struct {
		like Fault
		left int
	}{{Fault{}, 0}, {Fault{Kind: Latency}, 2}, {Fault{Kind: PacketLoss}, 3}, {Fault{Kind: BlackholePort}, 1}, {Fault{Kind: BlackholePort, Port: 5432}, 1}, {hole, 2}, {Fault{Kind: BlackholePort, Port: 1}, 3}} {
		if got := Remove(all, c.like); len(got) != c.left {
			t.Errorf("without what is like %+v: %+v", c.like, got)
		}
	}
	if got := Active(all); len(got) != 0 {
		t.Errorf("nothing has begun, but %+v is active", got)
	}
}

func TestKindsHaveTwoNames(t *testing.T) {
	t.Parallel()
	for _, k := range Kinds() {
		for _, name := range []string{string(k), k.Short()} {
			if got, known := ParseKind(name); got != k || !known {
				t.Errorf("%s: %s %t", name, got, known)
			}
		}
	}
	for _, name := range []string{"", "network-", "network-network-latency", "fire"} {
		if _, known := ParseKind(name); known {
			t.Errorf("%q is known", name)
		}
	}
}

func TestDescriptions(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]Fault{
		"egress packets for port 5432/tcp are dropped":                                                               hole,
		"packets to 0.0.0.0/0, ::/0 are 200 ms late (± 50 ms)":                                                       latency,
		"20% of the packets to 10.1.2.3/16 are lost, for 12% of the connections, except for 10.1.0.7, 2001:db8::/32": loss,
	} {
		if got := f.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// The input of nft and tc, whole.
func TestScripts(t *testing.T) {
	t.Parallel()
	web := Fault{Kind: BlackholePort, Port: 80, Protocol: "tcp", TrafficType: Egress}
	in := Fault{Kind: BlackholePort, Port: 53, Protocol: "udp", TrafficType: Ingress, SourcesToFilter: []string{"192.0.2.7/24", "2001:db8::1"}}
	one := latency
	one.SourcesToFilter = []string{"10.0.0.0/8"}
	var b strings.Builder
	for _, c := range []struct{ name, text string }{
		{"nft, no black hole", Rules("ip", []Fault{latency})},
		{"nft, family ip", Rules("ip", []Fault{hole, latency, web, in})},
		{"nft, family ip6", Rules("ip6", []Fault{hole, web, in})},
		{"tc, latency", Disciplines("eth0", one)},
		{"tc, loss for 12% of the connections", Disciplines("eth0", loss)},
	} {
		fmt.Fprintf(&b, "# %s\n%s\n", c.name, c.text)
	}
	name := filepath.Join("testdata", "scripts.txt")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil || b.String() != string(want) {
		t.Errorf("%s differs (UPDATE_GOLDEN=1 writes it): %v\n%s", name, err, b.String())
	}
}

// run runs a program on a packet that begins with the header of its network.
func run(t *testing.T, program []instruction, packet []byte) (a uint32) {
	t.Helper()
	var x uint32
	load := func(at uint32, n int) (v uint32, there bool) {
		at -= network
		if uint64(at)+uint64(n) > uint64(len(packet)) {
			return 0, false
		}
		for _, b := range packet[at : int(at)+n] {
			v = v<<8 | uint32(b)
		}
		return v, true
	}
	for pc := 0; ; pc++ {
		i, there := program[pc], true
		skip := func(is bool) {
			if is {
				pc += int(i.jt)
			} else {
				pc += int(i.jf)
			}
		}
		switch i.code {
		case loadByte:
			a, there = load(i.k, 1)
		case loadWord:
			a, there = load(i.k, 4)
		case loadConst:
			a = i.k
		case copyToX:
			x = a
		case xorX:
			a ^= x
		case multiply:
			a *= i.k
		case shift:
			a >>= i.k
		case modulo:
			a %= i.k
		case jump:
			pc += int(i.k)
		case ifEqual:
			skip(a == i.k)
		case ifAtLeast:
			skip(a >= i.k)
		case answer:
			return i.k
		default:
			t.Fatalf("instruction %d is %+v", pc, i)
		}
		if !there {
			return 0 // as the kernel does
		}
	}
}

// header is the beginning of a packet.
func header(source, destination netip.Addr, protocol byte, from, to uint16) []byte {
	packet := make([]byte, 20)
	packet[0], packet[9] = 0x45, protocol
	copy(packet[12:], source.AsSlice())
	copy(packet[16:], destination.AsSlice())
	if source.Is6() {
		packet = make([]byte, 40)
		packet[0], packet[6] = 0x60, protocol
		copy(packet[8:], source.AsSlice())
		copy(packet[24:], destination.AsSlice())
	}
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(packet, from), to)
}

// About as many connections are selected as are to have the fault, and each always or never.
func TestSelection(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                string
		source, destination string
		step                int // between the ports of connections
		server              bool
	}{{"a client", "10.0.2.100", "192.0.2.1", 2, false}, {"a client, IPv6", "2001:db8::1", "2001:db8::2", 1, false}, {"a server", "10.0.2.15", "10.0.2.2", 1, true}} {
		source, destination := netip.MustParseAddr(c.source), netip.MustParseAddr(c.destination)
		for _, percent := range []uint32{1, 20, 50, 99} {
			program, selected := selection(percent), 0
			const connections = 5000
			for i := range connections {
				from, to := uint16(32768+i*c.step), uint16(443)
				if c.server {
					from, to = to, from
				}
				got := run(t, program, header(source, destination, protocolTCP, from, to))
				if again := run(t, program, header(source, destination, protocolTCP, from, to)); again != got || got != 0 && got != 0xffffffff {
					t.Errorf("ports %d and %d: %x, then %x", from, to, got, again)
				}
				if got != 0 {
					selected++
				}
			}
			if want := connections * int(percent) / 100; selected < want-150 || selected > want+150 {
				t.Errorf("%s, %d%%: %d of %d connections", c.name, percent, selected, connections)
			}
		}
		// Without ports the addresses alone count: what follows the header differs from packet to packet.
		program := selection(50)
		if a, b := run(t, program, header(source, destination, 1, 1, 2)), run(t, program, header(source, destination, 1, 3, 4)); a != b {
			t.Errorf("%s: packets of one ping differ", c.name)
		}
	}
	if got := run(t, selection(100), []byte{0x45}); got != 0 {
		t.Errorf("a packet that is cut off: %x", got)
	}
}

func FuzzParseSource(f *testing.F) {
	for _, s := range []string{"10.0.0.1", "10.0.0.1/8", "::ffff:10.0.0.1", "2001:db8::/32", "fe80::1%eth0", "10.0.0.1 ; drop"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParseSource(s)
		if err != nil {
			return
		}
		// What goes into a script is this, and has nothing else in it.
		if text := p.String(); strings.ContainsAny(text, " \n;{}%") {
			t.Errorf("%q became %q", s, text)
		}
	})
}
