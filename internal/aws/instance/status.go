package instance

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/atomicfile"
)

// Status is what an instance that runs tells people.
type Status struct {
	Cluster  string `json:"cluster"`
	Region   string `json:"region"`
	Instance string `json:"containerInstanceArn,omitempty"`
	// Since is when the process started, Registered when ECS last took the registration.
	Since      time.Time `json:"since"`
	Registered time.Time `json:"registeredAt,omitzero"`
	ACS        Link      `json:"acs"`
	TCS        Link      `json:"tcs"`
	// Inactive: ECS says that the instance was deregistered.
	Inactive bool `json:"inactive,omitempty"`
	// Problem is why the instance is not registered; empty if it is.
	Problem string `json:"problem,omitempty"`
	// Waiting says what tasks wait for before the agent can make them, by their ARNs.
	Waiting map[string]string `json:"waiting,omitempty"`
}

// Link is the state of a web socket.
type Link struct {
	Connected bool      `json:"connected"`
	Since     time.Time `json:"since,omitzero"`
	// Problem is why it is not connected.
	Problem string `json:"problem,omitempty"`
	// Connections counts those of the process.
	Connections int `json:"connections"`
}

// StatusPath is the file with the status of an instance that runs.
func StatusPath(runtimeDir string) string { return filepath.Join(runtimeDir, "status.json") }

// ReadStatus returns the status that the process of an instance wrote last; nil if there is none.
func ReadStatus(path string) (*Status, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := new(Status)
	return s, json.Unmarshal(text, s)
}

// statusFile writes the status at each change.
type statusFile struct {
	path string

	mu     sync.Mutex
	status Status
}

func (f *statusFile) set(change func(*Status)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.status
	change(&f.status)
	if reflect.DeepEqual(f.status, before) {
		return
	}
	text, err := json.Marshal(f.status)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(f.path), 0o700)
	}
	if err == nil {
		err = atomicfile.Write(f.path, text, 0o600)
	}
	_ = err // the status is for people; the instance runs without it
}
