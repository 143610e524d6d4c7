package adapter

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/aws/awsapi"
	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef"
)

const benchDefinition = `{"family": "web", "networkMode": "awsvpc", "cpu": "256", "memory": "512", "containerDefinitions": [
  {"name": "app", "image": "registry.example/app:1", "portMappings": [{"containerPort": 80}], "environment": [{"name": "A", "value": "b"}, {"name": "C", "value": "d"}]},
  {"name": "side", "image": "registry.example/side:1", "essential": false, "dependsOn": [{"containerName": "app", "condition": "START"}]}]}`

// recordTasks records stopped tasks with a history and returns their ids.
func (d doors) recordTasks(tb testing.TB, n int) (ids []string) {
	tb.Helper()
	task, _, err := taskdef.Parse("bench", []byte(benchDefinition))
	if err != nil {
		tb.Fatal(err)
	}
	for i := range n {
		at := time.Unix(1_800_000_000+int64(i), 0).UTC()
		s := lifecycle.New(fmt.Sprintf("%032x", i+1), "", task, lifecycle.Options{}, at)
		for k := range 20 {
			s.History = append(s.History, lifecycle.Transition{Seq: uint64(k + 1), At: at.Add(time.Duration(k) * time.Second), Container: "app", Status: "RUNNING", Reason: "started"})
		}
		s.Goal, s.Sandbox.Phase, s.Stop = lifecycle.Down, lifecycle.SandboxStopped, lifecycle.StopReason{Code: lifecycle.StopUserInitiated, Reason: "enough", At: at}
		for k := range s.Containers {
			s.Containers[k].Ended = true
		}
		data, err := json.Marshal(s)
		if err == nil {
			_, err = record.Decode(data)
		}
		if err == nil {
			err = d.agent.Engine.Tasks.Store.Put(s.ID, data)
		}
		if err == nil { // they are not of this moment
			err = os.Chtimes(filepath.Join(d.stateDir, "tasks", s.ID+".json"), at, at.Add(-time.Hour*24*365*5))
		}
		if err != nil {
			tb.Fatal(err)
		}
		ids = append(ids, s.ID)
	}
	return ids
}

// server answers as the agent does.
func (d doors) server(tb testing.TB) http.Handler {
	tb.Helper()
	definitions, err := define.OpenCatalog(d.stateDir, "test")
	if err != nil {
		tb.Fatal(err)
	}
	records, err := OpenECSRecords(d.stateDir)
	if err != nil {
		tb.Fatal(err)
	}
	return awsapi.New(awsapi.Config{
		Log: slog.New(slog.DiscardHandler), Definitions: definitions, Records: records, Tasks: d.ecs, Parser: d.ecs, Host: d.ecs, Logs: d.ecs,
		Services: NewECSServices(d.agent), Now: time.Now,
	}).Trusted()
}

func ask(tb testing.TB, h http.Handler, operation, body string) string {
	tb.Helper()
	r := httptest.NewRequestWithContext(tb.Context(), http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	r.Header.Set("X-Amz-Target", "AmazonEC2ContainerServiceV20141113."+operation)
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	if rec.Code != http.StatusOK {
		tb.Fatalf("%s: %d %s", operation, rec.Code, rec.Body)
	}
	return rec.Body.String()
}

// measure asks again and again, and reports the p99 of the times.
func measure(b *testing.B, h http.Handler, operation, body string) {
	b.Helper()
	var times []time.Duration
	for b.Loop() {
		began := time.Now()
		ask(b, h, operation, body)
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "p99-ms")
}

// BenchmarkClientsOfALargeHost asks for tasks of a host that has 1,000 records.
func BenchmarkClientsOfALargeHost(b *testing.B) {
	d := openDoors(b, config.Default())
	ids := d.recordTasks(b, 1000)
	hundred, err := json.Marshal(ids[450:550])
	if err != nil {
		b.Fatal(err)
	}
	h := d.server(b)
	ask(b, h, "ListTasks", `{"desiredStatus": "STOPPED"}`)
	for _, c := range []struct{ name, operation, body string }{
		{"DescribeTasks/1", "DescribeTasks", `{"tasks": ["` + ids[7] + `"]}`},
		{"DescribeTasks/100", "DescribeTasks", `{"tasks": ` + string(hundred) + `}`},
		{"ListTasks", "ListTasks", `{"desiredStatus": "STOPPED"}`},
		{"DescribeClusters", "DescribeClusters", `{}`},
	} {
		ask(b, h, c.operation, c.body)
		b.Run(c.name, func(b *testing.B) { measure(b, h, c.operation, c.body) })
	}
}

// recordServices records services and returns their names.
func recordServices(tb testing.TB, dir string, n int) (names []string) {
	tb.Helper()
	task, _, err := taskdef.Parse("bench", []byte(benchDefinition))
	if err != nil {
		tb.Fatal(err)
	}
	store, err := state.OpenIn(filepath.Join(dir, "services"), state.OS{})
	if err != nil {
		tb.Fatal(err)
	}
	for i := range n {
		name := fmt.Sprintf("s%03d", i)
		s := service.New(fmt.Sprintf("%032x", i+1), name, service.Spec{TaskDefinition: "web:1", Task: task}, 0, service.Config{ClientConfig: service.ClientConfig{Client: []byte(`{"tags": [{"key": "a", "value": "b"}]}`)}}, time.Unix(1_800_000_000, 0).UTC())
		data, err := json.Marshal(s)
		if err == nil {
			err = store.Put(s.ID, data)
		}
		if err != nil {
			tb.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}

// BenchmarkClientsOfManyServices asks for services of a host that has 300 of them, and 1,000 records of tasks.
func BenchmarkClientsOfManyServices(b *testing.B) {
	dir := b.TempDir()
	names := recordServices(b, dir, 300)
	d := openDoorsIn(b, dir, config.Default())
	d.recordTasks(b, 1000)
	h := d.server(b)
	ask(b, h, "RegisterTaskDefinition", `{"family": "web", "containerDefinitions": [{"name": "app", "image": "registry.example/app:1", "memory": 64}]}`)
	for i := range 20 {
		ask(b, h, "CreateCluster", fmt.Sprintf(`{"clusterName": "c%d"}`, i))
	}
	ten, err := json.Marshal(names[150:160])
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct{ name, operation, body string }{
		{"DescribeServices/1", "DescribeServices", `{"services": ["s150"]}`},
		{"DescribeServices/10", "DescribeServices", `{"services": ` + string(ten) + `, "include": ["TAGS"]}`},
		{"ListServices", "ListServices", `{"maxResults": 100}`},
		{"ListServiceDeployments", "ListServiceDeployments", `{"service": "s150"}`},
		{"DescribeClusters/20", "DescribeClusters", `{"clusters": ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9", "c10", "c11", "c12", "c13", "c14", "c15", "c16", "c17", "c18", "c19"]}`},
		{"ListClusters", "ListClusters", `{}`},
		{"ListTaskDefinitions", "ListTaskDefinitions", `{}`},
		{"DescribeTaskDefinition", "DescribeTaskDefinition", `{"taskDefinition": "web"}`},
	} {
		ask(b, h, c.operation, c.body)
		b.Run(c.name, func(b *testing.B) { measure(b, h, c.operation, c.body) })
	}
}
