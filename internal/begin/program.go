package begin

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// unmapProgram takes the pages of the program's file out of the memory of this process. Most of them
// only initialization has used. They stay in the page cache, from where the kernel maps each again when it
// is used, and can be reclaimed there before the memory of busy processes. It is best effort.
func unmapProgram() {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return
	}
	for _, m := range unchanged(maps, self) {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, unix.MADV_DONTNEED)
	}
}

// mapping is a range of addresses.
type mapping struct{ start, end uintptr }

// unchanged returns the mappings of a file whose pages are all the file's: they cannot be written, and never were,
// as some of a position-independent program are when it starts. maps is in the format of /proc/self/smaps.
func unchanged(maps []byte, file string) (found []mapping) {
	var m, next mapping
	var ours bool
	for line := range strings.Lines(string(maps)) {
		line = strings.TrimSuffix(line, "\n")
		var mode string
		switch n, _ := fmt.Sscanf(line, "%x-%x %s", &next.start, &next.end, &mode); {
		case n == 3: // the first of a mapping; the others are a name and a value
			m, ours = next, !strings.Contains(mode, "w") && strings.HasSuffix(line, " "+file)
		case ours && written(line):
			ours = false
		case ours && strings.HasPrefix(line, "VmFlags:"): // the last
			found = append(found, m)
		}
	}
	return found
}

// written reports whether a line of a mapping says that it has pages that are not those of the file.
func written(line string) bool {
	name, value, _ := strings.Cut(line, ":")
	return (name == "Anonymous" || name == "Swap") && strings.TrimSpace(value) != "0 kB"
}
