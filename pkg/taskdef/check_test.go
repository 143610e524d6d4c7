package taskdef

import (
	"errors"
	"math"
	"testing"
	"time"
)

func TestCheckFindsEachBrokenInvariant(t *testing.T) {
	t.Parallel()
	valid := func() Task {
		task := chain(nil, []int{0})
		task.Containers[0].HealthCheck = &HealthCheck{[]string{"CMD-SHELL", "true"}, 30 * time.Second, 5 * time.Second, 3, 0, ""}
		task.Containers[0].Ports = []Port{{ContainerPort: 80, Protocol: "tcp"}}
		return task
	}
	if err := valid().Check(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Task){
		"no family":                   func(t *Task) { t.Family = "" },
		"bad family":                  func(t *Task) { t.Family = "a/b" },
		"no network mode":             func(t *Task) { t.Network = "" },
		"cpu not a number":            func(t *Task) { t.CPU = math.NaN() },
		"cpu infinite":                func(t *Task) { t.CPU = math.Inf(1) },
		"negative memory":             func(t *Task) { t.Memory = -1 },
		"no containers":               func(t *Task) { t.Containers = nil },
		"nothing essential":           func(t *Task) { t.Containers[0].Essential, t.Containers[1].Essential = false, false },
		"no name":                     func(t *Task) { t.Containers[0].Name = "" },
		"same name":                   func(t *Task) { t.Containers[0].Name = "b" },
		"no image":                    func(t *Task) { t.Containers[0].Image = "" },
		"upper-case image":            func(t *Task) { t.Containers[0].Image = "A" },
		"no stop timeout":             func(t *Task) { t.Containers[0].StopTimeout = 0 },
		"negative start timeout":      func(t *Task) { t.Containers[0].StartTimeout = -1 },
		"variable twice":              func(t *Task) { t.Containers[0].Environment = []EnvVar{{"A", ""}, {"A", ""}} },
		"variable without name":       func(t *Task) { t.Containers[0].Environment = []EnvVar{{"", ""}} },
		"reserved label":              func(t *Task) { t.Containers[0].Labels = map[string]string{"podtask.task-id": ""} },
		"dependency on none":          func(t *Task) { t.Containers[1].DependsOn[0].Container = 2 },
		"dependency below none":       func(t *Task) { t.Containers[1].DependsOn[0].Container = -1 },
		"dependency on itself":        func(t *Task) { t.Containers[1].DependsOn[0].Container = 1 },
		"dependency twice":            func(t *Task) { d := t.Containers[1].DependsOn; t.Containers[1].DependsOn = append(d, d...) },
		"unknown condition":           func(t *Task) { t.Containers[1].DependsOn[0].Condition = "CREATE" },
		"success of an essential":     func(t *Task) { t.Containers[1].DependsOn[0].Condition = Success },
		"health without check":        func(t *Task) { t.Containers[1].DependsOn[0].Condition, t.Containers[0].HealthCheck = Healthy, nil },
		"cycle":                       func(t *Task) { t.Containers[0].DependsOn = []Dependency{{1, Start}} },
		"fraction of a second":        func(t *Task) { t.Containers[0].HealthCheck.Interval += time.Millisecond },
		"health check without a word": func(t *Task) { t.Containers[0].HealthCheck.Command = nil },
		"port 0":                      func(t *Task) { t.Containers[0].Ports[0].ContainerPort = 0 },
		"unknown protocol":            func(t *Task) { t.Containers[0].Ports[0].Protocol = "sctp" },
		"other host port":             func(t *Task) { t.Network, t.Containers[0].Ports[0].HostPort = NetworkHost, 81 },
		"host port twice": func(t *Task) {
			t.Containers[0].Ports[0].HostPort = 8080
			t.Containers[1].Ports = t.Containers[0].Ports
		},
		"ports without network":     func(t *Task) { t.Network = NetworkNone },
		"soft memory above hard":    func(t *Task) { t.Containers[0].Memory, t.Containers[0].MemoryReservation = 8<<20, 9<<20 },
		"more memory than the task": func(t *Task) { t.Memory, t.Containers[0].Memory = 8<<20, 9<<20 },
		"negative cpu":              func(t *Task) { t.Containers[0].CPU = -1 },
		"relative directory":        func(t *Task) { t.Containers[0].WorkingDirectory = "srv" },
		"unknown PID mode":          func(t *Task) { t.PIDMode = "none" },
		"unknown IPC mode":          func(t *Task) { t.IPCMode = "all" },
		"volume without a kind":     func(t *Task) { t.Volumes = []Volume{{Name: "v"}} },
		"volume without a path":     func(t *Task) { t.Volumes = []Volume{{Name: "v", Kind: VolumeBind}} },
		"volume elsewhere":          func(t *Task) { t.Volumes = []Volume{{Name: "v", Kind: VolumeRemote}} },
		"mount of no volume":        func(t *Task) { t.Containers[0].Mounts = []Mount{{Volume: "v", Path: "/v"}} },
		"volumes from none":         func(t *Task) { t.Containers[0].VolumesFrom = []VolumesFrom{{Container: 2}} },
		"volumes from itself":       func(t *Task) { t.Containers[0].VolumesFrom = []VolumesFrom{{Container: 0}} },
		"volumes twice":             func(t *Task) { t.Containers[0].VolumesFrom = []VolumesFrom{{Container: 1}, {Container: 1}} },
		"volumes in a circle": func(t *Task) {
			t.Containers[0].VolumesFrom, t.Containers[1].VolumesFrom = []VolumesFrom{{Container: 1}}, []VolumesFrom{{Container: 0}}
		},
		"secret from nowhere": func(t *Task) {
			t.Containers[0].Secrets = []Secret{{Name: "S", SecretValue: SecretValue{ValueFrom: "x", ID: "x"}}}
		},
		"secret of no source": func(t *Task) {
			t.Containers[0].Secrets = []Secret{{Name: "S", SecretValue: SecretValue{ValueFrom: "x", Source: "x"}}}
		},
		"secret with a part of no source": func(t *Task) {
			t.Containers[0].Secrets = []Secret{{Name: "S", Parts: []SecretPart{{Text: "a"}, {Secret: &SecretValue{ValueFrom: "x", Source: "x"}}}}}
		},
		"file of S3": func(t *Task) {
			t.Containers[0].EnvironmentFiles = []EnvironmentFile{{ValueFrom: "arn:aws:s3:::b/a.env"}}
		},
		"credentials from none":  func(t *Task) { t.Containers[0].RepositoryCredentials = &SecretValue{} },
		"link to none":           func(t *Task) { t.Containers[0].Net.Links = []Link{{Container: 5, Alias: "a"}} },
		"no address":             func(t *Task) { t.Containers[0].Net.DNSServers = []string{"dns"} },
		"unknown capability":     func(t *Task) { t.Containers[0].Linux.CapAdd = []string{"CAP_CHOWN"} },
		"device without rights":  func(t *Task) { t.Containers[0].Linux.Devices = []Device{{"/dev/null", "/dev/null", nil}} },
		"negative swap":          func(t *Task) { t.Containers[0].Linux.MaxSwap = new(int64); *t.Containers[0].Linux.MaxSwap = -1 },
		"unknown limit":          func(t *Task) { t.Containers[0].Linux.Ulimits = []Ulimit{{"x", 1, 1}} },
		"parameter of the host":  func(t *Task) { t.Containers[0].Linux.Sysctls = map[string]string{"kernel.panic": "1"} },
		"unknown log driver":     func(t *Task) { t.Containers[0].Log = &LogConfiguration{Driver: "paper"} },
		"restart at once":        func(t *Task) { t.Containers[0].Restart = &RestartPolicy{AttemptPeriod: time.Second} },
		"cpu limit not a number": func(t *Task) { t.Containers[0].Extensions.CPULimit = math.NaN() },
		"range backwards":        func(t *Task) { t.Containers[0].Ports[0].ContainerPortEnd = 79 },
		"range above the end": func(t *Task) {
			t.Containers[0].Ports[0] = Port{ContainerPort: 80, ContainerPortEnd: 90, HostPort: 65530, Protocol: "tcp"}
		},
	} {
		task := valid()
		spoil(&task)
		var invalid *InvalidError
		if err := task.Check(); !errors.As(err, &invalid) || len(invalid.Problems) == 0 {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}
