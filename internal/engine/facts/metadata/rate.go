package metadata

import (
	"encoding/json"
	"sync"
	"time"
)

// rates adds the network rates to the statistics of containers, as the ECS agent does. It
// needs two requests, as there.
type rates struct {
	mu   sync.Mutex
	last map[int]sample // by container
}

// sample is the traffic of a container's network up to one moment, in bytes.
type sample struct {
	at               time.Time
	received, sent   uint64
	inRate, outRate  float64 // bytes a second, since the sample before
	hasRate, hasData bool
}

// rateSpan is the minimum time between the two samples of a rate; faster requests get the
// same rate.
const rateSpan = time.Second

// networkRate is the ECS agent's form of it.
type networkRate struct {
	Received float64 `json:"rx_bytes_per_sec"`
	Sent     float64 `json:"tx_bytes_per_sec"`
}

// with returns the statistics of container i with network_rate_stats. Statistics of
// another form, or without networks, are returned unchanged.
func (r *rates) with(i int, stats json.RawMessage) json.RawMessage {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := sampleOf(stats)
	if !now.hasData {
		return stats
	}
	if before, known := r.last[i]; known {
		now = now.after(before)
	}
	if r.last == nil {
		r.last = make(map[int]sample)
	}
	r.last[i] = now
	if !now.hasRate {
		return stats
	}
	return withMember(stats, "network_rate_stats", networkRate{now.inRate, now.outRate})
}

// after returns the sample with its rate since another one, or the other one itself if it
// is too recent. Counters that went back belong to a new network.
func (s sample) after(before sample) sample {
	span := s.at.Sub(before.at)
	switch {
	case s.received < before.received || s.sent < before.sent:
		return s
	case span < rateSpan:
		return before
	}
	s.inRate, s.outRate = float64(s.received-before.received)/span.Seconds(), float64(s.sent-before.sent)/span.Seconds()
	s.hasRate = true
	return s
}

func sampleOf(stats json.RawMessage) sample {
	var in struct {
		Read     time.Time `json:"read"`
		Networks map[string]struct {
			Received uint64 `json:"rx_bytes"`
			Sent     uint64 `json:"tx_bytes"`
		} `json:"networks"`
	}
	if json.Unmarshal(stats, &in) != nil || in.Read.IsZero() || len(in.Networks) == 0 {
		return sample{}
	}
	out := sample{at: in.Read, hasData: true}
	for _, n := range in.Networks {
		out.received += n.Received
		out.sent += n.Sent
	}
	return out
}

// withMember returns a JSON object with another member; other values unchanged.
func withMember(object json.RawMessage, name string, value any) json.RawMessage {
	var members map[string]json.RawMessage
	text, err := json.Marshal(value)
	if err != nil || json.Unmarshal(object, &members) != nil || members == nil {
		return object
	}
	members[name] = text
	if all, err := json.Marshal(members); err == nil {
		return all
	}
	return object
}
