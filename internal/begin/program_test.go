package begin

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestMappingsThatMayBeDropped(t *testing.T) {
	t.Parallel()
	entry := func(first, anonymous, swap string) string {
		return first + "\nSize:  8 kB\nAnonymous:   " + anonymous + " kB\nSwap:  " + swap + " kB\nSwapPss:   0 kB\nVmFlags: rd mr\n"
	}
	const file = "/opt/a b/podtask (deleted)"
	for name, tt := range map[string]struct {
		maps string
		want []mapping
	}{
		"text":               {entry("00401000-0177c000 r-xp 00001000 fe:00 247026      "+file, "0", "0"), []mapping{{0x401000, 0x177c000}}},
		"constants":          {entry("7f0000000000-7f0000001000 r--p 00001000 fe:00 247026      "+file, "0", "0"), []mapping{{0x7f0000000000, 0x7f0000001000}}},
		"data":               {entry("00401000-0177c000 rw-p 00001000 fe:00 247026      "+file, "0", "0"), nil},
		"relocated":          {entry("00401000-0177c000 r--p 00001000 fe:00 247026      "+file, "4", "0"), nil},
		"relocated, swapped": {entry("00401000-0177c000 r--p 00001000 fe:00 247026      "+file, "0", "4"), nil},
		"another file":       {entry("00401000-0177c000 r-xp 00001000 fe:00 247026      /usr/lib/libc.so.6", "0", "0"), nil},
		"no file":            {entry("00401000-0177c000 r-xp 00000000 00:00 0 ", "0", "0"), nil},
		"cut off":            {"00401000-0177c000 r-xp 00001000 fe:00 247026      " + file + "\nSize: 8 kB\n", nil},
		"nothing":            {"", nil},
		"the one between two": {
			entry("00401000-00402000 r--p 00000000 fe:00 1 "+file, "4", "0") + entry("00402000-00403000 r-xp 00001000 fe:00 1 "+file, "0", "0") + entry("00403000-00404000 rw-p 00002000 fe:00 1 "+file, "0", "0"),
			[]mapping{{0x402000, 0x403000}},
		},
	} {
		if got := unchanged([]byte(tt.maps), file); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %x, want %x", name, got, tt.want)
		}
	}
}

func TestProgramIsUnmapped(t *testing.T) {
	resident := func() int {
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(status), "RssFile:")
		kB, err := strconv.Atoi(strings.Fields(rest)[0])
		if err != nil {
			t.Fatal(err)
		}
		return kB
	}
	before := resident()
	unmapProgram()
	if after := resident(); after >= before {
		t.Errorf("%d kB of files are mapped, and were %d before", after, before)
	}
}
