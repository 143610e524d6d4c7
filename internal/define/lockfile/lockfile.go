// Package lockfile reads, writes and compares lockfiles: what the images of a task definition were at
// some moment, by digest, so that a run can use exactly them. It does no I/O except in Load and Save.
package lockfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/atomicfile"
	"github.com/podtask/podtask/internal/define/strictdoc"
	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/internal/userfile"
	"github.com/podtask/podtask/pkg/images"
	"github.com/podtask/podtask/pkg/taskdef"
	"go.yaml.in/yaml/v3"
)

// Extension is the end of the name of a lockfile.
const Extension = ".lock"

// Version is the version of the format.
const Version = 1

// File is the content of a lockfile.
type File struct {
	Version    int        `json:"version" yaml:"version" need:"true" min:"1" max:"1" doc:"version of this format"`
	Definition Definition `json:"definition" yaml:"definition" need:"true" doc:"the task definition that the lock was made of"`
	LockedAt   time.Time  `json:"lockedAt" yaml:"lockedAt" need:"true" doc:"when the digests were looked up"`
	LockedBy   string     `json:"lockedBy" yaml:"lockedBy" doc:"program and host that looked them up"`
	Images     []Image    `json:"images" yaml:"images" need:"true" doc:"an entry for each image of the definition"`
}

// Definition is the task definition that a lock was made of.
type Definition struct {
	File   string `json:"file" yaml:"file" need:"true" doc:"its file, as it was called"`
	Digest string `json:"digest" yaml:"digest" need:"true" doc:"digest of what it says; white space, the order of members, and JSON or YAML make no difference"`
}

// Image is an image of the definition, as it was when the lock was made.
type Image struct {
	Image     string `json:"image" yaml:"image" need:"true" doc:"the image as the definition has it, with the values of placeholders"`
	Reference string `json:"reference" yaml:"reference" need:"true" doc:"its full name"`
	From      string `json:"from" yaml:"from" need:"true" doc:"the registry that was asked, or the host whose local storage has the image"`
	Digest    string `json:"digest,omitempty" yaml:"digest,omitempty" doc:"digest in the repository: of the index if the image is for several platforms"`
	// Platforms has the digest of the manifest for each platform.
	Platforms map[string]string `json:"platforms,omitempty" yaml:"platforms,omitempty" doc:"digest of the manifest for each platform"`
	ID        string            `json:"id,omitempty" yaml:"id,omitempty" doc:"ID of an image that was built here"`
	OnlyHere  string            `json:"onlyHere,omitempty" yaml:"onlyHere,omitempty" doc:"remark of an image that no registry has"`
}

// NoOtherMachine is the remark of an image of localhost/.
const NoOtherMachine = "no other machine has this image: push it to a registry and name that, to run it elsewhere"

// Local reports whether the image is one of a host's local storage, which no registry has.
func (i Image) Local() bool { return i.ID != "" }

// Pinned returns the reference to run: NAME:TAG@DIGEST, or the name alone of a local image without a digest.
func (i Image) Pinned() string {
	name, _, _ := strings.Cut(i.Reference, "@")
	if i.Digest == "" {
		return name
	}
	return name + "@" + i.Digest
}

var (
	digestForm = lazy.MustCompile(`^sha256:[0-9a-f]{64}$`)
	idForm     = lazy.MustCompile(`^[0-9a-f]{64}$`)
)

// Check implements strictdoc.Checker.
func (d *Definition) Check(at strictdoc.Place) { checkDigest(at.At("digest"), d.Digest) }

// Check implements strictdoc.Checker.
func (i *Image) Check(at strictdoc.Place) {
	if _, err := images.ParseRef(i.Pinned()); err != nil {
		at.At("reference").Problem("", "%v", err)
	}
	if i.Digest == "" && i.ID == "" {
		at.Problem("", "the image has neither digest nor id")
	}
	if i.Digest != "" {
		checkDigest(at.At("digest"), i.Digest)
	}
	if i.ID != "" && !idForm.MatchString(i.ID) {
		at.At("id").Problem("", "an ID has 64 hexadecimal digits")
	}
	for platform, digest := range i.Platforms {
		if _, err := images.ParsePlatform(platform); err != nil {
			at.At("platforms").At(platform).Problem("", "%v", err)
		}
		checkDigest(at.At("platforms").At(platform), digest)
	}
}

func checkDigest(at strictdoc.Place, digest string) {
	if !digestForm.MatchString(digest) {
		at.Problem("", "a digest is sha256: and 64 hexadecimal digits")
	}
}

// Check implements strictdoc.Checker.
func (f *File) Check(at strictdoc.Place) {
	seen := make(map[string]bool)
	for i, image := range f.Images {
		if seen[image.Image] {
			at.At("images").Item(i).Problem("remove one of them", "%s is here twice", image.Image)
		}
		seen[image.Image] = true
	}
}

// Parse reads a lockfile. Name is the file in messages. The error is a *strictdoc.InvalidError.
func Parse(name string, src []byte) (File, error) {
	var f File
	if problems := strictdoc.Decode(name, src, &f); len(problems) > 0 {
		return File{}, &strictdoc.InvalidError{Kind: "lockfile", File: name, Problems: problems, Fix: "`podtask lock` writes a new one"}
	}
	return f, nil
}

// Path returns where the lock of a definition is: beside it.
func Path(definition string) string {
	return strings.TrimSuffix(definition, filepath.Ext(definition)) + Extension
}

// maxSize is more than the parser accepts.
const maxSize = 2 << 20

// ErrMissing is the error for a path at which there is no lockfile.
var ErrMissing = errors.New("there is no lockfile")

// Load reads the lockfile at a path.
func Load(path string) (File, error) {
	f, err := userfile.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return File{}, fmt.Errorf("%s: %w: `podtask lock` makes it", path, ErrMissing)
	}
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return File{}, err
	}
	if len(src) > maxSize {
		return File{}, fmt.Errorf("%s has more than %d bytes, which no lockfile has", path, maxSize)
	}
	return Parse(path, src)
}

// Save writes the lockfile whole or not at all.
func (f File) Save(path string) error {
	text, err := f.Text()
	if err != nil {
		return err
	}
	return atomicfile.Write(path, text, 0o644)
}

// Text returns the lockfile as YAML.
func (f File) Text() ([]byte, error) {
	f.Version = Version
	body, err := yaml.Marshal(f)
	head := "# Written by `podtask lock`; `podtask run --locked` and `podtask pull --locked` use exactly these images.\n" +
		"# Keep it beside " + strings.Join(strings.Fields(filepath.Base(f.Definition.File)), " ") + " in version control.\n"
	return append([]byte(head), body...), err
}

// Same reports whether two locks say the same about the definition and its images.
func (f File) Same(o File) bool { return len(f.Differences(o)) == 0 }

// Difference is what differs between a lock and what is now.
type Difference struct {
	// What is the definition or an image; Locked and Now are what the lock and the present say.
	What   string `json:"what"`
	Locked string `json:"locked"`
	Now    string `json:"now"`
}

// String returns the difference in one line, with both sides.
func (d Difference) String() string {
	return fmt.Sprintf("%s: locked %s, now %s", d.What, cmp.Or(d.Locked, "nothing"), cmp.Or(d.Now, "nothing"))
}

// Differences returns what differs between the lock f and now.
func (f File) Differences(now File) (all []Difference) {
	if f.Definition.Digest != now.Definition.Digest {
		all = append(all, Difference{"the definition", f.Definition.Digest, now.Definition.Digest})
	}
	for _, is := range now.Images {
		i := slices.IndexFunc(f.Images, func(l Image) bool { return l.Image == is.Image })
		switch {
		case i < 0:
			all = append(all, Difference{What: is.Image, Now: is.word()})
		case f.Images[i].word() != is.word():
			all = append(all, Difference{is.Image, f.Images[i].word(), is.word()})
		}
	}
	for _, was := range f.Images {
		if !slices.ContainsFunc(now.Images, func(l Image) bool { return l.Image == was.Image }) {
			all = append(all, Difference{What: was.Image, Locked: was.word()})
		}
	}
	return all
}

// word is what identifies the content of the image.
func (i Image) word() string {
	if i.Local() {
		return "ID " + i.ID
	}
	return i.Reference + "@" + i.Digest
}

// DifferenceError is a definition that is not the one of the lock.
type DifferenceError struct {
	Lock, Definition string // their files
	Differences      []Difference
}

func (e *DifferenceError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is not the lock of %s as it is now:", e.Lock, e.Definition)
	for _, d := range e.Differences {
		b.WriteString("\n  " + d.String())
	}
	fmt.Fprintf(&b, "\n`podtask lock %s` writes a new lock", e.Definition)
	return b.String()
}

// Apply compares a task and the digest of its definition with the lock, and returns the images to run, by the
// image as the task has it. Lock and definition are the files in messages. The error is a *DifferenceError, or an
// *images.Error if an image is not locked for the platform.
func (f File) Apply(lock, definition, digest string, t taskdef.Task, want images.Platform) (map[string]string, error) {
	changed := &DifferenceError{Lock: lock, Definition: definition}
	if f.Definition.Digest != digest {
		changed.Differences = append(changed.Differences, Difference{"the definition", f.Definition.Digest, digest})
	}
	pinned := make(map[string]string)
	var errs []error
	for _, image := range t.Images() {
		i := slices.IndexFunc(f.Images, func(l Image) bool { return l.Image == image })
		if i < 0 {
			changed.Differences = append(changed.Differences, Difference{What: "an image", Locked: f.names(), Now: image})
			continue
		}
		locked := f.Images[i]
		pinned[image] = locked.Pinned()
		if !locked.has(want) {
			errs = append(errs, fmt.Errorf("%s: %s is locked for %s, and this task needs it for %s", lock, image, strings.Join(locked.platforms(), ", "), want))
		}
	}
	if len(changed.Differences) > 0 {
		return nil, changed
	}
	return pinned, errors.Join(errs...)
}

func (f File) names() string {
	var names []string
	for _, i := range f.Images {
		names = append(names, i.Image)
	}
	return strings.Join(names, ", ")
}

func (i Image) platforms() []string {
	var all []string
	for p := range i.Platforms {
		all = append(all, p)
	}
	slices.Sort(all)
	return all
}

// has reports whether the image is locked for a platform. Variants are not compared, because their spelling
// differs more often than their meaning. An image without platforms is for all.
func (i Image) has(want images.Platform) bool {
	if len(i.Platforms) == 0 {
		return true
	}
	for _, text := range i.platforms() {
		if p, err := images.ParsePlatform(text); err == nil && p.OS == want.OS && p.Architecture == want.Architecture {
			return true
		}
	}
	return false
}

// SchemaID is the address of the schema of lockfiles.
const SchemaID = "https://raw.githubusercontent.com/podtask/podtask/main/docs/lockfile.schema.json"

// Schema returns the JSON Schema of lockfiles.
func Schema() map[string]any {
	return strictdoc.Schema(SchemaID, "Lockfile of podtask", "What `podtask lock` writes beside a task definition.", File{})
}
