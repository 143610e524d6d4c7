package imagestore

import (
	"cmp"
	"context"
	"slices"

	"github.com/podtask/podtask/pkg/images"
	"github.com/podtask/podtask/pkg/images/imageage"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef"
)

// TakerOf returns under which name a task takes images: that of its unit or service, or its own.
func TakerOf(s lifecycle.State) string {
	switch {
	case s.Options.Service != "":
		return "service " + s.Options.Service
	case s.Options.Unit != "":
		return "unit " + s.Options.Unit
	}
	return "task " + cmp.Or(s.Name, s.Task.Family)
}

// OfService returns what takes images for a service: a task without an ID, with the tags that the service follows.
func OfService(s service.State) lifecycle.State {
	spec := s.Primary().Spec
	if s.Config.AutoUpdate != "" {
		spec.Task = spec.Tagged()
	}
	return lifecycle.State{Task: spec.Task, Options: lifecycle.Options{Service: s.Name, AutoUpdate: s.Config.AutoUpdate}}
}

// PolicyOf returns what a task demands of an update. The rules of the host hold for those that have a minimum age or are
// updated automatically.
func (r *Resolver) PolicyOf(s lifecycle.State) imageage.Policy {
	p := imageage.Policy{Age: r.MinimumAge}
	if text := s.Task.Extensions.MinimumAge; text != "" {
		if age, err := imageage.ParseAge(text); err == nil { // it was checked
			p.Age = age
		}
	}
	if p.Age > 0 || s.Options.AutoUpdate != "" {
		p.Rules = r.Rules
	}
	return p
}

// Followed is the digest that a task gets for a tag.
type Followed struct {
	// Digest is the one that it runs, New that of the tag now; the same unless it waits.
	Digest, New string
	imageage.Wait
}

// Follow returns the digest to which a reference resolves now, as Digest, and why it is not that of the tag.
func (r *Resolver) Follow(ctx context.Context, s lifecycle.State, ref string) (Followed, error) {
	i := slices.IndexFunc(s.Task.Containers, func(c taskdef.Container) bool { return c.Image == ref })
	if i < 0 {
		s.Task.Containers, i = []taskdef.Container{{Image: ref}}, 0
	}
	return r.resolve(ctx, s, lifecycle.ResolveImage{Index: i, Ref: ref}, false)
}

// TakeTags returns the digests that a task takes of the tags of its images, by container, and the errors of those that cannot be
// found out. Images that follow no tag of a registry are in neither.
func (r *Resolver) TakeTags(ctx context.Context, s lifecycle.State) (digests map[string]string, failed map[string]error) {
	digests, failed = map[string]string{}, map[string]error{}
	for i, c := range s.Task.Containers {
		if _, follows := ImageOf(c.Image); !follows {
			continue
		}
		switch f, err := r.resolve(ctx, s, lifecycle.ResolveImage{Index: i, Ref: c.Image}, true); {
		case err != nil:
			failed[c.Name] = err
		case f.Digest != "":
			digests[c.Name] = f.Digest
		}
	}
	return digests, failed
}

// Returned notes that a task has another digest of a tag than it took: it went back.
func (r *Resolver) Returned(ctx context.Context, s lifecycle.State, ref, digest string) error {
	i, follows := ImageOf(ref)
	if r.Sights == nil || !follows || !r.PolicyOf(s).Demands() {
		return nil
	}
	return r.Sights.Update(ctx, func(b imageage.Book) imageage.Book {
		return b.Take(i.Ref, TakerOf(s), digest, r.PolicyOf(s).Age)
	})
}

// Asker is a taker that asks for the digest of a tag.
type Asker struct {
	// Name is as TakerOf returns it.
	Name string
	// Has is the digest that it is known to run; empty for that of the book, and else that of the host's copy.
	Has string
	// Take: it will run what it gets.
	Take bool
}

// StackTaker and the name of a stack are the name under which that takes images.
const StackTaker = "stack "

// gate returns what a task gets of a tag that has a digest now. With take, it is written down that the task has it.
func (r *Resolver) gate(ctx context.Context, s lifecycle.State, ref images.Ref, digest string, take bool) Followed {
	return r.Adopt(ctx, Asker{Name: TakerOf(s), Take: take}, s, ref.String(), digest)
}

// Adopt returns what somebody gets of a tag for which the registry says digest, with the policy of a task.
func (r *Resolver) Adopt(ctx context.Context, a Asker, s lifecycle.State, image, digest string) Followed {
	policy := r.PolicyOf(s)
	i, follows := ImageOf(image)
	if r.Sights == nil || !policy.Demands() || !follows || digest == "" {
		return Followed{Digest: digest, New: digest}
	}
	if book, err := r.Sights.Read(); a.Has == "" && (err != nil || book.Tags[i.Ref].Takers[a.Name].Digest == "") {
		a.Has = r.localCopy(ctx, i.Ref, digest)
	}
	f := Followed{New: digest}
	decide := func(b imageage.Book) imageage.Book {
		now := r.Sights.Now()
		seen := b.See(i.Ref, digest, now)
		var decided imageage.Book
		if decided, f.Digest, f.Wait = seen.Decide(i, a.Name, a.Has, policy, now); a.Take {
			return decided
		}
		return seen
	}
	if err := r.Sights.Update(ctx, decide); err != nil {
		r.Log.Warn("an image cannot be written down as seen", "image", i.Ref, "error", err)
		if f.Digest == "" {
			decide(imageage.Book{})
		}
	}
	if f.Why != "" {
		r.Log.Info("an update waits", "for", a.Name, "image", i.Ref, "digest", f.Digest, "new", digest, "reason", f.Why)
	}
	return f
}

// localCopy returns the digest of the host's copy of a tag; empty for none. It is digest if the copy has that.
func (r *Resolver) localCopy(ctx context.Context, text, digest string) string {
	ref, err := images.ParseRef(text)
	if err != nil {
		return ""
	}
	image, err := r.localImage(ctx, text)
	if err != nil {
		return ""
	}
	if slices.Contains(image.RepoDigests, ref.At(digest)) {
		return digest
	}
	return r.localDigest(ref, image)
}

// held returns what a task has of a tag whose registry does not answer; false if it has nothing, or demands nothing.
func (r *Resolver) held(s lifecycle.State, ref images.Ref) (string, bool) {
	if r.Sights == nil || !r.PolicyOf(s).Demands() {
		return "", false
	}
	book, err := r.Sights.Read()
	digest := book.Tags[ref.String()].Takers[TakerOf(s)].Digest
	return digest, err == nil && digest != ""
}

// Allow lets a task have a digest of a tag, whatever its age.
func (r *Resolver) Allow(ctx context.Context, s lifecycle.State, ref, digest string) error {
	i, follows := ImageOf(ref)
	if r.Sights == nil || !follows || !r.PolicyOf(s).Demands() {
		return nil
	}
	return r.Sights.Update(ctx, func(b imageage.Book) imageage.Book {
		now := r.Sights.Now()
		return b.See(i.Ref, digest, now).Take(i.Ref, TakerOf(s), digest, r.PolicyOf(s).Age)
	})
}

// Look asks the registry for the digest of a tag that a task follows, with the credentials of its container that has the
// image, else with those of the user, and notes what it sees.
func (r *Resolver) Look(ctx context.Context, s lifecycle.State, image string) error {
	i, follows := ImageOf(image)
	at := slices.IndexFunc(s.Task.Containers, func(c taskdef.Container) bool { return c.Image == image })
	ref, err := images.ParseRef(image)
	if !follows || err != nil {
		return err
	}
	var own loginSource
	if at >= 0 {
		own = credentials(s, at)
	}
	login, err := r.login(ctx, own, ref)
	if err != nil {
		return err
	}
	res, err := r.Registry.Resolve(ctx, image, login)
	if err != nil || res.Digest == "" {
		return err
	}
	return r.Sights.Update(ctx, func(b imageage.Book) imageage.Book { return b.See(i.Ref, res.Digest, r.Sights.Now()) })
}

// Forget removes somebody who takes no images any more.
func (r *Resolver) Forget(ctx context.Context, name string) error {
	if book, err := r.Sights.Read(); err == nil && len(book.Tags) == 0 {
		return nil
	}
	return r.Sights.Update(ctx, func(b imageage.Book) imageage.Book { return b.Forget(name) })
}
