package fault

import (
	"errors"
	"fmt"
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

// As many bands have netem as connections in a hundred are to have the fault.
func TestFlowsPercentIsTheNumberOfBands(t *testing.T) {
	t.Parallel()
	for percent := 1; percent <= 100; percent++ {
		f := loss
		f.FlowsPercent = percent
		text, want := Disciplines("eth0", f), percent
		if percent == 100 {
			want = 1 // without bands
		}
		if got := strings.Count(text, " netem "); got != want {
			t.Errorf("%d%%: %d bands", percent, got)
		}
		handles := make(map[string]bool)
		for line := range strings.Lines(text) {
			if _, rest, found := strings.Cut(line, " handle "); found && strings.HasPrefix(line, "qdisc") {
				handle, _, _ := strings.Cut(rest, " ")
				if handles[handle] {
					t.Errorf("%d%%: two disciplines with handle %s", percent, handle)
				}
				handles[handle] = true
			}
		}
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
