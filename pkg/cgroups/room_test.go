package cgroups_test

import (
	"testing"
	"testing/fstest"

	"github.com/podtask/podtask/pkg/cgroups"
)

func TestRoomIsTheTightestOfHostAndUserSlices(t *testing.T) {
	t.Parallel()
	const meminfo = "MemTotal:        4194304 kB\nMemFree:  1 kB\n"
	slice := "sys/fs/cgroup/user.slice/user-7.slice/"
	tests := []struct {
		name  string
		files map[string]string
		want  cgroups.Room
	}{
		{"nothing is known", nil, cgroups.Room{CPU: 4096, Memory: -1, CPUFrom: "this host's processors", MemoryFrom: "no limit is known"}},
		{"no limits", map[string]string{"proc/meminfo": meminfo, slice + "cpu.max": "max 100000\n", slice + "memory.max": "max\n"},
			cgroups.Room{CPU: 4096, Memory: 4 << 30, CPUFrom: "this host's processors", MemoryFrom: "this host's memory"}},
		{"the user's slice", map[string]string{"proc/meminfo": meminfo, slice + "cpu.max": "150000 100000\n", slice + "memory.max": "1073741824\n"},
			cgroups.Room{CPU: 1536, Memory: 1 << 30, CPUFrom: "the limit of user-7.slice", MemoryFrom: "the limit of user-7.slice"}},
		{"a limit above what there is", map[string]string{"proc/meminfo": meminfo, slice + "cpu.max": "900000 100000\n", slice + "memory.max": "1099511627776\n"},
			cgroups.Room{CPU: 4096, Memory: 4 << 30, CPUFrom: "this host's processors", MemoryFrom: "this host's memory"}},
		{"the user manager's", map[string]string{"proc/meminfo": meminfo, slice + "memory.max": "1073741824\n", slice + "user@7.service/memory.max": "1048576\n"},
			cgroups.Room{CPU: 4096, Memory: 1 << 20, CPUFrom: "this host's processors", MemoryFrom: "the limit of user@7.service"}},
		{"damage", map[string]string{"proc/meminfo": "MemTotal: x kB\n", slice + "cpu.max": "1 0\n", slice + "memory.max": "\n"},
			cgroups.Room{CPU: 4096, Memory: -1, CPUFrom: "this host's processors", MemoryFrom: "no limit is known"}},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			root := fstest.MapFS{}
			for name, text := range c.files {
				root[name] = &fstest.MapFile{Data: []byte(text)}
			}
			if got := cgroups.RoomFor(root, 7, 4); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}
