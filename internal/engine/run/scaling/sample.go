package scaling

import (
	"context"
	"net"
	"slices"
	"time"

	"github.com/podtask/podtask/internal/engine/act/observe"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/scaling"
	"github.com/podtask/podtask/pkg/service"
)

// Host measures copies and services.
type Host interface {
	// Task is a task by its ID, and whether there is one.
	Task(id string) (lifecycle.State, bool)
	// Usage is the use of resources by each of the tasks, nil for those of which nothing runs.
	Usage(ctx context.Context, tasks []lifecycle.State) ([]*observe.Usage, error)
	// Memory is the memory of the host in bytes.
	Memory() uint64
	// Requests counts the requests to the public addresses of services that have ended; nil if that is not known now.
	Requests(ctx context.Context) map[string]uint64
	// Dial connects to an address as a program in container i of a task would.
	Dial(ctx context.Context, task lifecycle.State, i int, address string) (net.Conn, error)
	// Connections counts the connections to the listeners of services.
	Connections() map[string]uint64
}

// counter has a count as it was at a time.
type counter struct {
	at time.Time
	n  float64
}

// meter makes rates of counts. The counts of a round are those that the next one compares with.
type meter struct {
	host         Host
	before, seen map[string]counter
}

// rate returns the increase of a count in a second since the round before. A count that is new or has begun anew has none.
func (m *meter) rate(key string, at time.Time, n float64) (perSecond float64, known bool) {
	m.seen[key] = counter{at, n}
	last, known := m.before[key]
	span := at.Sub(last.at).Seconds()
	if !known || n < last.n || span <= 0 {
		return 0, false
	}
	return (n - last.n) / span, true
}

// wants reports whether a service has a policy for one of the metrics.
func wants(s scaling.State, metrics ...scaling.Metric) bool {
	return slices.ContainsFunc(s.Config.Policies, func(p scaling.Policy) bool { return slices.Contains(metrics, p.Metric) })
}

// round has the counts of one time.
type round struct {
	*meter
	at          time.Time
	requests    map[string]uint64
	connections map[string]uint64
	usage       map[string]*observe.Usage // by task
	tasks       map[string]lifecycle.State
	own         map[reading]readValue
}

// newRound reads the counts that the services need.
func (m *meter) newRound(ctx context.Context, at time.Time, scaled []scaled) (round, error) {
	m.before, m.seen = m.seen, make(map[string]counter)
	r := round{meter: m, at: at, usage: make(map[string]*observe.Usage), tasks: make(map[string]lifecycle.State)}
	var all []lifecycle.State
	for _, s := range scaled {
		if wants(s.record, scaling.Requests) && r.requests == nil {
			r.requests = m.host.Requests(ctx)
		}
		if wants(s.record, scaling.Connections) && r.connections == nil {
			r.connections = m.host.Connections()
		}
		usage := wants(s.record, scaling.CPU, scaling.Memory)
		if !usage && len(s.record.Config.Own()) == 0 {
			continue
		}
		for _, t := range s.service.Tasks {
			task, found := m.host.Task(t.ID)
			if !found || !t.Healthy() || t.Phase != service.Live {
				continue
			}
			if r.tasks[t.ID] = task; usage {
				all = append(all, task)
			}
		}
	}
	r.readOwn(ctx, scaled)
	if len(all) == 0 {
		return r, nil
	}
	usage, err := m.host.Usage(ctx, all)
	for i, u := range usage {
		r.usage[all[i].ID] = u
	}
	return r, err
}

// sample returns the sample of a service. A metric that is not known of any copy is left out.
func (r round) sample(record scaling.State, s service.State) scaling.Sample {
	out := scaling.Sample{At: r.at, Copies: s.Count("").Healthy, Desired: s.DesiredCount, Values: make(map[scaling.Metric]float64)}
	for metric, counts := range map[scaling.Metric]map[string]uint64{scaling.Requests: r.requests, scaling.Connections: r.connections} {
		if counts == nil || !wants(record, metric) {
			continue
		}
		if perSecond, known := r.rate(string(metric)+" "+s.Name, r.at, float64(counts[s.Name])); known && out.Copies > 0 {
			out.Values[metric] = perSecond * time.Minute.Seconds() / float64(out.Copies)
		}
	}
	if wants(record, scaling.CPU, scaling.Memory) {
		r.resources(s, out.Values)
	}
	r.averages(record, s, &out)
	return out
}

// resources adds the averages of what the copies use, in percent.
func (r round) resources(s service.State, values map[scaling.Metric]float64) {
	sums, counts := map[scaling.Metric]float64{}, map[scaling.Metric]int{}
	add := func(m scaling.Metric, percent float64) { sums[m] += percent; counts[m]++ }
	for _, t := range s.Tasks {
		u := r.usage[t.ID]
		if u == nil {
			continue
		}
		cpu, memory := share(r.tasks[t.ID], r.host.Memory())
		if perSecond, known := r.rate("cpu "+t.ID, u.At, float64(u.Task.CPUUsec)); known {
			add(scaling.CPU, 100*perSecond/1e6/cpu)
		}
		if u.Task.Memory != nil && memory > 0 {
			add(scaling.Memory, 100*float64(u.Task.Memory.Used)/memory)
		}
	}
	for m, sum := range sums {
		values[m] = sum / float64(counts[m])
	}
}

// share returns the processors and the bytes that are the whole of a copy: its limits, else what its containers reserve,
// else one processor, and the memory of the host.
func share(t lifecycle.State, host uint64) (cpu, memory float64) {
	q := t.Quota()
	cpu, memory = q.CPU, float64(q.Memory)
	var units, bytes int64
	for _, c := range t.Task.Containers {
		units += c.CPU
		bytes += max(c.Memory, c.MemoryReservation)
	}
	const unit = 1024 // of ECS, for one processor
	switch {
	case cpu > 0:
	case units > 0:
		cpu = float64(units) / unit
	default:
		cpu = 1
	}
	switch {
	case memory > 0:
	case bytes > 0:
		memory = float64(bytes)
	default:
		memory = float64(host)
	}
	return cpu, memory
}
