package statetest

import (
	"errors"
	"io/fs"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/state"
)

// ErrPowerLoss is returned by every operation after the power went.
var ErrPowerLoss = errors.New("statetest: power lost")

// Op names an operation on the disk, for Disk.Fault.
type Op string

// The operations that change the disk.
const (
	OpCreate  Op = "create"
	OpWrite   Op = "write"
	OpSync    Op = "sync"
	OpClose   Op = "close"
	OpRename  Op = "rename"
	OpRemove  Op = "remove"
	OpSyncDir Op = "syncdir"
)

// Disk is a state.FS in memory. It knows what a power loss may undo: content
// that was not synced, and names whose directory was not synced. Directories
// themselves are durable at once, as state.FS demands. It is for one goroutine.
type Disk struct {
	// Fault, if set, is asked before each changing operation; an error it
	// returns is the operation's result, and nothing is changed. A write that
	// fails leaves half of its bytes.
	Fault func(op Op, name string) error

	ops     int // changing operations so far
	powerAt int // power goes before this operation; -1: never
	dirs    map[string]bool
	names   map[string]*inode // as the running system sees them
	durable map[string]*inode // as of the last SyncDir
	pending []change          // since then, in order
}

type inode struct {
	data   []byte
	synced []byte // content that survives
}

// change is one change of directory entries; a journal keeps or loses it whole.
type change struct {
	remove string // "" for none
	add    string
	node   *inode
}

var _ state.FS = (*Disk)(nil)

// NewDisk returns an empty disk whose power goes before changing operation
// number powerAt, counted from 0; negative: never.
func NewDisk(powerAt int) *Disk {
	return &Disk{
		powerAt: powerAt,
		dirs:    make(map[string]bool),
		names:   make(map[string]*inode),
		durable: make(map[string]*inode),
	}
}

// Ops returns how many changing operations were made.
func (d *Disk) Ops() int { return d.ops }

// Off tells whether the power went.
func (d *Disk) Off() bool { return d.powerAt >= 0 && d.ops > d.powerAt }

// begin counts an operation and decides its fate.
func (d *Disk) begin(op Op, name string) error {
	d.ops++
	if d.Off() {
		return ErrPowerLoss
	}
	if d.Fault != nil {
		return d.Fault(op, name)
	}
	return nil
}

// MkdirAll implements state.FS.
func (d *Disk) MkdirAll(dir string) error {
	d.dirs[filepath.Clean(dir)] = true
	return nil
}

// Create implements state.FS.
func (d *Disk) Create(name string) (state.File, error) {
	if err := d.begin(OpCreate, name); err != nil {
		return nil, err
	}
	node, ok := d.names[name]
	if !ok {
		node = &inode{}
		d.names[name] = node
		d.pending = append(d.pending, change{add: name, node: node})
	}
	node.data = nil
	return &file{disk: d, name: name, node: node}, nil
}

// ReadFile implements state.FS.
func (d *Disk) ReadFile(name string) ([]byte, error) {
	if d.Off() {
		return nil, ErrPowerLoss
	}
	node, ok := d.names[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return slices.Clone(node.data), nil
}

// ReadDir implements state.FS.
func (d *Disk) ReadDir(dir string) ([]string, error) {
	if d.Off() {
		return nil, ErrPowerLoss
	}
	var names []string
	for name := range d.names {
		if filepath.Dir(name) == filepath.Clean(dir) {
			names = append(names, filepath.Base(name))
		}
	}
	slices.Sort(names)
	return names, nil
}

// Rename implements state.FS.
func (d *Disk) Rename(from, to string) error {
	if err := d.begin(OpRename, from); err != nil {
		return err
	}
	node, ok := d.names[from]
	if !ok {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	delete(d.names, from)
	d.names[to] = node
	d.pending = append(d.pending, change{remove: from, add: to, node: node})
	return nil
}

// Remove implements state.FS.
func (d *Disk) Remove(name string) error {
	if err := d.begin(OpRemove, name); err != nil {
		return err
	}
	if _, ok := d.names[name]; !ok {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	delete(d.names, name)
	d.pending = append(d.pending, change{remove: name})
	return nil
}

// SyncDir implements state.FS. There being one journal, it makes the names of
// all directories durable.
func (d *Disk) SyncDir(dir string) error {
	if err := d.begin(OpSyncDir, dir); err != nil {
		return err
	}
	d.durable = maps.Clone(d.names)
	d.pending = nil
	return nil
}

// Set writes a file past all accounting, durable at once: to lay out a test.
func (d *Disk) Set(name string, data []byte) {
	node := &inode{data: slices.Clone(data), synced: slices.Clone(data)}
	d.names[name], d.durable[name] = node, node
}

// Afterwards yields every disk that may be found when the power returns: each
// change of names since the last SyncDir kept or lost on its own, and of each
// content that was not synced nothing, the first half, or all. The disks are
// independent of d and have power.
func (d *Disk) Afterwards() iter.Seq[*Disk] {
	return func(yield func(*Disk) bool) {
		for kept := range 1 << len(d.pending) {
			names := d.namesWith(kept)
			for choice := range d.contents(names) {
				if !yield(choice) {
					return
				}
			}
		}
	}
}

// namesWith returns the durable names and those pending changes whose bit is
// set in kept.
func (d *Disk) namesWith(kept int) map[string]*inode {
	names := maps.Clone(d.durable)
	for i, c := range d.pending {
		if kept&(1<<i) == 0 {
			continue
		}
		delete(names, c.remove)
		if c.add != "" {
			names[c.add] = c.node
		}
	}
	return names
}

// contents yields a disk for each combination of surviving contents.
func (d *Disk) contents(names map[string]*inode) iter.Seq[*Disk] {
	var unsynced []*inode
	for _, name := range slices.Sorted(maps.Keys(names)) {
		node := names[name]
		if !slices.Equal(node.data, node.synced) && !slices.Contains(unsynced, node) {
			unsynced = append(unsynced, node)
		}
	}
	total := 1
	for range unsynced {
		total *= 3
	}
	return func(yield func(*Disk) bool) {
		for n := range total {
			after := NewDisk(-1)
			after.dirs = maps.Clone(d.dirs)
			fate := make(map[*inode][]byte)
			for _, node := range unsynced {
				fate[node] = [][]byte{node.synced, node.data[:len(node.data)/2], node.data}[n%3]
				n /= 3
			}
			for name, node := range names {
				data, ok := fate[node]
				if !ok {
					data = node.synced
				}
				after.Set(name, data)
			}
			if !yield(after) {
				return
			}
		}
	}
}

// String lists the names, for messages.
func (d *Disk) String() string {
	return strings.Join(slices.Sorted(maps.Keys(d.names)), " ")
}

type file struct {
	disk *Disk
	name string
	node *inode
}

func (f *file) Write(p []byte) (int, error) {
	if err := f.disk.begin(OpWrite, f.name); err != nil {
		if errors.Is(err, ErrPowerLoss) {
			return 0, err
		}
		f.node.data = append(f.node.data, p[:len(p)/2]...)
		return len(p) / 2, err
	}
	f.node.data = append(f.node.data, p...)
	return len(p), nil
}

func (f *file) Sync() error {
	if err := f.disk.begin(OpSync, f.name); err != nil {
		return err
	}
	f.node.synced = slices.Clone(f.node.data)
	return nil
}

func (f *file) Close() error { return f.disk.begin(OpClose, f.name) }
