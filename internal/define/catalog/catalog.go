package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/internal/state"
)

// Status is that of a revision.
type Status string

// The statuses of ECS that a revision may have here.
const (
	Active   Status = "ACTIVE"
	Inactive Status = "INACTIVE"           // deregistered: still shown, never run by its family's name alone
	Deleting Status = "DELETE_IN_PROGRESS" // to be gone when nothing uses it
)

// Revision is one registered document.
type Revision struct {
	Family   string `json:"family"`
	Revision int    `json:"revision"`
	Status   Status `json:"status"`
	// Digest is that of what the document says (taskdef.Digest).
	Digest string `json:"digest"`
	// File is where the document was read, an absolute path or "stdin". Relative
	// paths in it count from Dir.
	File string `json:"file"`
	Dir  string `json:"dir"`
	// RegisteredAt and DeregisteredAt are in UTC.
	RegisteredAt   time.Time `json:"registeredAt"`
	DeregisteredAt time.Time `json:"deregisteredAt,omitzero"`
	// Content names the record of the document.
	Content string `json:"content"`
	// Kept is the id under which Podman keeps the secrets that belong to the document; empty
	// for none.
	Kept string `json:"kept,omitempty"`
}

// Document is a task definition to register. Its family, and that it is valid,
// the caller has found out.
type Document struct {
	Family string
	Digest string
	File   string
	Dir    string
	Source []byte
	// Kept is an id of Reserve.
	Kept string
}

// ErrNotFound is the error if there is no such family or revision. Errors that wrap it say
// which.
var ErrNotFound = errors.New("not registered")

// ErrActive is the error of a deletion: only an inactive revision can be deleted.
var ErrActive = errors.New("still active: deregister it first")

// Catalog holds the registered task definitions.
type Catalog struct {
	families, contents, kept *state.Store
	locks                    *state.Locks
}

// Open makes the directories below dir where they are missing.
func Open(dir string, fsys state.FS, locks *state.Locks) (*Catalog, error) {
	families, err := state.Open(filepath.Join(dir, "families"), fsys)
	if err != nil {
		return nil, err
	}
	contents, err := state.Open(filepath.Join(dir, "contents"), fsys)
	if err != nil {
		return nil, err
	}
	kept, err := state.Open(filepath.Join(dir, "kept"), fsys)
	if err != nil {
		return nil, err
	}
	return &Catalog{families, contents, kept, locks}, nil
}

// Register adds a document and returns its revision. Added is false for what an
// active revision of the family says already; the highest such one is returned.
func (c *Catalog) Register(ctx context.Context, d Document, at time.Time) (r Revision, added bool, err error) {
	err = c.change(ctx, d.Family, func(revisions []Revision) ([]Revision, error) {
		for _, old := range slices.Backward(revisions) {
			if old.Status == Active && old.Digest == d.Digest {
				r = old
				return nil, nil
			}
		}
		added = true
		r, revisions, err = c.append(revisions, d, at)
		return revisions, err
	})
	if err != nil {
		return Revision{}, false, fmt.Errorf("register %s: %w", d.Family, err)
	}
	return r, added, nil
}

// Add is Register, but the revision is always a new one, as ECS has it: its clients
// deregister the one before.
func (c *Catalog) Add(ctx context.Context, d Document, at time.Time) (r Revision, err error) {
	err = c.change(ctx, d.Family, func(revisions []Revision) ([]Revision, error) {
		r, revisions, err = c.append(revisions, d, at)
		return revisions, err
	})
	if err != nil {
		return Revision{}, fmt.Errorf("register %s: %w", d.Family, err)
	}
	return r, nil
}

// append adds a revision with the content of a document.
func (c *Catalog) append(revisions []Revision, d Document, at time.Time) (Revision, []Revision, error) {
	r := Revision{
		Family: d.Family, Revision: len(revisions) + 1, Status: Active, Digest: d.Digest,
		File: d.File, Dir: d.Dir, RegisteredAt: at.UTC(), Content: key(string(d.Source)), Kept: d.Kept,
	}
	if err := c.contents.Put(r.Content, d.Source); err != nil {
		return r, nil, err
	}
	return r, append(revisions, r), nil
}

// Deregister makes a revision inactive; one that is so already stays as it is.
func (c *Catalog) Deregister(ctx context.Context, ref Ref, at time.Time) (r Revision, err error) {
	err = c.change(ctx, ref.Family, func(revisions []Revision) ([]Revision, error) {
		found, err := find(revisions, ref)
		if err != nil {
			return nil, err
		}
		if found.Status != Active {
			r = found
			return nil, nil
		}
		changed := slices.Clone(revisions)
		r = found
		r.Status, r.DeregisteredAt = Inactive, at.UTC()
		changed[r.Revision-1] = r
		return changed, nil
	})
	if err != nil {
		return Revision{}, fmt.Errorf("deregister %s: %w", ref, err)
	}
	return r, nil
}

// Delete marks an inactive revision for deletion. Its number is not used again, and its
// document stays: what uses it may continue. The error is ErrActive or ErrNotFound.
func (c *Catalog) Delete(ctx context.Context, ref Ref) (r Revision, err error) {
	err = c.change(ctx, ref.Family, func(revisions []Revision) ([]Revision, error) {
		if r, err = find(revisions, ref); err != nil {
			return nil, err
		}
		if r.Status == Active {
			return nil, ErrActive
		}
		changed := slices.Clone(revisions)
		r.Status = Deleting
		changed[r.Revision-1] = r
		return changed, nil
	})
	if err != nil {
		return Revision{}, fmt.Errorf("delete %s: %w", ref, err)
	}
	return r, nil
}

// Find returns a revision and its document. Without a number the reference means
// the highest active revision. The error satisfies errors.Is(err, ErrNotFound)
// where there is none.
func (c *Catalog) Find(ref Ref) (Revision, []byte, error) {
	revisions, err := c.family(ref.Family)
	if err != nil {
		return Revision{}, nil, err
	}
	r, err := find(revisions, ref)
	if err != nil {
		return Revision{}, nil, err
	}
	src, err := c.contents.Get(r.Content)
	if err != nil {
		return Revision{}, nil, fmt.Errorf("read %s:%d: %w", r.Family, r.Revision, err)
	}
	return r, src, nil
}

// List returns all revisions, by family and number. A family that cannot be read
// is in the error; the others are returned all the same.
func (c *Catalog) List() ([]Revision, error) {
	var all []Revision
	var errs []error
	for record, err := range c.families.All(nil) {
		var revisions []Revision
		if err == nil {
			err = json.Unmarshal(record.Data, &revisions)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("list task definitions: %w", err))
			continue
		}
		all = append(all, revisions...)
	}
	slices.SortFunc(all, func(a, b Revision) int {
		if a.Family != b.Family {
			return strings.Compare(a.Family, b.Family)
		}
		return a.Revision - b.Revision
	})
	return all, errors.Join(errs...)
}

// change replaces the revisions of a family under its lock. Nil from f changes
// nothing.
func (c *Catalog) change(ctx context.Context, family string, f func([]Revision) ([]Revision, error)) error {
	lock, err := c.locks.LockWait(ctx, key(family))
	if err != nil {
		return err
	}
	defer lock.Unlock()
	revisions, err := c.family(family)
	if err != nil {
		return err
	}
	changed, err := f(revisions)
	if err != nil || changed == nil {
		return err
	}
	data, err := json.Marshal(changed)
	if err != nil {
		return err
	}
	return c.families.Put(key(family), data)
}

// family returns the revisions of a family in their order; none for an unknown
// one.
func (c *Catalog) family(family string) ([]Revision, error) {
	data, err := c.families.Get(key(family))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read family %s: %w", family, err)
	}
	var revisions []Revision
	if err := json.Unmarshal(data, &revisions); err != nil {
		return nil, fmt.Errorf("read family %s: %w", family, err)
	}
	return revisions, nil
}

func find(revisions []Revision, ref Ref) (Revision, error) {
	if ref.Revision > 0 {
		if ref.Revision > len(revisions) {
			return Revision{}, fmt.Errorf("%w: %s", ErrNotFound, ref)
		}
		return revisions[ref.Revision-1], nil
	}
	for _, r := range slices.Backward(revisions) {
		if r.Status == Active {
			return r, nil
		}
	}
	return Revision{}, fmt.Errorf("%w: %s has no active revision", ErrNotFound, ref)
}

// key is the name of a record: half of the digest, which is more than enough for
// what one user registers.
func key(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:16])
}

// Ref names a family, or a revision of one.
type Ref struct {
	Family   string
	Revision int // 0: the highest active one
}

var familyPattern = lazy.MustCompile(`^[A-Za-z0-9_-]+$`)

// maxRef is more than a reference can have: an ARN with a family of 255 letters.
const maxRef = 1024

// ParseRef reads FAMILY, FAMILY:REVISION, or the ARN of a task definition, of
// which the end counts.
func ParseRef(s string) (Ref, error) {
	if len(s) > maxRef {
		return Ref{}, fmt.Errorf("a text of %d bytes is not FAMILY or FAMILY:REVISION", len(s))
	}
	name := s
	if strings.HasPrefix(s, "arn:") {
		_, name, _ = strings.Cut(s, ":task-definition/")
	}
	family, number, numbered := strings.Cut(name, ":")
	r := Ref{Family: family}
	if len(family) > 255 || !familyPattern.MatchString(family) {
		return Ref{}, fmt.Errorf("%q is not FAMILY or FAMILY:REVISION", s)
	}
	if numbered {
		n, err := strconv.ParseUint(number, 10, 31)
		if err != nil || n == 0 || number[0] == '0' || number[0] == '+' {
			return Ref{}, fmt.Errorf("%q is not FAMILY:REVISION: a revision is a number from 1", s)
		}
		r.Revision = int(n)
	}
	return r, nil
}

// String is the inverse of ParseRef.
func (r Ref) String() string {
	if r.Revision == 0 {
		return r.Family
	}
	return fmt.Sprintf("%s:%d", r.Family, r.Revision)
}
