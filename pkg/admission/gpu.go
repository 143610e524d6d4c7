package admission

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// chooseGPUs returns the devices that an entry gets: those that it had, otherwise the first
// that no other has.
func chooseGPUs(q Queue, b Budget, e Entry) []string {
	if len(e.GPUs) > 0 || e.Need.GPUs == 0 {
		return e.GPUs
	}
	return freeGPUs(q, b)[:e.Need.GPUs]
}

func freeGPUs(q Queue, b Budget) []string {
	var free []string
	for _, name := range b.GPUs {
		if _, held := gpuHolder(q, name); !held {
			free = append(free, name)
		}
	}
	return free
}

// gpuHolder returns the task that is in with a device.
func gpuHolder(q Queue, name string) (Entry, bool) {
	for _, e := range q.Entries {
		if e.Held && slices.Contains(e.GPUs, name) {
			return e, true
		}
	}
	return Entry{}, false
}

// gpuShortages are the GPUs that an entry lacks.
func gpuShortages(q Queue, b Budget, e Entry) []Shortage {
	if len(e.GPUs) > 0 {
		return heldGPUs(q, e)
	}
	free := freeGPUs(q, b)
	if e.Need.GPUs <= len(free) {
		return nil
	}
	s := Shortage{What: "gpu", Want: gpuText(e.Need.GPUs), Free: strconv.Itoa(len(free)), Of: strconv.Itoa(len(b.GPUs))}
	var taken []string
	for _, name := range b.GPUs {
		if h, held := gpuHolder(q, name); held {
			taken = append(taken, name)
			if label := h.label(); !slices.Contains(s.Holders, label) {
				s.Holders = append(s.Holders, label)
			}
		}
	}
	if len(taken) > 0 {
		s.Want += " such as " + taken[0]
	}
	return []Shortage{s}
}

// heldGPUs are those of an entry that another task is in with.
func heldGPUs(q Queue, e Entry) (short []Shortage) {
	for _, name := range e.GPUs {
		if h, held := gpuHolder(q, name); held && h.Task != e.Task {
			short = append(short, Shortage{What: "GPU " + name, Holders: []string{h.label()}})
		}
	}
	return short
}

func gpuText(n int) string {
	return strings.TrimSuffix(fmt.Sprintf("%d GPUs", n), map[bool]string{true: "s"}[n == 1])
}
