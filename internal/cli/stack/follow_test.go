package stack

import (
	"context"
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/podtask/podtask/internal/engine/decide/stack"
	"github.com/podtask/podtask/internal/engine/run/stacks"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/taskdef"
)

// running is an agent with services.
type running struct {
	stacks.Agent
	services map[string]api.Service
}

func (r running) Service(_ context.Context, name string) (api.Service, error) {
	if s, found := r.services[name]; found {
		return s, nil
	}
	return api.Service{}, api.Failed(api.NotFound, "no service %s", name)
}

// The record of a stack has what automatic updates have deployed, and a plan says it and leaves it so.
func TestAutomaticUpdatesAreAdopted(t *testing.T) {
	t.Parallel()
	const one, two, three = "r/web:1@sha256:" + "1111111111111111", "r/web:1@sha256:" + "2222222222222222", "r/web:1@sha256:" + "3333333333333333"
	follows := []byte(`{"autoUpdate": "registry"}`)
	images := map[string]string{"r/web:1": one}
	s := stack.State{Name: "shop", Have: map[string]stack.Had{"gone": {Object: "shop-gone", Definition: "gone:1", Made: time.Unix(1, 0)}}, Current: stack.Revision{Number: 1, Members: []stack.Member{
		{Name: "web", Object: "shop-web", Kind: stack.Service, Request: follows, Images: images},
		{Name: "pinned", Object: "shop-pinned", Kind: stack.Service, Request: []byte(`{}`), Images: images},
		{Name: "gone", Object: "shop-gone", Kind: stack.Service, Request: follows, Images: images},
		{Name: "asleep", Object: "shop-asleep", Kind: stack.Service, Request: follows, Images: images},
	}}}
	before := s.Current.Members
	digests := map[string]string{"r/web:1": "sha256:2222222222222222"}
	k := call{agent: running{services: map[string]api.Service{"shop-web": {Digests: digests}, "shop-pinned": {Digests: digests}, "shop-gone": {Digests: digests, TaskDefinition: "else:1"}}}}
	updated, err := k.adopt(t.Context(), &s)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{two, one, one, one} {
		if got := s.Current.Members[i].Images["r/web:1"]; got != want || before[i].Images["r/web:1"] != one {
			t.Errorf("%s has %s, and before %v", s.Current.Members[i].Name, got, before[i].Images)
		}
	}
	m := &member{Member: stack.Member{Name: "web", Kind: stack.Service, Images: map[string]string{"r/web:1": three}}, Settings: &api.ServiceSettings{AutoUpdate: "registry"}}
	print, err := m.print("")
	if err != nil {
		t.Fatal(err)
	}
	(&wanted{Members: []*member{m}}).follow(s.Current, updated)
	if m.Images["r/web:1"] != two || len(m.Notes) != 2 || !strings.Contains(m.Notes[0], "r/web:1 was updated automatically: ") || !strings.Contains(m.Notes[1], "`podtask auto-update` deploys it") {
		t.Errorf("%v, %q", m.Images, m.Notes)
	}
	if now, err := m.print(""); err != nil || now != print {
		t.Errorf("an automatic update makes it another member: %v", err)
	}
}

// Automatic updates that cannot be are told before anything changes.
func TestAutomaticUpdatesThatCannotBe(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ policy, image, locked, want string }{
		{"registry", "r.example.org/web:1", "", ""},
		{"daily", "r.example.org/web:1", "", `auto-update is registry or none, not "daily"`},
		{"registry", "localhost/web:1", "", "there is nothing to follow"},
		{"registry", "r.example.org/web:1", "true", "leave one of them out"},
		{"none", "localhost/web:1", "true", ""},
	} {
		set := flag.NewFlagSet("", flag.ContinueOnError)
		set.String("locked", tt.locked, "")
		k := call{c: cli.NewContext(nil, set, nil)}
		m := &member{Member: stack.Member{Kind: stack.Service}, Settings: &api.ServiceSettings{AutoUpdate: tt.policy}, task: taskdef.Task{Containers: []taskdef.Container{{Image: tt.image}}}}
		if err := k.checkFollowing(m); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}
