package adapter

import (
	"strings"

	"github.com/podtask/podtask/pkg/taskdef/refs"
)

// Registries returns the host name that a registry of Cloud Map stands for by the table of references as it is then.
func Registries(rules func() (refs.Table, error)) func(arn string) (name string, ok bool) {
	return func(arn string) (string, bool) {
		table, err := rules()
		if err != nil {
			return "", false
		}
		found, ok := table.Find(refs.OfRegistry(arn))
		if !ok {
			return "", false
		}
		return strings.CutPrefix(found.Source, refs.NameSource)
	}
}
