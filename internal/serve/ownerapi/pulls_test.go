package ownerapi

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

type standings map[string]imagestore.Standing

func (s standings) Standing(image string) (imagestore.Standing, bool) {
	one, ok := s[image]
	return one, ok
}

func TestWhySaysHowMuchOfAnImageHasCome(t *testing.T) {
	t.Parallel()
	op := func(k lifecycle.Kind) lifecycle.Container {
		return lifecycle.Container{Op: lifecycle.Op{ID: 1, Kind: k, Since: time.Unix(1, 0)}}
	}
	var s lifecycle.State
	var all api.Task
	for _, c := range []struct {
		name string
		kind lifecycle.Kind
	}{{"known", lifecycle.Pull}, {"old", lifecycle.Pull}, {"next", lifecycle.Pull}, {"other", lifecycle.Pull}, {"made", lifecycle.Create}} {
		s.Task.Containers = append(s.Task.Containers, taskdef.Container{Name: c.name, Image: c.name + ":1"})
		s.Containers = append(s.Containers, op(c.kind))
		all.Why = append(all.Why, api.Reason{Code: lifecycle.WhyOperation, Container: c.name, Text: "podtask is working on " + c.name})
	}
	const library = "docker.io/library/"
	got := WithPulls(all, standings{
		library + "known:1": {Phase: imagestore.Pulling, Bytes: 46_000_000, Total: 70_000_000},
		library + "old:1":   {Phase: imagestore.Pulling},
		library + "next:1":  {Phase: imagestore.Waiting},
		library + "made:1":  {Phase: imagestore.Pulling, Bytes: 1, Total: 2}, // for another task
	}, s)
	var texts []string
	for _, r := range got.Why {
		texts = append(texts, r.Text)
	}
	want := []string{
		"podtask is working on known, 46 MB of 70 MB have come", "podtask is working on old", "the pull of next:1 for next begins when another pull has ended",
		"podtask is working on other", "podtask is working on made",
	}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Error(diff)
	}
	if all.Why[0].Text != "podtask is working on known" {
		t.Error("the reasons of the given task have changed")
	}
}
