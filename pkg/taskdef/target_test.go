package taskdef

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTargets(t *testing.T) {
	t.Parallel()
	const size = `"networkMode": "awsvpc", "cpu": "256", "memory": "512",`
	for _, tt := range []struct {
		name, task, container string
		target                Target
		want                  []string // pointers of the problems
	}{
		{"fargate", size, ``, TargetFargate, nil},
		{"fargate with logs", size, `"logConfiguration": {"logDriver": "awslogs", "options": {"awslogs-group": "g", "awslogs-region": "r", "awslogs-stream-prefix": "p"}}, "stopTimeout": 120,`, TargetFargate, nil},
		{"fargate, logs to nowhere", size, `"logConfiguration": {"logDriver": "awslogs", "options": {"awslogs-group": "g"}},`, TargetFargate, []string{"/containerDefinitions/0/logConfiguration/options", "/containerDefinitions/0/logConfiguration/options"}},
		{"fargate, a network of its own", size, `"disableNetworking": true, "dnsServers": ["192.0.2.1"],`, TargetFargate, []string{"/containerDefinitions/0/disableNetworking", "/containerDefinitions/0/dnsServers"}},
		{"ec2, logs without a prefix", `"memory": "64",`, `"logConfiguration": {"logDriver": "awslogs", "options": {"awslogs-group": "g"}},`, TargetEC2, nil},
		{"fargate without anything", ``, ``, TargetFargate, []string{"", "", ""}},
		{"fargate, other drivers", size, `"logConfiguration": {"logDriver": "journald"},`, TargetFargate, []string{"/containerDefinitions/0/logConfiguration/logDriver"}},
		{"fargate, long stop", size, `"stopTimeout": 121,`, TargetFargate, []string{"/containerDefinitions/0/stopTimeout"}},
		{"fargate, start in a second", size, `"startTimeout": 1,`, TargetFargate, []string{"/containerDefinitions/0/startTimeout"}},
		{"fargate, what only a host has", size + `"pidMode": "host", "ipcMode": "task", "volumes": [{"name": "a", "host": {"sourcePath": "/a"}}, {"name": "b", "host": {}}],`,
			`"privileged": true, "linuxParameters": {"devices": [{"hostPath": "/dev/null"}], "sharedMemorySize": 64, "capabilities": {"add": ["SYS_PTRACE", "NET_ADMIN"]}}, "ulimits": [{"name": "nofile", "softLimit": 1, "hardLimit": 1}, {"name": "core", "softLimit": 1, "hardLimit": 1}],`,
			TargetFargate, []string{
				"/pidMode", "/ipcMode", "/volumes/0/host/sourcePath", "/containerDefinitions/0/privileged", "/containerDefinitions/0/linuxParameters/devices",
				"/containerDefinitions/0/linuxParameters/sharedMemorySize", "/containerDefinitions/0/linuxParameters/capabilities/add/1", "/containerDefinitions/0/ulimits/1/name",
			}},
		{"fargate, empty members", size + `"placementConstraints": [],`, `"links": [], "linuxParameters": {"devices": []},`, TargetFargate, nil},
		{"fargate, containers too big", size, `"cpu": 512,`, TargetFargate, []string{"/cpu"}},
		{"ec2 without memory", ``, ``, TargetEC2, []string{"/containerDefinitions/0"}},
		{"ec2", ``, `"memoryReservation": 64,`, TargetEC2, nil},
		{"ec2 with the task's memory", `"memory": "64",`, ``, TargetEC2, nil},
		{"ec2, storage of fargate", `"memory": "64", "ephemeralStorage": {"sizeInGiB": 30},`, ``, TargetEC2, []string{"/ephemeralStorage"}},
		{"no target", ``, `"privileged": true, "stopTimeout": 600,`, TargetNone, nil},
	} {
		_, _, err := Settings{Target: tt.target}.Parse("f", []byte(minimal(tt.task, tt.container)))
		var invalid *InvalidError
		if !errors.As(err, &invalid) {
			invalid = &InvalidError{}
		}
		if diff := cmp.Diff(tt.want, pointers(invalid.Problems)); diff != "" {
			t.Errorf("%s: %s%v", tt.name, diff, err)
		}
	}
}

func TestFargateSizes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		cpu, memory string
		ok          bool
	}{
		{"256", "512", true}, {"256", "1024", true}, {"256", "2 GB", true}, {"256", "3 GB", false}, {"256", "768", false},
		{"512", "512", false}, {"512", "1024", true}, {"512", "4096", true}, {"512", "5120", false},
		{"1 vCPU", "2 GB", true}, {"1 vCPU", "8 GB", true}, {"1 vCPU", "9 GB", false}, {"1 vCPU", "2049", false},
		{"2048", "4096", true}, {"2048", "16384", true}, {"2048", "17408", false},
		{"4096", "30720", true}, {"4096", "31744", false},
		{"8192", "16 GB", true}, {"8192", "20 GB", true}, {"8192", "18 GB", false}, {"8192", "60 GB", true},
		{"16384", "32 GB", true}, {"16384", "120 GB", true}, {"16384", "36 GB", false},
		{"128", "512", false}, {"300", "512", false},
	} {
		def := minimal(`"networkMode": "awsvpc", "cpu": "`+tt.cpu+`", "memory": "`+tt.memory+`",`, "")
		if _, _, err := (Settings{Target: TargetFargate}).Parse("f", []byte(def)); (err == nil) != tt.ok {
			t.Errorf("%s and %s: %v", tt.cpu, tt.memory, err)
		}
	}
}
