package ecscluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/testing/ecsplane"
	"github.com/podtask/podtask/pkg/service"
)

// ARN is that of a task.
func ARN(id string) string {
	return strings.TrimSuffix(ecsplane.ClusterARN, "cluster/lab") + "task/lab/" + id
}

// notify takes in what an instance said on a web socket.
func (c *Cluster) notify(e ecsplane.Event) {
	c.mu.Lock()
	r := c.run
	c.mu.Unlock()
	if r == nil || e.On == "http" {
		return
	}
	select {
	case r.work <- func() { c.event(r, e) }:
	case <-r.stop:
	}
}

func (c *Cluster) event(r *run, e ecsplane.Event) {
	switch {
	case e.On == "acs" && e.Op == "open":
		if r.disk.Instances[e.Instance] == "" {
			r.disk.Instances[e.Instance] = "ACTIVE"
		}
		r.connected[e.Instance]++
		c.save(r)
		for _, id := range r.taskIDs() {
			if t := r.disk.Tasks[id]; t.Instance == e.Instance {
				c.say(r, t)
			}
		}
	case e.On == "acs" && e.Op == "closed":
		r.connected[e.Instance] = max(0, r.connected[e.Instance]-1)
	case e.Op == "AckRequest":
		var m struct {
			MessageID string `json:"messageId"`
		}
		_ = json.Unmarshal(e.Body, &m)
		id, want, _ := strings.Cut(r.unacknowledged[m.MessageID], " ")
		if t := r.disk.Tasks[id]; t != nil && t.Want == want {
			t.Acked = true
			c.save(r)
		}
		delete(r.unacknowledged, m.MessageID)
	case e.Op == "PublishHealthRequest":
		c.health(r, e.Body)
	}
}

func (c *Cluster) health(r *run, body []byte) {
	var m struct {
		Tasks []struct {
			TaskARN    string `json:"taskArn"`
			Containers []struct {
				Status string `json:"healthStatus"`
			} `json:"containers"`
		} `json:"tasks"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		c.problem("PublishHealthRequest: %v", err)
		return
	}
	for _, h := range m.Tasks {
		t := r.disk.Tasks[h.TaskARN[strings.LastIndexByte(h.TaskARN, '/')+1:]]
		if t == nil || len(h.Containers) == 0 || t.Seen.Stopped || string(t.Seen.Health) == h.Containers[0].Status {
			continue
		}
		t.Seen.Health = service.Health(h.Containers[0].Status)
		c.step(r, t.Service, service.Seen{ID: t.ID, Observation: t.Seen})
	}
}

// serve answers the calls of instances that the scheduler must know of before they are answered.
func (c *Cluster) serve(w http.ResponseWriter, operation string, body []byte) bool {
	switch {
	case operation == "SubmitTaskStateChange":
		var m struct{ Task, Status, Reason string }
		if err := json.Unmarshal(body, &m); err != nil {
			c.problem("SubmitTaskStateChange: %v", err)
		}
		if !c.do(func(r *run) { c.state(r, m.Task, m.Status, m.Reason) }) {
			panic(http.ErrAbortHandler)
		}
		return false
	case instanceCalls[operation]:
		c.instances(w, operation, body)
		return true
	case operation == "DescribeTaskDefinition":
		var out json.RawMessage
		if err := c.Call(context.Background(), operation, json.RawMessage(body), &out); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return true
		}
		_, _ = w.Write(out)
		return true
	}
	return false
}

// ranks are the states of a task in their order.
var ranks = []string{"PENDING", "RUNNING", "STOPPED"}

// state takes in a state of a task. One that comes after a later one is a problem.
func (c *Cluster) state(r *run, arn, status, reason string) {
	id := arn[strings.LastIndexByte(arn, '/')+1:]
	c.mu.Lock()
	told := c.told[id]
	if len(told) > 0 && slices.Index(ranks, told[len(told)-1]) > slices.Index(ranks, status) {
		c.problems = append(c.problems, fmt.Sprintf("the task %s was told as %v and then as %s", id, told, status))
	}
	if len(told) == 0 || told[len(told)-1] != status {
		c.told[id] = append(told, status)
	}
	c.mu.Unlock()
	t := r.disk.Tasks[id]
	if t == nil || t.Seen.Stopped {
		return // the service has forgotten it, or this was repeated
	}
	switch status {
	case "RUNNING":
		if !t.Seen.Running {
			delete(r.failed, t.Service+" "+t.Instance)
			t.Seen.Running, t.Seen.Since = true, time.Now()
			if t.Checked {
				t.Seen.Health = service.Unknown
			}
		}
	case "STOPPED":
		if !t.Seen.Running && t.Want == "RUNNING" {
			r.failed[t.Service+" "+t.Instance]++
		}
		t.Seen = service.Observation{Stopped: true, ByUser: t.Moved, Reason: reason}
		if t.Moved {
			t.Seen.Reason = "stopped by the drain of its container instance"
		} else if reason == "" {
			t.Seen.Reason = "a container ended"
		}
	}
	c.step(r, t.Service, service.Seen{ID: id, Observation: t.Seen})
}

// instanceCalls are those of clients about instances. Podtask's API has one host, so they are answered here.
var instanceCalls = map[string]bool{"UpdateContainerInstancesState": true, "DescribeContainerInstances": true, "ListContainerInstances": true}

func (c *Cluster) instances(w http.ResponseWriter, operation string, body []byte) {
	var in struct {
		Instances []string `json:"containerInstances"`
		Status    string   `json:"status"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		c.problem("%s: %v", operation, err)
	}
	type instance struct {
		ARN       string `json:"containerInstanceArn"`
		Status    string `json:"status"`
		Connected bool   `json:"agentConnected"`
		Running   int    `json:"runningTasksCount"`
		Pending   int    `json:"pendingTasksCount"`
	}
	out := []instance{}
	ok := c.do(func(r *run) {
		for arn := range r.disk.Instances {
			if operation != "ListContainerInstances" && !slices.Contains(in.Instances, arn) {
				continue
			}
			if operation == "UpdateContainerInstancesState" {
				r.disk.Instances[arn] = in.Status
				c.save(r)
			}
			one := instance{ARN: arn, Status: r.disk.Instances[arn], Connected: r.connected[arn] > 0}
			for _, t := range r.disk.Tasks {
				switch {
				case t.Instance != arn || t.Seen.Stopped:
				case t.Seen.Running:
					one.Running++
				default:
					one.Pending++
				}
			}
			out = append(out, one)
		}
	})
	if !ok {
		panic(http.ErrAbortHandler)
	}
	if operation == "ListContainerInstances" {
		arns := []string{}
		for _, i := range out {
			arns = append(arns, i.ARN)
		}
		slices.Sort(arns)
		_ = json.NewEncoder(w).Encode(map[string]any{"containerInstanceArns": arns})
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"containerInstances": out, "failures": []any{}})
}

func (c *Cluster) problem(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

// Problems are states that came in the wrong order, and those of the plane.
func (c *Cluster) Problems() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append(slices.Clone(c.problems), c.Plane.Problems()...)
}

// Copy is a copy of a service.
type Copy struct {
	ID, Instance string
	Revision     int
	Running      bool
}

// Copies are the copies of a service that have not stopped.
func (c *Cluster) Copies(name string) (out []Copy) {
	c.do(func(r *run) {
		for _, id := range r.taskIDs() {
			if t := r.disk.Tasks[id]; t.Service == name && !t.Seen.Stopped {
				out = append(out, Copy{id, t.Instance, t.Revision, t.Seen.Running})
			}
		}
	})
	return out
}

// Steady reports whether a service is steady.
func (c *Cluster) Steady(name string) (steady bool) {
	c.do(func(r *run) { steady = r.disk.Services[name].Steady })
	return steady
}

// Told are the states that were told of each task, without repetitions.
func (c *Cluster) Told() map[string][]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[string][]string)
	for id, list := range c.told {
		out[id] = slices.Clone(list)
	}
	return out
}
