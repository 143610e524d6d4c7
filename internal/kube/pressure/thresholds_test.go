package pressure

import (
	"strings"
	"testing"
)

func FuzzParseThresholds(f *testing.F) {
	f.Add(DefaultThresholds)
	f.Fuzz(func(t *testing.T, text string) {
		all, err := ParseThresholds(text)
		for _, s := range all {
			if least := s.least(1000); err == nil && least < 0 {
				t.Errorf("%q: at least %d", text, least)
			}
		}
	})
}

func TestThresholds(t *testing.T) {
	t.Parallel()
	all, err := ParseThresholds(DefaultThresholds)
	if err != nil || len(all) != 4 {
		t.Fatalf("%v, %v", all, err)
	}
	levels := map[Signal]Level{
		MemoryAvailable: {100<<20 - 1, 8 << 30}, DiskAvailable: {100, 1000}, InodesFree: {49, 1000}, // PIDs are not known
	}
	short := Shortages(levels, all)
	if len(short) != 2 || short[0] != (Shortage{MemoryAvailable, 100<<20 - 1, 100 << 20}) || short[1] != (Shortage{InodesFree, 49, 50}) {
		t.Errorf("short of %+v", short)
	}
	if got, want := (Shortage{MemoryAvailable, 53 << 20, 100 << 20}).Message(), "The node was low on resource: memory. Threshold quantity: 100Mi, available: 53Mi. "; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	_, err = ParseThresholds("memory.available<lots, imagefs.available<5%, pid.available<101%, nodefs.available, pid.available<1,pid.available<2")
	for _, want := range []string{`"lots"`, `"imagefs.available<5%"`, `"101%"`, `"nodefs.available"`, "pid.available is there twice"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %s in %v", want, err)
		}
	}
}
