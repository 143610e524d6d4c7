package taskdef

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMountsIncludeThoseOfOtherContainers(t *testing.T) {
	t.Parallel()
	task := Task{Containers: []Container{
		{Name: "a", Mounts: []Mount{{"x", "/x", false}, {"y", "/y", true}}},
		{Name: "b", Mounts: []Mount{{"z", "/x", false}}, VolumesFrom: []VolumesFrom{{Container: 0}}},
		{Name: "c", VolumesFrom: []VolumesFrom{{Container: 1, ReadOnly: true}, {Container: 0}}},
	}}
	for i, want := range [][]Mount{
		{{"x", "/x", false}, {"y", "/y", true}},
		{{"z", "/x", false}, {"y", "/y", true}}, // its own goes first
		{{"z", "/x", true}, {"y", "/y", true}},  // what the first takes over, read-only
	} {
		if diff := cmp.Diff(want, task.Mounts(i)); diff != "" {
			t.Errorf("container %d: %s", i, diff)
		}
	}
}

func TestNamesOfTheWholeTask(t *testing.T) {
	t.Parallel()
	db, api := Host{"db", "192.0.2.1"}, Host{"api", "192.0.2.2"}
	task := Task{Containers: []Container{
		{Net: ContainerNetwork{ExtraHosts: []Host{db}}},
		{Net: ContainerNetwork{ExtraHosts: []Host{api, db}, DNSServers: []string{"192.0.2.53"}}},
		{Net: ContainerNetwork{DNSSearch: []string{"example.com"}}},
	}}
	if diff := cmp.Diff([]Host{db, api}, task.ExtraHosts()); diff != "" {
		t.Error(diff)
	}
	servers, search := task.DNS()
	if diff := cmp.Diff([]string{"192.0.2.53", "example.com"}, append(servers, search...)); diff != "" {
		t.Error(diff)
	}
}

func TestMaxSizeOfLogs(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]int64{"": 0, "-1": 0, "10m": 10 << 20, "1G": 1 << 30, "512k": 512 << 10, "7": 7, "7b": 7, "2MB": 2 << 20} {
		if got := (LogConfiguration{Options: map[string]string{"max-size": in}}).MaxSize(); got != want {
			t.Errorf("%q is %d bytes, want %d", in, got, want)
		}
	}
	for _, in := range []string{"m", "0", "-2", "1.5m", "10x", "10mm", "99999999999999999999", "1099511627776g"} {
		if _, ok := parseSize(in); ok {
			t.Errorf("%q is a size", in)
		}
	}
}

func TestMountsDoNotHideProc(t *testing.T) {
	t.Parallel()
	for target, good := range map[string]bool{"/proc": false, "/proc/": false, "/proc/sys": false, "/proc/net/dev": true, "/host/proc": true, "/sys": true} {
		for member, entry := range map[string]string{
			"mountPoints":     `[{"sourceVolume": "v", "containerPath": "` + target + `"}]`,
			"linuxParameters": `{"tmpfs": [{"containerPath": "` + target + `", "size": 1}]}`,
		} {
			_, _, err := Parse("f", []byte(`{"family": "f", "volumes": [{"name": "v", "host": {"sourcePath": "/srv"}}],
				"containerDefinitions": [{"name": "c", "image": "x", "memory": 64, "`+member+`": `+entry+`}]}`))
			var invalid *InvalidError
			errors.As(err, &invalid)
			switch {
			case good && err != nil, !good && invalid == nil:
				t.Errorf("%s at %s: %v", member, target, err)
			case !good && (len(invalid.Problems) != 1 || !strings.HasSuffix(invalid.Problems[0].Pointer, "/containerPath") || invalid.Problems[0].Line == 0 || invalid.Problems[0].Fix == ""):
				t.Errorf("%s at %s: %+v", member, target, invalid.Problems)
			}
		}
	}
}
