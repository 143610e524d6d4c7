package ecscluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/aws/awsapi"
	"github.com/podtask/podtask/internal/aws/sigv4"
	"github.com/podtask/podtask/internal/define/catalog"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/internal/testing/ecsplane"
	"github.com/podtask/podtask/pkg/service"
)

// Cluster is a control plane with a scheduler. Instances reach it by Instances, clients by Clients. It is safe for
// concurrent use.
type Cluster struct {
	// Plane has what the instances said.
	Plane *ecsplane.Plane

	api     *awsapi.Server
	catalog *catalog.Catalog

	mu       sync.Mutex
	run      *run     // nil while the cluster is down
	saved    []byte   // what a restart finds
	problems []string // what no instance may do
	told     map[string][]string
}

// run is the scheduler from a start to a kill. What is in it and not in saved is lost by a kill.
type run struct {
	work chan func()
	stop chan struct{}
	done chan struct{}
	disk disk
	// connected counts the web sockets of ACS of instances: a new one may open before the old one has ended.
	connected map[string]int
	// unacknowledged are the tasks that a message said, by its ID.
	unacknowledged map[string]string
	// failed counts the copies that never ran, by service and instance. Each counts as a copy when another one is placed, until
	// one runs there.
	failed map[string]int
	// wake is the time at which services are to be looked at; none is zero.
	wake map[string]time.Time
}

// disk is what the scheduler records before it acts.
type disk struct {
	Services  map[string]service.State
	Tasks     map[string]*task
	Instances map[string]string // status by ARN
	Messages  int
}

// task is a copy of a service on an instance.
type task struct {
	ID, Service, Instance string
	Document              json.RawMessage // the definition
	Revision              int
	Checked               bool // it has a health check
	// Want is what the instance is to do; Acked: it has said that it knows.
	Want  string
	Acked bool
	// Moved: it stops because its instance is drained.
	Moved bool
	Seen  service.Observation
}

// again is how often what was not acknowledged is said again.
const again = 5 * time.Second

// New returns a cluster that is up. Address is the URL at which instances reach it, dir has its records.
func New(address, dir string) (*Cluster, error) {
	locks, err := state.OpenLocks(dir, state.Holder{})
	if err != nil {
		return nil, err
	}
	definitions, err := catalog.Open(dir, state.OS{}, locks)
	if err != nil {
		return nil, err
	}
	records, err := state.OpenIn(dir+"/ecs", state.OS{})
	if err != nil {
		return nil, err
	}
	c := &Cluster{Plane: ecsplane.New(address), catalog: definitions, told: make(map[string][]string)}
	c.Plane.Grant("ecs:DescribeContainerInstances", "ecs:ListContainerInstances", "ecs:DescribeClusters") // of those who look at the cluster
	c.Plane.Serve, c.Plane.Notify = c.serve, c.notify
	c.api = awsapi.New(awsapi.Config{
		Log: slog.New(slog.DiscardHandler), Key: func() (sigv4.Key, error) { return sigv4.Key{ID: ecsplane.KeyID, Secret: ecsplane.Secret}, nil },
		Definitions: definitions, Records: records, Tasks: noTasks{}, Parser: parser{}, Host: noHost{}, Logs: noLogs{}, Sessions: noSessions{},
		Services: c, Now: time.Now,
	})
	c.Start()
	return c, c.Call(context.Background(), "CreateCluster", map[string]string{"clusterName": "lab"}, nil)
}

// Instances is the handler that container instances reach. While the cluster is down, connections are cut.
func (c *Cluster) Instances() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !c.isUp() {
			panic(http.ErrAbortHandler)
		}
		c.Plane.ServeHTTP(w, r)
	})
}

// Clients is the handler that clients of ECS reach.
func (c *Cluster) Clients() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !c.isUp() {
			panic(http.ErrAbortHandler)
		}
		_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		if !instanceCalls[operation] {
			c.api.Signed().ServeHTTP(w, r)
			return
		}
		var body bytes.Buffer
		if _, err := body.ReadFrom(r.Body); err != nil {
			panic(http.ErrAbortHandler)
		}
		c.instances(w, operation, body.Bytes())
	})
}

// Call makes a call of a client.
func (c *Cluster) Call(ctx context.Context, operation string, in, out any) error {
	text, err := json.Marshal(in)
	if err != nil {
		return err
	}
	rec := httptest.NewRecorder()
	if instanceCalls[operation] {
		c.instances(rec, operation, text)
	} else {
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", bytes.NewReader(text))
		r.Header.Set("Content-Type", "application/x-amz-json-1.1")
		r.Header.Set("X-Amz-Target", "AmazonEC2ContainerServiceV20141113."+operation)
		c.api.Trusted().ServeHTTP(rec, r)
	}
	if rec.Code != http.StatusOK {
		return fmt.Errorf("%s: %d %s", operation, rec.Code, rec.Body)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(rec.Body.Bytes(), out)
}

func (c *Cluster) isUp() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.run != nil
}

// Start starts the scheduler with what it has recorded.
func (c *Cluster) Start() {
	r := &run{work: make(chan func(), 1024), stop: make(chan struct{}), done: make(chan struct{}), connected: make(map[string]int), unacknowledged: make(map[string]string), failed: make(map[string]int), wake: make(map[string]time.Time)}
	c.mu.Lock()
	if len(c.saved) > 0 {
		if err := json.Unmarshal(c.saved, &r.disk); err != nil {
			panic(err) // it was marshaled here
		}
	} else {
		r.disk = disk{Services: make(map[string]service.State), Tasks: make(map[string]*task), Instances: make(map[string]string)}
	}
	c.run = r
	c.mu.Unlock()
	go c.loop(r)
	c.do(func(r *run) {
		for _, id := range r.taskIDs() { // each was seen by the run before
			if t := r.disk.Tasks[id]; t.Seen != (service.Observation{}) {
				c.step(r, t.Service, service.Seen{ID: id, Observation: t.Seen})
			}
		}
		for name := range r.disk.Services {
			c.step(r, name, service.TimerFired{})
		}
	})
}

// Kill ends the scheduler, and all connections, as kill -9 does.
func (c *Cluster) Kill() {
	c.mu.Lock()
	r := c.run
	c.run = nil
	c.mu.Unlock()
	if r == nil {
		return
	}
	close(r.stop)
	<-r.done
	for arn := range r.disk.Instances {
		c.Plane.End(ecsplane.SocketOf("acs", arn), 0)
		c.Plane.End(ecsplane.SocketOf("tcs", arn), 0)
	}
}

// loop does the work of a run, in order.
func (c *Cluster) loop(r *run) {
	defer close(r.done)
	repeat := time.NewTicker(again)
	defer repeat.Stop()
	for {
		wake := time.NewTimer(r.untilWake())
		select {
		case f := <-r.work:
			f()
		case <-wake.C:
			for name, at := range r.wake {
				if !time.Now().Before(at) {
					delete(r.wake, name)
					c.step(r, name, service.TimerFired{})
				}
			}
		case <-repeat.C:
			for _, id := range r.taskIDs() {
				c.say(r, r.disk.Tasks[id])
			}
		case <-r.stop:
			wake.Stop()
			return
		}
		wake.Stop()
		c.drain(r)
	}
}

// do has the scheduler do something, and waits. False: it was killed before that was recorded.
func (c *Cluster) do(f func(*run)) bool {
	c.mu.Lock()
	r := c.run
	c.mu.Unlock()
	if r == nil {
		return false
	}
	over := make(chan struct{})
	select {
	case r.work <- func() { f(r); close(over) }:
	case <-r.stop:
		return false
	}
	select {
	case <-over:
		return true
	case <-r.done:
		return false
	}
}

// untilWake is the time that no service has to be looked at.
func (r *run) untilWake() time.Duration {
	least := time.Hour
	for _, at := range r.wake {
		least = min(least, time.Until(at))
	}
	return max(least, 0)
}

func (r *run) taskIDs() (ids []string) {
	for id := range r.disk.Tasks {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// save records what a run has.
func (c *Cluster) save(r *run) {
	text, err := json.Marshal(r.disk)
	if err != nil {
		panic(err) // all of it is made here
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.saved = text
}

// step has a service take in what happened, and does what follows.
func (c *Cluster) step(r *run, name string, in service.Input) {
	for queue := []service.Input{in}; len(queue) > 0; queue = queue[1:] {
		s, ok := r.disk.Services[name]
		if !ok {
			return
		}
		now := time.Now()
		next, effects := service.Step(s, now, queue[0])
		r.disk.Services[name] = next
		if delete(r.wake, name); !next.Wake(now).IsZero() {
			r.wake[name] = next.Wake(now)
		}
		if next.Gone() {
			delete(r.disk.Services, name)
		}
		c.save(r)
		for _, e := range effects {
			queue = append(queue, c.effect(r, next, e))
		}
	}
}

// effect does what a service wants.
func (c *Cluster) effect(r *run, s service.State, e service.Effect) service.Input {
	switch e := e.(type) {
	case service.StartTask:
		return service.Done{ID: e.ID, Refused: c.place(r, s, e.ID)}
	case service.DrainTask:
		return service.Done{ID: e.ID}
	case service.StopTask:
		t := r.disk.Tasks[e.ID]
		if t == nil {
			return service.Vanished{ID: e.ID}
		}
		c.want(r, t, "STOPPED")
		return service.Done{ID: e.ID}
	case service.RemoveTask:
		delete(r.disk.Tasks, e.ID)
		c.save(r)
		return service.Done{ID: e.ID}
	}
	panic(fmt.Sprintf("a service without hooks and alarms wants %T", e))
}

// place gives a copy to the instance with the fewest. It returns why there is none.
func (c *Cluster) place(r *run, s service.State, id string) (refused string) {
	if r.disk.Tasks[id] != nil {
		return ""
	}
	count := make(map[string]int)
	for _, t := range r.disk.Tasks {
		if t.Want == "RUNNING" {
			count[t.Instance]++
		}
	}
	best := ""
	for arn := range r.disk.Instances {
		count[arn] += r.failed[s.Name+" "+arn]
	}
	for arn, status := range r.disk.Instances {
		if status == "ACTIVE" && r.connected[arn] > 0 && (best == "" || count[arn] < count[best] || count[arn] == count[best] && arn < best) {
			best = arn
		}
	}
	if best == "" {
		return "no container instance met all of its requirements"
	}
	i := slices.IndexFunc(s.Tasks, func(t service.Task) bool { return t.ID == id })
	d, _ := s.Deployment(s.Tasks[i].Deployment)
	ref, err := catalog.ParseRef(d.Spec.TaskDefinition)
	if err != nil {
		return err.Error()
	}
	revision, source, err := c.catalog.Find(ref)
	if err != nil {
		return err.Error()
	}
	t := &task{ID: id, Service: s.Name, Instance: best, Document: source, Revision: revision.Revision}
	for _, k := range d.Spec.Task.Containers {
		t.Checked = t.Checked || k.HealthCheck != nil
	}
	r.disk.Tasks[id] = t
	c.want(r, t, "RUNNING")
	return ""
}

// want records what an instance is to do with a task, and says it.
func (c *Cluster) want(r *run, t *task, status string) {
	if t.Want != status {
		t.Want, t.Acked = status, false
	}
	c.save(r)
	c.say(r, t)
}

// say sends a payload with a task that its instance has not acknowledged. A link that is away has it later.
func (c *Cluster) say(r *run, t *task) {
	if t.Acked || r.connected[t.Instance] == 0 {
		return
	}
	r.disk.Messages++
	c.save(r)
	id := fmt.Sprintf("payload-%d", r.disk.Messages)
	r.unacknowledged[id] = t.ID + " " + t.Want
	_ = c.Plane.Say(ecsplane.SocketOf("acs", t.Instance), "PayloadMessage", map[string]any{
		"messageId": id, "clusterArn": ecsplane.ClusterARN, "containerInstanceArn": t.Instance, "seqNum": r.disk.Messages, "generatedAt": 1, "tasks": []any{t.payload()},
	})
}

// drain stops copies on instances that are drained, one of a service at a time: the next when all that the
// service wants are healthy.
func (c *Cluster) drain(r *run) {
	for name, s := range r.disk.Services {
		healthy := 0
		for _, t := range s.Tasks {
			if t.Healthy() {
				healthy++
			}
		}
		if healthy < s.DesiredCount || s.Status != service.Active {
			continue
		}
		for _, id := range r.taskIDs() {
			t := r.disk.Tasks[id]
			if t.Service == name && t.Want == "RUNNING" && r.disk.Instances[t.Instance] == "DRAINING" {
				t.Moved = true
				c.want(r, t, "STOPPED")
				return
			}
		}
	}
}
