package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// updateFromRegistry is the one policy of automatic updates, in Podman's word.
const updateFromRegistry = "registry"

// digestBook is what a service with automatic updates remembers from one start to
// the next: by image reference, the digest that it was last ready with and the one
// that it failed with since.
type digestBook struct {
	Good map[string]string `json:"good"`
	Bad  map[string]string `json:"bad,omitempty"`
}

// references are the images of a task whose digest may change.
func references(t taskdef.Task) []string {
	var refs []string
	for _, c := range t.Containers {
		if !strings.Contains(c.Image, "@") {
			refs = append(refs, c.Image)
		}
	}
	return refs
}

// digestsOf are the digests that a task runs with, by the references of its
// definition. What was not compared with the registry is not among them.
func digestsOf(definition taskdef.Task, st lifecycle.State) map[string]string {
	now := make(map[string]string)
	for i, c := range definition.Containers {
		if d := st.Containers[i].Digest; d != "" && st.Containers[i].Source != lifecycle.SourceCache && !strings.Contains(c.Image, "@") {
			now[c.Image] = d
		}
	}
	return now
}

// succeeded notes the digests that the service is ready with. It reports whether
// that is news.
func (b *digestBook) succeeded(now map[string]string) (news bool) {
	for ref, digest := range now {
		if b.Good[ref] != digest {
			b.Good[ref], news = digest, true
		}
		if b.Bad[ref] == digest {
			delete(b.Bad, ref)
		}
	}
	return news
}

// differs reports whether any of the digests is another than the one that was good
// before. A nil book knows none.
func (b *digestBook) differs(now map[string]string) bool {
	for ref, digest := range now {
		if b != nil && b.Good[ref] != "" && b.Good[ref] != digest {
			return true
		}
	}
	return false
}

// failed notes the digests that the service failed with, as far as they differ from
// those that were good. It reports whether there are such, so that going back helps.
func (b *digestBook) failed(now map[string]string) bool {
	for ref, digest := range now {
		if good := b.Good[ref]; good != "" && good != digest {
			b.Bad[ref] = digest
		}
	}
	return b.differs(now)
}

// avoid returns the task with the good digest written to each image that is bad.
// Now holds what the registry says; a reference that it cannot tell of keeps
// clear of the bad one too, which a local copy may be.
func (b *digestBook) avoid(t taskdef.Task, now map[string]string) taskdef.Task {
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

// avoids reports whether the digest of a reference is known to be bad. A nil book
// knows none.
func (b *digestBook) avoids(ref, digest string) bool {
	return b != nil && digest != "" && b.Bad[ref] == digest
}

// bookFile is where the digests of a task's name are.
func (s *session) bookFile(name string) string {
	return filepath.Join(s.stateDir, "updates", name+".json")
}

// openBook reads it. One that cannot be read is begun anew: all that is lost is
// what to go back to.
func (s *session) openBook(name string) *digestBook {
	b := &digestBook{}
	data, err := os.ReadFile(s.bookFile(name))
	if err == nil {
		err = json.Unmarshal(data, b)
	}
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.warn("the digests of earlier updates are lost: %v", err)
		}
		b = &digestBook{}
	}
	if b.Good == nil {
		b.Good = map[string]string{}
	}
	if b.Bad == nil {
		b.Bad = map[string]string{}
	}
	return b
}

func (s *session) saveBook(name string, b *digestBook) error {
	data, err := json.Marshal(b)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(s.bookFile(name)), 0o700)
	}
	if err == nil {
		err = writeWhole(s.bookFile(name), data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("remember the digests of %s: %w", name, err)
	}
	return nil
}
