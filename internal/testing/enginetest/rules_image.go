package enginetest

import (
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/transient"
)

// listed is what Images says of an image; false if nothing.
func (k *task) listed(id string) (m libpod.Image, found bool) {
	k.t.Helper()
	list, err := k.Images(k.ctx())
	k.must(err)
	i := slices.IndexFunc(list, func(m libpod.Image) bool { return m.ID == id })
	if i < 0 {
		return libpod.Image{}, false
	}
	return list[i], true
}

// twoNames pulls an image by its digest and gives it two tags, of two repositories.
func (k *task) twoNames() (id, ref, other string) {
	k.t.Helper()
	ref, digest := k.Publish(k.t)
	id, err := k.Pull(k.ctx(), mustRef(ref).At(digest), libpod.PullOptions{Insecure: true})
	k.must(err)
	other = mustRef(ref).Name() + "-too:2"
	k.must(k.Tag(k.ctx(), id, ref), k.Tag(k.ctx(), id, other))
	return id, ref, other
}

var imageRules = []rule{
	{"an image that is not there is NotFound", func(k *task) {
		_, err := k.Image(k.ctx(), "localhost/no/such/image:here")
		k.wantClass(err, libpod.NotFound)
	}},
	{"an image tells its health check", func(k *task) {
		m, err := k.Image(k.ctx(), k.Local(k.t))
		k.must(err)
		want := libpod.ImageHealth{Command: []string{"CMD", Program, "exit", "1"}, Interval: time.Second}
		if m.Health == nil || !reflect.DeepEqual(*m.Health, want) {
			k.t.Errorf("got %+v, want %+v", m.Health, want)
		}
	}},
	{"a pull by digest gives an image without a name", func(k *task) {
		ref, digest := k.Publish(k.t)
		name := mustRef(ref)
		id, err := k.Pull(k.ctx(), name.At(digest), libpod.PullOptions{Insecure: true})
		k.must(err)
		for _, by := range []string{id, name.At(digest)} {
			m, err := k.Image(k.ctx(), by)
			k.must(err)
			if m.ID != id || !slices.Contains(m.RepoDigests, name.At(digest)) || slices.Contains(m.Names, ref) || m.Size == 0 {
				k.t.Errorf("by %s: %+v", by, m)
			}
		}
		_, err = k.Image(k.ctx(), ref)
		k.wantClass(err, libpod.NotFound)
	}},
	{"tagging twice names the image", func(k *task) {
		ref, digest := k.Publish(k.t)
		id, err := k.Pull(k.ctx(), mustRef(ref).At(digest), libpod.PullOptions{Insecure: true})
		k.must(err)
		k.must(k.Tag(k.ctx(), id, ref), k.Tag(k.ctx(), id, ref))
		m, err := k.Image(k.ctx(), ref)
		k.must(err)
		if m.ID != id || !slices.Contains(m.Names, ref) {
			k.t.Errorf("%+v", m)
		}
	}},
	{"a tag is taken from the image that had it", func(k *task) {
		ref, digest := k.Publish(k.t)
		other, otherDigest := k.Publish(k.t)
		first, err := k.Pull(k.ctx(), mustRef(ref).At(digest), libpod.PullOptions{Insecure: true})
		k.must(err)
		second, err := k.Pull(k.ctx(), mustRef(other).At(otherDigest), libpod.PullOptions{Insecure: true})
		k.must(err)
		k.must(k.Tag(k.ctx(), first, ref), k.Tag(k.ctx(), second, ref))
		m, err := k.Image(k.ctx(), ref)
		k.must(err)
		if m.ID != second || first == second {
			k.t.Errorf("first %s, second %s, tagged %s", first, second, m.ID)
		}
		_, err = k.Image(k.ctx(), first)
		k.must(err)
	}},
	{"a pull by tag names the image and notes the digest", func(k *task) {
		ref, digest := k.Publish(k.t)
		id, err := k.Pull(k.ctx(), ref, libpod.PullOptions{Insecure: true})
		k.must(err)
		m, err := k.Image(k.ctx(), ref)
		k.must(err)
		if m.ID != id || !slices.Contains(m.Names, ref) || !slices.Contains(m.RepoDigests, mustRef(ref).At(digest)) {
			k.t.Errorf("%+v", m)
		}
	}},
	{"a pull that is repeated gives the same image", func(k *task) {
		ref, _ := k.Publish(k.t)
		first, err := k.Pull(k.ctx(), ref, libpod.PullOptions{Insecure: true})
		k.must(err)
		var lines int
		second, err := k.Pull(k.ctx(), ref, libpod.PullOptions{Insecure: true, Progress: func(libpod.Progress) { lines++ }})
		k.must(err)
		if first != second || lines == 0 {
			k.t.Errorf("first %s, second %s, %d lines of progress", first, second, lines)
		}
	}},
	{"a pull of what the registry does not have is NoImage", func(k *task) {
		ref, digest := k.Publish(k.t)
		missing := mustRef(ref)
		for _, name := range []string{missing.Name() + ":none", missing.Name() + "-none:1", missing.At(digest[:len(digest)-4] + "0000")} {
			_, err := k.Pull(k.ctx(), name, libpod.PullOptions{Insecure: true})
			k.wantClass(err, libpod.NoImage)
		}
	}},
	{"a pull of what is no reference fails for good", func(k *task) {
		_, err := k.Pull(k.ctx(), "Not A Reference", libpod.PullOptions{})
		var e *libpod.Error
		if !errors.As(err, &e) || transient.Is(e) {
			k.t.Errorf("got %v", err)
		}
	}},
	{"tagging with a digest is InvalidSpec", func(k *task) {
		ref, digest := k.Publish(k.t)
		id, err := k.Pull(k.ctx(), ref, libpod.PullOptions{Insecure: true})
		k.must(err)
		k.wantClass(k.Tag(k.ctx(), id, mustRef(ref).At(digest)), libpod.InvalidSpec)
	}},
	{"a canceled pull is Canceled", func(k *task) {
		ref, _ := k.Publish(k.t)
		_, err := k.Pull(k.canceled(), ref, libpod.PullOptions{Insecure: true})
		k.wantClass(err, libpod.Canceled)
	}},
	{"a container of a pulled image knows its id", func(k *task) {
		k.up()
		ref, _ := k.Publish(k.t)
		id, err := k.Pull(k.ctx(), ref, libpod.PullOptions{Insecure: true})
		k.must(err)
		s := k.spec("a", "exit 5")
		s.Image = id
		if o := k.wantExit(k.run(s), 5); o.ImageID != id {
			k.t.Errorf("image %s, container %+v", id, o)
		}
	}},
	{"the list has an image with its tags and how many containers use it", func(k *task) {
		k.up()
		id, ref, other := k.twoNames()
		m, found := k.listed(id)
		if want := []string{ref, other}; !found || !slices.Equal(slices.Sorted(slices.Values(m.Names)), slices.Sorted(slices.Values(want))) || m.Containers != 0 {
			k.t.Errorf("%+v, want names %q and no containers", m, want)
		}
		s := k.spec("a", "exit 0")
		s.Image = id
		k.create(s)
		if m, _ := k.listed(id); m.Containers != 1 {
			k.t.Errorf("%+v, want one container", m)
		}
	}},
	{"RemoveUnusedImage takes all names away, and twice is once", func(k *task) {
		id, ref, other := k.twoNames()
		m, _ := k.listed(id)
		k.must(k.RemoveUnusedImage(k.ctx(), m), k.RemoveUnusedImage(k.ctx(), m))
		for _, name := range []string{id, ref, other} {
			_, err := k.Image(k.ctx(), name)
			k.wantClass(err, libpod.NotFound)
		}
		if m, found := k.listed(id); found {
			k.t.Errorf("still listed: %+v", m)
		}
	}},
	{"RemoveUnusedImage leaves an image alone that a container is made of", func(k *task) {
		k.up()
		id, ref, other := k.twoNames()
		unused, _ := k.listed(id) // before the container
		s := k.spec("a", "exit 0")
		s.Image = id
		k.create(s)
		k.wantClass(k.RemoveUnusedImage(k.ctx(), unused), libpod.Conflict)
		for _, name := range []string{id, ref, other} {
			m, err := k.Image(k.ctx(), name)
			k.must(err)
			if m.ID != id {
				k.t.Errorf("%s is %s now, it was %s", name, m.ID, id)
			}
		}
		k.must(k.RemovePod(k.ctx(), k.pod.Name, k.id))
		k.must(k.RemoveUnusedImage(k.ctx(), unused))
	}},
	{"RemoveUnusedImage leaves other images and their tags alone", func(k *task) {
		id, ref, _ := k.twoNames()
		stays, staysRef, _ := k.twoNames()
		k.must(k.Tag(k.ctx(), stays, ref)) // the tag moves on before the removal
		m, _ := k.listed(id)
		k.must(k.RemoveUnusedImage(k.ctx(), m))
		for _, name := range []string{staysRef, ref} {
			m, err := k.Image(k.ctx(), name)
			k.must(err)
			if m.ID != stays {
				k.t.Errorf("%s is %s now, it was %s", name, m.ID, stays)
			}
		}
	}},
}
