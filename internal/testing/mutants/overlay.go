package mutants

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// switchEnv is the environment variable with the number of the mutant that is on,
// counted from one.
const switchEnv = "PODTASK_MUTANT"

// switchCode goes into every package with mutants.
const switchCode = `package %s

import (
	"os"
	"strconv"
)

var mutantOn, _ = strconv.Atoi(os.Getenv("` + switchEnv + `"))

func mutantValue[T any](n int, real, other T) T {
	if mutantOn == n {
		return other
	}
	return real
}

func mutantCall(n int, call func() error) error {
	if mutantOn == n {
		return nil
	}
	return call()
}
`

// edit inserts text into a file.
type edit struct {
	at     int
	text   string
	closes bool
	size   int // of what it encloses
}

// edits returns what makes mutant n a part of the code that can be switched on.
func edits(n int, m mutant, p place) []edit {
	from, to := p.file.offset(p.node.Pos()), p.file.offset(p.node.End())
	around := func(open, end string) []edit {
		return []edit{{at: from, text: open, size: to - from}, {at: to, text: end, closes: true, size: to - from}}
	}
	switch m.operation {
	case always:
		return around("(mutantOn == "+fmt.Sprint(n)+" || ", ")")
	case never:
		return around("(mutantOn != "+fmt.Sprint(n)+" && ", ")")
	case skip:
		return around("if mutantOn != "+fmt.Sprint(n)+" { ", " }")
	case omit:
		return around(fmt.Sprintf("mutantCall(%d, func() error { return ", n), " })")
	default:
		return around(fmt.Sprintf("mutantValue(%d, ", n), ", "+m.other+")")
	}
}

// apply makes edits to a text. Of those at one place, what encloses more is outside.
func apply(text []byte, all []edit) []byte {
	slices.SortStableFunc(all, func(a, b edit) int {
		if a.at != b.at {
			return cmp.Compare(a.at, b.at)
		}
		switch {
		case a.closes && b.closes:
			return cmp.Compare(a.size, b.size)
		case !a.closes && !b.closes:
			return cmp.Compare(b.size, a.size)
		case a.closes:
			return -1
		}
		return 1
	})
	var out strings.Builder
	last := 0
	for _, e := range all {
		out.Write(text[last:e.at])
		out.WriteString(e.text)
		last = e.at
	}
	out.Write(text[last:])
	return []byte(out.String())
}

// writeOverlay writes the files with all mutants into dir, and returns the path of the
// overlay for "go build -overlay" that puts them in place. Places that are not found
// are left out; they are found again, with their errors, by the caller.
func writeOverlay(s *sources, all []mutant, dir string) (path string, err error) {
	changes := make(map[*file][]edit)
	for i, m := range all {
		if p, err := s.find(m); err == nil {
			changes[p.file] = append(changes[p.file], edits(i+1, m, p)...)
		}
	}
	replace := make(map[string]string)
	write := func(original string, text []byte) error {
		name := filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		replace[original] = name
		return os.WriteFile(name, text, 0o600)
	}
	for f, e := range changes {
		if err := write(f.path, apply(f.text, e)); err != nil {
			return "", err
		}
		original := filepath.Join(filepath.Dir(f.path), "mutant_switch.go")
		if replace[original] != "" {
			continue
		}
		if err := write(original, fmt.Appendf(nil, switchCode, f.tree.Name.Name)); err != nil {
			return "", err
		}
	}
	doc, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, doc, 0o600)
}
