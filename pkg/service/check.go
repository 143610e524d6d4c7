package service

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/admission"
)

// MaxCount is the greatest desired count.
const MaxCount = 1000

// namePattern leaves room for the number of a task behind the name.
var namePattern = lazy.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_-]*$`)

// Validate returns everything that keeps a service from being run like this.
func Validate(name string, spec Spec, count int, c Config) error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(name) > 128 || !namePattern.MatchString(name) {
		refuse("the name %q is not one of 1 to 128 letters, digits, dashes and underscores that begins with a letter or a digit", name)
	}
	if count < 0 || count > MaxCount {
		refuse("the desired count is 0 to %d, not %d", MaxCount, count)
	}
	if d := c.HealthCheckGracePeriod; d < 0 || d > time.Hour*24 {
		refuse("the health check grace period is up to 24 h, not %s", d)
	}
	errs = append(errs, checkListeners(spec.Task, c)...)
	errs = append(errs, checkNames(spec.Task, c.Names)...)
	errs = append(errs, checkIngress(spec.Task, c)...)
	errs = append(errs, checkMethod(c)...)
	errs = append(errs, checkSleep(spec.Task, c)...)
	errs = append(errs, checkNumbered(spec, count, c)...)
	fixed := admission.NeedOf(spec.Task, false)
	if !c.Method.rolls() && fixed.Collides(fixed) {
		refuse("with the strategy %s two sets of copies run side by side, and they cannot both have port %s of this host: leave out hostPort (podtask chooses one), and give the service an address with a listener", c.Method.Strategy, fixed.Ports[0])
	} else if count > 1 && spec.Numbered == nil && fixed.Collides(fixed) {
		refuse("%d copies of %s cannot all have port %s of this host: leave out hostPort (podtask chooses one), or run 1", count, spec.TaskDefinition, fixed.Ports[0])
	}
	if b := c.Bounds; b != nil {
		if b.MinimumHealthyPercent < 0 || b.MinimumHealthyPercent > 100 || b.MaximumPercent < 100 {
			refuse("the minimum healthy percent is 0 to 100 and the maximum percent at least 100, not %d and %d", b.MinimumHealthyPercent, b.MaximumPercent)
		}
		least, most := c.limits(count)
		if spec.Numbered != nil {
			least, most = min(least, max(0, count-1)), count+1
		}
		switch {
		case count == 0 || !c.Method.rolls():
		case fixed.Collides(fixed) && least > 0:
			refuse("port %s of this host cannot belong to an old and a new copy at once, so the old one has to stop first: give a minimum healthy percent of 0, or leave out hostPort", fixed.Ports[0])
		case least >= count && most <= count:
			refuse("with a count of %d, at least %d and at most %d copies leave no room to replace one: lower the minimum healthy percent or raise the maximum percent", count, least, most)
		}
	}
	return errors.Join(errs...)
}

// Check returns what is wrong with a state that was loaded, or made by Step.
func Check(s State) error {
	if s.ID == "" || s.Name == "" || len(s.Deployments) == 0 || s.Status != Active && s.Status != Draining {
		return errors.New("id, name, status or deployments are missing")
	}
	for i, d := range s.Deployments {
		if d.Primary != (i == 0) {
			return fmt.Errorf("deployment %s is primary: %t, and number %d of the list", d.ID, d.Primary, i)
		}
	}
	ids, copies := make(map[string]bool), make(map[int]bool)
	for _, t := range s.Tasks {
		_, known := s.Deployment(t.Deployment)
		if t.Copy > 0 && t.present() {
			if copies[t.Copy] {
				return fmt.Errorf("task %d is the copy %d, as another task", t.Number, t.Copy)
			}
			copies[t.Copy] = true
		}
		switch {
		case ids[t.ID] || t.ID != s.TaskID(t.Number) || t.Number > s.LastTask:
			return fmt.Errorf("task %d has the id %s of another", t.Number, t.ID)
		case t.present() && !known:
			return fmt.Errorf("task %d is of deployment %s, which is not there", t.Number, t.Deployment)
		case !slices.Contains([]Phase{Wanted, Live, Stopping, Stopped, Removing}, t.Phase):
			return fmt.Errorf("task %d has the phase %q", t.Number, t.Phase)
		}
		ids[t.ID] = true
	}
	return checkHistory(s)
}
