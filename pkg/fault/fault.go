package fault

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Kind is a disturbance of the network of a task.
type Kind string

// The kinds, by their names in the paths of ECS.
const (
	BlackholePort Kind = "network-blackhole-port"
	Latency       Kind = "network-latency"
	PacketLoss    Kind = "network-packet-loss"
)

// Kinds are all kinds.
func Kinds() []Kind { return []Kind{BlackholePort, Latency, PacketLoss} }

// prefix begins the name of every kind. Commands leave it out.
const prefix = "network-"

// Short is the name of a kind in commands.
func (k Kind) Short() string { return strings.TrimPrefix(string(k), prefix) }

// ParseKind returns a kind by its whole name or its short one.
func ParseKind(name string) (k Kind, known bool) {
	k = Kind(prefix + strings.TrimPrefix(name, prefix))
	return k, slices.Contains(Kinds(), k)
}

// Directions of the packets that a black hole swallows.
const (
	Ingress = "ingress"
	Egress  = "egress"
)

// Limits of what is kept of a task.
const (
	// MaxDelay is the longest delay and jitter, in milliseconds.
	MaxDelay = uint64(time.Hour / time.Millisecond)
	// MaxSources is the most addresses in one list of a fault.
	MaxSources = 100
	// MaxFaults is the most faults that a task has at the same time.
	MaxFaults = 50
	// MaxDuration is the longest duration of a fault.
	MaxDuration = 7 * 24 * time.Hour
)

// Fault is one fault of a task. Which fields count follows from its kind.
type Fault struct {
	// Kind is network-blackhole-port, network-latency or network-packet-loss; requests may leave network-
	// out.
	Kind Kind `json:"kind"`
	// Port, Protocol (tcp or udp) and TrafficType (ingress or egress) say which packets a black hole
	// swallows. The port is that of the receiver.
	Port        uint16 `json:"port,omitempty"`
	Protocol    string `json:"protocol,omitempty"`
	TrafficType string `json:"trafficType,omitempty"`
	// DelayMilliseconds is the time for which packets are held back, JitterMilliseconds by how much that varies.
	DelayMilliseconds  uint64 `json:"delayMilliseconds,omitempty"`
	JitterMilliseconds uint64 `json:"jitterMilliseconds,omitempty"`
	// LossPercent of the packets are lost, 1 to 100.
	LossPercent uint64 `json:"lossPercent,omitempty"`
	// Sources are the addresses and networks to which packets of the task are late or lost.
	Sources []string `json:"sources,omitempty"`
	// SourcesToFilter are spared.
	SourcesToFilter []string `json:"sourcesToFilter,omitempty"`
	// FlowsPercent of the connections have the fault, 1 to 100; 100 if a request has none. Latency and packet
	// loss only.
	FlowsPercent int `json:"flowsPercent,omitempty"`
	// Since is the time at which it began, Until that at which it ends by itself; absent if it does not. They are not given in
	// requests.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

// Shaped reports whether the fault changes when and whether packets are sent (tc), rather than which
// ones pass (nft). A task has at most one such fault.
func (f Fault) Shaped() bool { return f.Kind != BlackholePort }

// Same reports whether two faults take the same place in a task: it has one of them at a time.
func (f Fault) Same(other Fault) bool {
	if f.Kind != other.Kind {
		return false
	}
	return f.Shaped() || f.Port == other.Port && f.Protocol == other.Protocol && f.TrafficType == other.TrafficType
}

// Matches reports whether a fault is like another one, of which zero fields match all.
func (f Fault) Matches(other Fault) bool {
	return (f.Kind == "" || f.Kind == other.Kind) && (f.Port == 0 || f.Port == other.Port) &&
		(f.Protocol == "" || f.Protocol == other.Protocol) && (f.TrafficType == "" || f.TrafficType == other.TrafficType)
}

// Clone returns a copy that shares nothing.
func (f Fault) Clone() Fault {
	f.Sources, f.SourcesToFilter = slices.Clone(f.Sources), slices.Clone(f.SourcesToFilter)
	return f
}

// Find returns the place of the fault that is the Same as f; -1 for none.
func Find(faults []Fault, f Fault) int { return slices.IndexFunc(faults, f.Same) }

// Code is the reason for which a request is refused.
type Code string

// The codes.
const (
	// Invalid: the request is wrong, or the task cannot have faults.
	Invalid Code = "invalid"
	// Conflict: the task has another fault that excludes this one.
	Conflict Code = "conflict"
	// Failed: the host could not do it.
	Failed Code = "failed"
)

// Error is a request that is refused.
type Error struct {
	Code    Code
	Message string
}

func (e *Error) Error() string { return e.Message }

// Refuse returns an Error with a message formatted like fmt.Sprintf.
func Refuse(code Code, format string, args ...any) *Error {
	return &Error{code, fmt.Sprintf(format, args...)}
}

// Add returns the faults of a task with one more. If it cannot have it the error is a Conflict, in the
// words of ECS. A black hole that is there already is left as it is, but for its end.
func Add(faults []Fault, f Fault) ([]Fault, error) {
	for _, other := range faults {
		switch {
		case !f.Shaped() || !other.Shaped():
		case other.Kind == Latency:
			return nil, Refuse(Conflict, "There is already one network latency fault running")
		default:
			return nil, Refuse(Conflict, "There is already one network packet loss fault running")
		}
	}
	all := slices.Clone(faults)
	if i := Find(all, f); i >= 0 {
		all[i].Until = f.Until
		return all, nil
	}
	if len(all) >= MaxFaults {
		return nil, Refuse(Conflict, "the task has %d faults already, which is the most; stop one first", MaxFaults)
	}
	return append(all, f.Clone()), nil
}

// Remove returns the faults of a task without those that like Matches.
func Remove(faults []Fault, like Fault) []Fault {
	return slices.DeleteFunc(slices.Clone(faults), like.Matches)
}

// Problems returns all that is wrong with a fault, in the words and the order of the ECS agent; none for a
// fault that can be injected.
func (f Fault) Problems() []string {
	var all []string
	missing := func(name string) { all = append(all, fmt.Sprintf("required parameter %s is missing", name)) }
	invalid := func(name string, value any) {
		all = append(all, fmt.Sprintf("invalid value %v for parameter %s", value, name))
	}
	switch f.Kind {
	case BlackholePort:
		all = append(all, f.Target()...)
	case Latency:
		if f.DelayMilliseconds == 0 && f.JitterMilliseconds == 0 {
			all = append(all, "required either DelayMilliseconds or JitterMilliseconds to be non-zero")
		}
		if f.DelayMilliseconds > MaxDelay {
			invalid("DelayMilliseconds", f.DelayMilliseconds)
		}
		if f.JitterMilliseconds > MaxDelay {
			invalid("JitterMilliseconds", f.JitterMilliseconds)
		}
	case PacketLoss:
		if f.LossPercent < 1 || f.LossPercent > 100 {
			invalid("LossPercent", f.LossPercent)
		}
	default:
		invalid("kind", f.Kind)
		return all
	}
	if f.Shaped() && len(f.Sources) == 0 {
		missing("Sources")
	}
	sources := func(name string, list []string) {
		for _, s := range list {
			if _, err := ParseSource(s); err != nil {
				invalid(name, s)
			}
		}
		if len(list) > MaxSources {
			all = append(all, fmt.Sprintf("parameter %s has %d addresses, at most %d are allowed", name, len(list), MaxSources))
		}
	}
	sources("Sources", f.Sources)
	sources("SourcesToFilter", f.SourcesToFilter)
	if f.Shaped() && (f.FlowsPercent < 1 || f.FlowsPercent > 100) {
		invalid("flowsPercent", f.FlowsPercent)
	}
	return all
}

// Foreign returns which fields a fault has that another kind has. ECS does not look at them.
func (f Fault) Foreign() []string {
	var all []string
	given := func(name string, is bool, kinds ...Kind) {
		if is && !slices.Contains(kinds, f.Kind) {
			all = append(all, fmt.Sprintf("parameter %s is not for %s", name, f.Kind))
		}
	}
	given("Port", f.Port != 0, BlackholePort)
	given("Protocol", f.Protocol != "", BlackholePort)
	given("TrafficType", f.TrafficType != "", BlackholePort)
	given("DelayMilliseconds", f.DelayMilliseconds != 0, Latency)
	given("JitterMilliseconds", f.JitterMilliseconds != 0, Latency)
	given("LossPercent", f.LossPercent != 0, PacketLoss)
	given("Sources", len(f.Sources) > 0, Latency, PacketLoss)
	given("FlowsPercent", f.FlowsPercent != 0, Latency, PacketLoss)
	return all
}

// Active returns those that are there, and not only about to be.
func Active(faults []Fault) []Fault {
	return slices.DeleteFunc(slices.Clone(faults), func(f Fault) bool { return f.Since.IsZero() })
}

// Target returns what is wrong with the fields that say which packets a black hole swallows.
func (f Fault) Target() []string {
	var all []string
	missing := func(name string, is bool) {
		if is {
			all = append(all, fmt.Sprintf("required parameter %s is missing", name))
		}
	}
	missing("Port", f.Port == 0)
	missing("Protocol", f.Protocol == "")
	missing("TrafficType", f.TrafficType == "")
	if p := f.Protocol; p != "" && p != "tcp" && p != "udp" {
		all = append(all, fmt.Sprintf("invalid value %s for parameter Protocol", p))
	}
	if t := f.TrafficType; t != "" && t != Ingress && t != Egress {
		all = append(all, fmt.Sprintf("invalid value %s for parameter TrafficType", t))
	}
	return all
}

// ParseSource reads an address or a network in CIDR notation, of IPv4 or IPv6. Bits beyond the length of
// a network are cleared.
func ParseSource(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		if a.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("%q has a zone", s)
		}
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	return p.Masked(), err
}

// String describes the fault for people, without times.
func (f Fault) String() string {
	switch f.Kind {
	case BlackholePort:
		s := fmt.Sprintf("%s packets for port %d/%s are dropped", f.TrafficType, f.Port, f.Protocol)
		return s + except(f.SourcesToFilter)
	case Latency:
		s := fmt.Sprintf("packets to %s are %d ms late", strings.Join(f.Sources, ", "), f.DelayMilliseconds)
		if f.JitterMilliseconds > 0 {
			s += fmt.Sprintf(" (± %d ms)", f.JitterMilliseconds)
		}
		return s + f.flows() + except(f.SourcesToFilter)
	default:
		return fmt.Sprintf("%d%% of the packets to %s are lost", f.LossPercent, strings.Join(f.Sources, ", ")) + f.flows() + except(f.SourcesToFilter)
	}
}

func (f Fault) flows() string {
	if cmp.Or(f.FlowsPercent, 100) == 100 {
		return ""
	}
	return fmt.Sprintf(", for %d%% of the connections", f.FlowsPercent)
}

func except(sources []string) string {
	if len(sources) == 0 {
		return ""
	}
	return ", except for " + strings.Join(sources, ", ")
}
