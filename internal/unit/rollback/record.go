package rollback

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/podtask/podtask/internal/atomicfile"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// FromRegistry is the only policy of automatic updates; Podman has the same name.
const FromRegistry = "registry"

// Record is what a unit with automatic updates remembers between its starts: for
// each image reference the digest that it was last ready with and the one that it has
// failed with since. A nil record knows no digests.
type Record struct {
	Good map[string]string `json:"good"`
	Bad  map[string]string `json:"bad,omitempty"`
}

// References returns the images of a task that name no digest.
func References(t taskdef.Task) []string {
	var refs []string
	for _, c := range t.Containers {
		if !strings.Contains(c.Image, "@") {
			refs = append(refs, c.Image)
		}
	}
	return refs
}

// DigestsOf returns the digests that a task runs with, by the references of its
// definition, without those that were not compared with the registry.
func DigestsOf(definition taskdef.Task, st lifecycle.State) map[string]string {
	now := make(map[string]string)
	for i, c := range definition.Containers {
		if d := st.Containers[i].Digest; d != "" && st.Containers[i].Source != lifecycle.SourceCache && !strings.Contains(c.Image, "@") {
			now[c.Image] = d
		}
	}
	return now
}

// Succeeded records the digests that the unit is ready with and reports whether the
// record has changed.
func (b *Record) Succeeded(now map[string]string) (changed bool) {
	for ref, digest := range now {
		if b.Good[ref] != digest {
			b.Good[ref], changed = digest, true
		}
		if b.Bad[ref] == digest {
			delete(b.Bad, ref)
		}
	}
	return changed
}

// Differs reports whether a digest differs from the one that the unit was ready with.
func (b *Record) Differs(now map[string]string) bool {
	for ref, digest := range now {
		if b != nil && b.Good[ref] != "" && b.Good[ref] != digest {
			return true
		}
	}
	return false
}

// Failed records those digests that differ from the good ones as bad. It reports whether
// there are any, which means that rolling back can help.
func (b *Record) Failed(now map[string]string) bool {
	for ref, digest := range now {
		if good := b.Good[ref]; good != "" && good != digest {
			b.Bad[ref] = digest
		}
	}
	return b.Differs(now)
}

// Avoid returns the task with the good digest appended to each image that would be the bad
// one. Now holds the digests at the registry; a reference that is missing there gets the
// good digest too, because the local copy may be the bad one.
func (b *Record) Avoid(t taskdef.Task, now map[string]string) taskdef.Task {
	pinned := make([]taskdef.Container, len(t.Containers))
	copy(pinned, t.Containers)
	for i, c := range pinned {
		bad, known := b.Bad[c.Image]
		if digest, told := now[c.Image]; known && (!told || digest == bad) {
			pinned[i].Image += "@" + b.Good[c.Image]
		}
	}
	t.Containers = pinned
	return t
}

// Avoids reports whether the digest of a reference is known to be bad.
func (b *Record) Avoids(ref, digest string) bool {
	return b != nil && digest != "" && b.Bad[ref] == digest
}

// fileOf returns the file that holds the record of a task's name.
func fileOf(stateDir, name string) string {
	return filepath.Join(stateDir, "updates", name+".json")
}

// Open reads the record of a task's name. Beside an error it returns an empty record:
// only the digests to go back to are lost then.
func Open(stateDir, name string) (*Record, error) {
	b := &Record{}
	data, err := os.ReadFile(fileOf(stateDir, name))
	if err == nil {
		err = json.Unmarshal(data, b)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	case err != nil:
		b, err = &Record{}, fmt.Errorf("the digests of earlier updates are lost: %w", err)
	}
	if b.Good == nil {
		b.Good = map[string]string{}
	}
	if b.Bad == nil {
		b.Bad = map[string]string{}
	}
	return b, err
}

// Save writes the record of a task's name.
func (b *Record) Save(stateDir, name string) error {
	file := fileOf(stateDir, name)
	data, err := json.Marshal(b)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o700)
	}
	if err == nil {
		err = atomicfile.Write(file, data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("save the digests of %s: %w", name, err)
	}
	return nil
}

// Unpin undoes avoid: it removes the digests that the record put into the images.
func (b *Record) Unpin(t taskdef.Task) taskdef.Task {
	containers := make([]taskdef.Container, len(t.Containers))
	copy(containers, t.Containers)
	for i, c := range containers {
		for ref := range b.Bad {
			if c.Image == ref+"@"+b.Good[ref] {
				containers[i].Image = ref
			}
		}
	}
	t.Containers = containers
	return t
}
