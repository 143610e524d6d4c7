package unit

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/service"
)

// followers returns the services that are updated automatically; those of these names if there are any.
func (o autoUpdateOptions) followers(names []string) (all []service.State, err error) {
	records, err := state.OpenIn(filepath.Join(o.stateDir, "services"), state.OS{})
	if err != nil {
		return nil, err
	}
	for r, err := range records.All(nil) {
		var s service.State
		if err != nil || json.Unmarshal(r.Data, &s) != nil || len(s.Deployments) == 0 {
			continue // the agent reports it
		}
		if s.Config.AutoUpdate != "" && s.Status == service.Active && (len(names) == 0 || slices.Contains(names, s.Name)) {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b service.State) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// updateService has the agent deploy what the tags of a service have. The error means that the check could not run.
func (o autoUpdateOptions) updateService(ctx context.Context, s service.State, now []string, dryRun bool) ([]updateRow, error) {
	st := imagestore.OfService(s)
	var rows []updateRow
	pending := false
	for _, c := range st.Task.Containers {
		spec := s.Primary().Spec
		if spec.Follows[c.Name] == "" {
			continue
		}
		_, digest, _ := strings.Cut(spec.ImageOf(c.Name), "@")
		if !dryRun && s.Steady {
			if err := o.images.Returned(ctx, st, c.Image, digest); err != nil {
				return rows, err
			}
		}
		f, err := o.images.Follow(ctx, st, c.Image)
		if err != nil {
			return rows, fmt.Errorf("service %s: %w", s.Name, err)
		}
		i, _ := imagestore.ImageOf(c.Image)
		asked := slices.Contains(now, i.Ref)
		if asked {
			f = imagestore.Followed{Digest: f.New, New: f.New}
		}
		r := rowOf(c.Name, c.Image, digest, f)
		r.Unit, r.Service, r.Task, r.Policy = "service "+s.Name, s.Name, s.Name, s.Config.AutoUpdate
		if f.Digest != "" && f.Digest != digest && (asked || !s.Rejected(c.Name, c.Image+"@"+f.Digest)) {
			r.Updated, r.New, pending = updatePending, f.Digest, true
		}
		rows = append(rows, r)
	}
	if !s.Steady && pending {
		for i := range rows {
			rows[i].Waits = "a deployment of the service is not complete"
		}
		return rows, nil
	}
	if dryRun || !pending {
		return rows, nil
	}
	return rows, o.deploy(ctx, s, st, rows)
}

// deploy begins a deployment of a service, and waits until it has ended, or a person is to decide about it.
func (o autoUpdateOptions) deploy(ctx context.Context, s service.State, st lifecycle.State, rows []updateRow) error {
	client, err := o.owners.RequireAgent(ctx)
	if err != nil {
		return fmt.Errorf("service %s: %w", s.Name, err)
	}
	defer client.Close()
	for _, r := range rows {
		if r.Updated == updatePending {
			if err := o.images.Allow(ctx, st, r.Image, r.New); err != nil {
				return err
			}
		}
	}
	fmt.Fprintf(o.errOut, "updating service %s\n", s.Name)
	last, err := client.UpdateService(ctx, s.Name, api.ServiceUpdate{TaskDefinition: s.Primary().TaskDefinition, KeepChanges: true})
	if err != nil {
		return fmt.Errorf("service %s: %w", s.Name, err)
	}
	begun := last.Deployments[0].ID
	err = client.WatchService(ctx, s.Name, func(now api.Service) bool {
		last = now
		return !now.Steady && now.Deployments[0].RolloutState != string(service.Failed) && !paused(now)
	})
	if err != nil {
		return fmt.Errorf("service %s: %w", s.Name, err)
	}
	for i := range rows {
		r := &rows[i]
		switch {
		case r.Updated != updatePending:
		case last.Deployments[0].ID != begun:
			r.Updated = updateRolledBack
			o.keep(ctx, st, *r)
		case last.Steady:
			r.Updated, r.Digest = updateDone, r.New
		case paused(last):
			r.Waits = last.Why[0].Text
		default:
			r.Updated = updateFailed
		}
	}
	return nil
}

// keep notes that a service has the image that it had before an update.
func (o autoUpdateOptions) keep(ctx context.Context, st lifecycle.State, r updateRow) {
	if err := o.images.Returned(ctx, st, r.Image, r.Digest); err != nil {
		o.warn("%v", err)
	}
}

// paused reports whether a deployment waits for a person.
func paused(s api.Service) bool {
	return len(s.Why) > 0 && s.Why[0].Code == service.WhyPause
}
