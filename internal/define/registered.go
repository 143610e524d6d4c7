package define

import (
	"path/filepath"

	"github.com/podtask/podtask/internal/define/catalog"
	"github.com/podtask/podtask/internal/state"
)

// OpenCatalog opens the registered task definitions of a state directory. Command is named to others that wait for its locks.
func OpenCatalog(stateDir, command string) (*catalog.Catalog, error) {
	dir := filepath.Join(stateDir, "taskdefs")
	locks, err := state.OpenLocks(dir, state.Holder{Command: command})
	if err != nil {
		return nil, err
	}
	return catalog.Open(dir, state.OS{}, locks)
}

// Registered returns a registered revision as a document.
func Registered(r catalog.Revision, source []byte) Document {
	name := catalog.Ref{Family: r.Family, Revision: r.Revision}.String()
	return Document{Name: name, Dir: r.Dir, Source: source, Registered: true, Revision: r.Revision}
}
