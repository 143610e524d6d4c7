//go:build e2e

package e2e

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// def is a task definition.
type def struct {
	Family     string `json:"family"`
	Network    string `json:"networkMode,omitempty"`
	CPU        string `json:"cpu,omitempty"`
	Memory     string `json:"memory,omitempty"`
	Containers []ctr  `json:"containerDefinitions"`
	More       obj    `json:"-"` // further members
}

// obj is a JSON object.
type obj = map[string]any

// ctr is a container definition.
type ctr struct {
	Name         string   `json:"name"`
	Image        string   `json:"image"`             // empty: testbox
	Command      []string `json:"command,omitempty"` // words makes one
	Essential    *bool    `json:"essential,omitempty"`
	DependsOn    []on     `json:"dependsOn,omitempty"`
	Health       *check   `json:"healthCheck,omitempty"`
	Ports        []port   `json:"portMappings,omitempty"`
	Environment  []envVar `json:"environment,omitempty"`
	Memory       int      `json:"memory,omitempty"`
	StartTimeout int      `json:"startTimeout,omitempty"`
	StopTimeout  int      `json:"stopTimeout,omitempty"`
	Restart      *restart `json:"restartPolicy,omitempty"`
	More         obj      `json:"-"` // further members
}

// restart is a restart policy.
type restart struct {
	Enabled bool  `json:"enabled"`
	Ignored []int `json:"ignoredExitCodes,omitempty"`
	X       struct {
		BackOff  int `json:"backOff,omitempty"`
		MaxCount int `json:"maxCount,omitempty"`
	} `json:"x-podtask"`
}

// restarts is a policy with a back-off of a second.
func restarts(maxCount int, ignored ...int) *restart {
	r := &restart{Enabled: true, Ignored: ignored}
	r.X.BackOff, r.X.MaxCount = 1, maxCount
	return r
}

// MarshalJSON puts the further members to the others.
func (c ctr) MarshalJSON() ([]byte, error) {
	type plain ctr
	return withMore(plain(c), c.More)
}

// MarshalJSON puts the further members to the others.
func (d def) MarshalJSON() ([]byte, error) {
	type plain def
	return withMore(plain(d), d.More)
}

func withMore(v any, more obj) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil || len(more) == 0 {
		return data, err
	}
	members := obj{}
	if err := json.Unmarshal(data, &members); err != nil {
		return nil, err
	}
	maps.Copy(members, more)
	return json.Marshal(members)
}

// on is a dependency.
type on struct {
	Container string `json:"containerName"`
	Condition string `json:"condition"`
}

// check is a health check.
type check struct {
	Command  []string `json:"command"`
	Interval int      `json:"interval,omitempty"`
	Retries  int      `json:"retries,omitempty"`
}

// port is a published port.
type port struct {
	Container int    `json:"containerPort"`
	Host      int    `json:"hostPort,omitempty"`
	Protocol  string `json:"protocol,omitempty"`
}

type envVar struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// optional is for containers that are not essential.
var optional = new(bool)

// words splits a command of testbox.
func words(command string) []string { return strings.Fields(command) }

// healthyIf is a health check: a step of testbox.
func healthyIf(step string) *check {
	return &check{Command: append([]string{"CMD", "/testbox"}, words(step)...), Interval: 5}
}

// allOf lets the task succeed when all the containers did, however they come to
// their ends.
func allOf(containers ...ctr) []ctr {
	end := ctr{Name: "end", Command: words("exit 0")}
	for i := range containers {
		containers[i].Essential = optional
		end.DependsOn = append(end.DependsOn, on{containers[i].Name, "SUCCESS"})
	}
	return append(containers, end)
}

// needsGPUs is a container with GPUs of its own.
func needsGPUs(n, command string) ctr {
	return ctr{Name: "app", Command: words(command), StopTimeout: 1, More: obj{"resourceRequirements": []obj{{"type": "GPU", "value": n}}}}
}

// define writes a definition of these containers and returns its path.
func (b *box) define(containers ...ctr) (path string) {
	b.t.Helper()
	return b.write(def{Containers: containers})
}

// write writes a definition of the box's family and returns its path.
func (b *box) write(d def) (path string) {
	b.t.Helper()
	d.Family = b.family
	for i := range d.Containers {
		if d.Containers[i].Image == "" {
			d.Containers[i].Image = b.testbox()
		}
	}
	data, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		b.t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(b.dir, "task*.json"))
	path = filepath.Join(b.dir, "task"+strconv.Itoa(len(files))+".json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		b.t.Fatal(err)
	}
	return path
}
