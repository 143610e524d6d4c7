package enginesim

import (
	"errors"
	"syscall"
	"time"

	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/internal/state/statetest"
)

// doom is what befalls a process while it writes.
type doom int

const (
	none   doom = iota
	killed      // the process
	dark        // the power
)

// disk is where all processes keep their records.
type disk struct {
	*statetest.Disk
	w *world
	// doom has come in the middle of an operation: all further ones fail, until
	// the driver has drawn the consequence.
	doom      doom
	fullUntil time.Time
}

var _ state.FS = (*disk)(nil)

var errDoom = errors.New("the process is dead")

func newDisk(w *world) *disk {
	d := &disk{w: w}
	d.insert(statetest.NewDisk(-1))
	return d
}

// insert puts in what is found after a power loss.
func (d *disk) insert(in *statetest.Disk) {
	d.Disk = in
	in.Fault = func(statetest.Op, string) error { return d.fault() }
}

// fault decides about one operation that changes the disk.
func (d *disk) fault() error {
	switch {
	case d.doom != none:
		return errDoom
	case d.w.calm:
		return nil
	case d.w.clock.now.Before(d.fullUntil):
		return syscall.ENOSPC
	}
	switch d.w.r.IntN(1500) {
	case 0, 1, 2:
		d.doom = killed
		return errDoom
	case 3, 4:
		d.doom = dark
		return errDoom
	case 5:
		d.fullUntil = d.w.clock.now.Add(time.Duration(d.w.r.IntN(60)) * time.Second)
		return syscall.ENOSPC
	case 6:
		return syscall.EIO
	}
	return nil
}

// maxFound bounds the disks among which one is drawn. There are fewer as long as
// the store syncs what it writes.
const maxFound = 64

// lose is what a power loss does to the disk.
func (d *disk) lose() {
	var found []*statetest.Disk
	for after := range d.Afterwards() {
		if found = append(found, after); len(found) == maxFound {
			break
		}
	}
	d.insert(found[d.w.r.IntN(len(found))])
}
