package statetest

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/podtask/podtask/internal/state"
)

const (
	keyA = "0123456789abcdef0123456789abcdef"
	keyB = "fedcba9876543210fedcba9876543210"
	root = "/state"
)

// step is one call of the check's script; value 0 deletes.
type step struct {
	key   string
	value int
}

// script writes each key several times, with a deletion among them. Values of
// one key only grow, so that "older" and "newer" can be read off them.
var script = []step{
	{keyA, 1}, {keyB, 1}, {keyA, 2}, {keyA, 3}, {keyB, 0}, {keyA, 4}, {keyB, 5}, {keyA, 6},
}

// Result counts what Check tried.
type Result struct {
	Losses int // moments at which the power went
	Disks  int // disks looked at afterwards
}

// Check runs a fixed script of writes and deletions on a store, once for every
// moment at which the power may go, and looks at every disk that may be found
// afterwards. The value of each key must be one between the last acknowledged
// and the last attempted, whole, and the store must work again. The first
// violation is returned.
//
// wrap stands between the store and the disk: the identity for the promise
// itself, a sabotage to see that Check would notice it.
func Check(wrap func(*Disk) state.FS) (Result, error) {
	var res Result
	for powerAt := 0; ; powerAt++ {
		disk := NewDisk(powerAt)
		acked, tried := play(wrap(disk))
		for after := range disk.Afterwards() {
			res.Disks++
			if err := inspect(wrap(after), acked, tried); err != nil {
				return res, fmt.Errorf("power lost before operation %d, found [%s]: %w", powerAt, after, err)
			}
		}
		if !disk.Off() {
			return res, nil
		}
		res.Losses++
	}
}

// play runs the script until the power goes. It returns, for each key, the
// number of script steps of that key acknowledged and attempted.
func play(fsys state.FS) (acked, tried map[string]int) {
	acked, tried = make(map[string]int), make(map[string]int)
	store, err := state.Open(root, fsys)
	if err != nil {
		return acked, tried
	}
	for _, s := range script {
		tried[s.key]++
		if err := perform(store, s); err != nil {
			return acked, tried
		}
		acked[s.key] = tried[s.key]
	}
	return acked, tried
}

func perform(store *state.Store, s step) error {
	if s.value == 0 {
		return store.Delete(s.key)
	}
	return store.Put(s.key, content(s.value))
}

// content is long enough that half of it is not another value.
func content(value int) []byte {
	return []byte(strings.Repeat(strconv.Itoa(value), 8))
}

// inspect opens a store on what was found and checks each key.
func inspect(fsys state.FS, acked, tried map[string]int) error {
	store, err := state.Open(root, fsys)
	if err != nil {
		return err
	}
	for _, err := range store.All(nil) {
		if err != nil {
			return fmt.Errorf("walk: %w", err)
		}
	}
	for _, key := range []string{keyA, keyB} {
		data, err := store.Get(key)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("read: %w", err)
		}
		if !allowed(key, data, err == nil, acked[key], tried[key]) {
			return fmt.Errorf("key %.4s holds %q after %d of %d writes were acknowledged", key, data, acked[key], tried[key])
		}
		if err := store.Put(key, content(9)); err != nil {
			return fmt.Errorf("write again: %w", err)
		}
		if data, err := store.Get(key); err != nil || string(data) != string(content(9)) {
			return fmt.Errorf("read again: %q, %w", data, err)
		}
	}
	return nil
}

// allowed tells whether what was found is the outcome of step number acked of
// key or of a later one that was tried. Step 0 is: nothing there.
func allowed(key string, data []byte, found bool, acked, tried int) bool {
	outcomes := []int{0}
	for _, s := range script {
		if s.key == key {
			outcomes = append(outcomes, s.value)
		}
	}
	for _, value := range outcomes[acked : tried+1] {
		if value == 0 && !found || value != 0 && found && string(data) == string(content(value)) {
			return true
		}
	}
	return false
}
