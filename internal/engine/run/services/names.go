package services

import (
	"errors"
	"fmt"
	"slices"

	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef"
)

// checkChangedNames is checkNames for a change of a service: other names, or containers with other host names.
func (a *Services) checkChangedNames(name string, c Change) (service.State, error) {
	now, err := a.State(name)
	if err != nil {
		return now, err
	}
	task, config := now.Primary().Task, now.Config
	if c.Spec != nil {
		task = c.Spec.Task
	}
	if c.Config != nil {
		config = c.Config(config)
	}
	if err := a.checkNames(name, task, config.Names.Resolve(task)); err != nil {
		return now, &BadServiceError{err}
	}
	return now, nil
}

// checkNames returns what keeps a service from having its names beside the other services of the
// namespace: a name that another one has, or that tasks of another one resolve by themselves.
func (a *Services) checkNames(name string, t taskdef.Task, c service.Names) error {
	var errs []error
	for _, s := range a.States() {
		other := s.Config.Names
		if s.Name == name || c.Namespace == "" || other.Namespace != c.Namespace {
			continue
		}
		for _, n := range c.Offered {
			if slices.ContainsFunc(s.Offers(), func(o service.Offer) bool { return o.Name.Name == n.Name && o.Port == n.Port }) {
				errs = append(errs, fmt.Errorf("service %s has the name %s in namespace %s already", s.Name, n, c.Namespace))
			}
			if why := service.OwnHost(s.Primary().Task, n.Name); why != "" {
				errs = append(errs, fmt.Errorf("copies of service %s would not reach the name %s: %s", s.Name, n, why))
			}
		}
		for _, n := range other.Offered {
			if why := service.OwnHost(t, n.Name); why != "" {
				errs = append(errs, fmt.Errorf("copies of service %s would not reach the name %s of service %s: %s", name, n, s.Name, why))
			}
		}
	}
	return errors.Join(errs...)
}
