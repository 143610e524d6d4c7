package names

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/podtask/podtask/internal/atomicfile"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/netns"
)

// MaxNames is the number of names that a task can reach.
const MaxNames = 1000

// table has the names that a task was given. A name's address follows from its place, so names are
// only ever added.
type table struct {
	// Names are in the order of their addresses.
	Names []string `json:"names"`
	// Created is how many of them the first container was created with; nil before that. Others are created with as many, so that a creation
	// that is repeated makes the same container. The rest is added to /etc/hosts before a start.
	Created *int `json:"created,omitempty"`
}

// address is that of the name at a place of the table.
func address(place int) netip.Addr {
	a := netns.SideRange.Addr().As4()
	n := place + 1
	return netip.AddrFrom4([4]byte{a[0], a[1], a[2] + byte(n>>8), byte(n)})
}

// add adds the names that the table lacks and reports whether there were any.
func (t *table) add(names []string) (added bool) {
	for _, n := range names {
		if !slices.Contains(t.Names, n) && len(t.Names) < MaxNames {
			t.Names, added = append(t.Names, n), true
		}
	}
	return added
}

// of returns the address of a name.
func (t *table) of(name string) (netip.Addr, bool) {
	i := slices.Index(t.Names, name)
	if i < 0 {
		return netip.Addr{}, false
	}
	return address(i), true
}

func (d *Directory) file(id string) string { return filepath.Join(d.Dir, id+".json") }

// load reads the table of a task; an empty one if there is none.
func (d *Directory) load(id string) (t table, err error) {
	data, err := state.OS{}.ReadFile(d.file(id))
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &t)
	}
	if err != nil {
		return t, fmt.Errorf("names of task %s: %w", id, err)
	}
	return t, nil
}

// Lines returns the lines of /etc/hosts for all names that a task was given, with the tables in dir.
func Lines(dir, id string) (lines []string, err error) {
	known, err := (&Directory{Dir: dir}).load(id)
	for i, n := range known.Names {
		lines = append(lines, address(i).String()+"\t"+n)
	}
	return lines, err
}

// save writes the table of a task.
func (d *Directory) save(id string, t table) error {
	data, err := json.Marshal(t)
	if err == nil {
		err = os.MkdirAll(d.Dir, 0o700)
	}
	if err == nil {
		err = atomicfile.Write(d.file(id), data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("names of task %s: %w", id, err)
	}
	return nil
}

// Remove removes what is kept of a task that is removed.
func (d *Directory) Remove(id string) error {
	if d == nil {
		return nil
	}
	if err := os.Remove(d.file(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
