package hooks

import (
	"errors"
	"fmt"
	"slices"

	"github.com/podtask/podtask/internal/host/secretsource"
	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef/refs"
)

// Resolve returns a method whose Lambda functions and alarms have what a table answers them with.
// The error names each that has no entry, and one to add.
func Resolve(table refs.Table, m service.Method) (service.Method, error) {
	var errs []error
	m.Hooks = slices.Clone(m.Hooks)
	for i := range m.Hooks {
		h := &m.Hooks[i]
		if h.Target.Kind != service.HookLambda {
			continue
		}
		if err := answer(table, refs.OfFunction(h.Target.Value), &h.Target); err != nil {
			errs = append(errs, fmt.Errorf("the hook %s: %w", h.Name, err))
		}
	}
	m.Alarms.Alarms = slices.Clone(m.Alarms.Alarms)
	for i := range m.Alarms.Alarms {
		a := &m.Alarms.Alarms[i]
		if !m.Alarms.Enable || a.Target.Kind != service.HookLambda {
			continue
		}
		if err := answer(table, refs.OfAlarm(a.Name), &a.Target); err != nil {
			errs = append(errs, fmt.Errorf("the alarm %s: %w", a.Name, err))
		}
	}
	return m, errors.Join(errs...)
}

// answer fills in what a table has for a reference.
func answer(table refs.Table, r refs.Reference, t *service.HookTarget) error {
	t.Command, t.Source = nil, ""
	found, ok := table.Find(r)
	if !ok {
		return fmt.Errorf("nothing on this host answers %s: add to podtask.toml [[reference]] with match = %q and command = [\"/PROGRAM\"] or source = \"http://...\"", r.Name(), r.Name())
	}
	if isURL(found.Source) {
		t.Source = found.Source
		return nil
	}
	source, err := secretsource.Parse(found.Source)
	if err != nil || source.Kind != secretsource.Command {
		return fmt.Errorf("%s answers %s with %s, and only a command or an HTTP endpoint can: change the entry, or put one before it", table[found.Rule].Origin, r.Name(), table[found.Rule].Text())
	}
	t.Command = append([]string{source.Name}, source.Args...)
	return nil
}
