//go:build e2e

package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// bits is the mask of capabilities by number, as /proc/self/status prints it.
func bits(numbers ...int) string {
	mask := uint64(0)
	for _, n := range numbers {
		mask |= 1 << n
	}
	return fmt.Sprintf("%016x", mask)
}

// docker are the numbers of the capabilities that Docker gives: chown,
// dac_override, fowner, fsetid, kill, setgid, setuid, setpcap, net_bind_service,
// net_raw, sys_chroot, mknod, audit_write, setfcap.
var docker = []int{0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31}

func without(numbers []int, n int) (out []int) {
	for _, m := range numbers {
		if m != n {
			out = append(out, m)
		}
	}
	return out
}

const sysPtrace, netRaw = 19, 13

// Row 32 is among them.
func TestContainersGetWhatTheirDefinitionsAskOfTheKernel(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	caps := words("status CapEff -- status CapAmb")
	change := func(add, drop []string) obj { return obj{"capabilities": obj{"add": add, "drop": drop}} }
	b.want(0, "run", "--quiet", "--name", b.family, b.define(allOf(
		ctr{Name: "default", Command: caps},
		ctr{Name: "changed", Command: caps, More: obj{"linuxParameters": change([]string{"SYS_PTRACE"}, []string{"NET_RAW"})}},
		ctr{Name: "none", Command: caps, More: obj{"linuxParameters": change(nil, []string{"ALL"})}},
		ctr{Name: "user", Command: words("status CapEff -- where"), More: obj{"user": "7:8", "workingDirectory": "/tmp", "hostname": "somebody"}},
		ctr{Name: "confined", Command: words("status NoNewPrivs -- cannot write /f no -- mount /"), More: obj{
			"dockerSecurityOptions": []string{"no-new-privileges", "label:disable"}, "readonlyRootFilesystem": true,
		}},
		ctr{Name: "privileged", Command: words("status Seccomp"), More: obj{"privileged": true}},
		ctr{Name: "mounts", Command: words("mount /t -- size /t -- size /dev/shm -- cannot write /ro/f -- write /t/f -- exists /dev/null2"), More: obj{"linuxParameters": obj{
			"tmpfs":            []obj{{"containerPath": "/t", "size": 2, "mountOptions": []string{"noexec"}}, {"containerPath": "/ro", "size": 1, "mountOptions": []string{"ro"}}},
			"sharedMemorySize": 3, "devices": []obj{{"hostPath": "/dev/null", "containerPath": "/dev/null2", "permissions": []string{"read", "write"}}},
		}}},
		ctr{Name: "limits", Command: words("limit core -- limit fsize -- status SigQ"), More: obj{"ulimits": []obj{
			{"name": "core", "softLimit": 0, "hardLimit": 0}, {"name": "fsize", "softLimit": 1048576, "hardLimit": 2097152}, {"name": "nofile", "softLimit": 512, "hardLimit": 1024},
		}}},
		ctr{Name: "settings", Command: words("cat /proc/sys/net/core/somaxconn -- cat /proc/sys/kernel/shm_rmid_forced"), More: obj{"systemControls": []obj{
			{"namespace": "net.core.somaxconn", "value": "333"}, {"namespace": "kernel.shm_rmid_forced", "value": "1"},
		}}},
	)...))
	b.wantLines(b.family, "default", "CapEff="+bits(docker...), "CapAmb="+bits())
	b.wantLines(b.family, "changed", "CapEff="+bits(append(without(docker, netRaw), sysPtrace)...), "CapAmb="+bits())
	b.wantLines(b.family, "none", "CapEff="+bits(), "CapAmb="+bits())
	b.wantLines(b.family, "user", "CapEff="+bits(), "uid=7 gid=8 dir=/tmp host=somebody")
	if got := b.lines(b.family, "confined"); !strings.HasPrefix(got, "NoNewPrivs=1\ncannot write\n/ ") || !strings.HasSuffix(got, " ro") {
		t.Errorf("confined printed %s", got)
	}
	b.wantLines(b.family, "privileged", "Seccomp=0")
	b.wantLines(b.family, "mounts", "/t tmpfs rw", "/t 2097152", "/dev/shm 3145728", "cannot write")
	if got := b.lines(b.family, "limits"); !strings.HasPrefix(got, "core 0 0\nfsize 1048576 2097152\n") {
		t.Errorf("limits printed %s", got)
	}
	b.wantLines(b.family, "settings", "333\n\n1")
}

func TestReadonlyRootHasNoWritableSurprisesAndInitIsAnotherProcess(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.want(0, "run", "--quiet", "--name", b.family, b.define(allOf(
		ctr{Name: "readonly", Command: words("cannot write /tmp/f -- cannot write /run/f -- cannot write /var/tmp/f"), More: obj{"readonlyRootFilesystem": true}},
		ctr{Name: "init", Command: words("status Pid"), More: obj{"linuxParameters": obj{"initProcessEnabled": true}}},
	)...))
	if pid, err := strconv.Atoi(strings.TrimPrefix(b.lines(b.family, "init"), "Pid=")); err != nil || pid == 1 {
		t.Errorf("with an init process the program is %d, %v", pid, err)
	}
}

func TestUlimitAboveTheUsersIsRefusedOrLowered(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	path := b.define(ctr{Name: "app", More: obj{"ulimits": []obj{{"name": "nofile", "softLimit": 1024, "hardLimit": 2147483647}}}})
	r := b.want(125, "run", path)
	if !strings.Contains(r.err, "2147483647") || !strings.Contains(r.err, "this user's own of ") || !strings.Contains(r.err, "container app") {
		t.Errorf("it says %s", r.err)
	}
	if got := b.objects(); got != "" {
		t.Errorf("something was made: %s", got)
	}
	if r := b.want(0, "run", "--rm", "--clamp-ulimits", path); !strings.Contains(r.err, "the hard limit nofile is lowered from 2147483647") {
		t.Errorf("it says %s", r.err)
	}
}

func TestDeviceThatIsNotThereIsRefused(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	r := b.want(125, "run", b.define(ctr{Name: "app", More: obj{"linuxParameters": obj{"devices": []obj{{"hostPath": "/dev/no-such-device"}}}}}))
	if !strings.Contains(r.err, "/dev/no-such-device") {
		t.Errorf("it says %s", r.err)
	}
}

func TestTaskMaySharePIDAndIPCNamespaces(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	pair := func(more obj) string {
		return b.write(def{More: more, Containers: []ctr{
			{Name: "a", Command: words("write /dev/shm/f shared -- print there -- sleep forever"), More: obj{"linuxParameters": obj{"sharedMemorySize": 5}}},
			{Name: "b", Essential: optional, DependsOn: []on{{"a", "START"}}, Command: words("processes -- size /dev/shm -- wait /dev/shm/f")},
		}})
	}
	shared := b.detach(pair(obj{"pidMode": "task", "ipcMode": "task"}))
	b.await("b STOPPED")
	// The infra container, a and b itself.
	b.wantLines(shared, "b", "processes 3", "/dev/shm 5242880")
	b.want(0, "stop", "--time", "0", shared)
}

func TestNamespacesAreTheContainersOwnByDefault(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.want(0, "run", "--quiet", "--name", b.family, b.define(
		ctr{Name: "a", Essential: optional, Command: words("write /dev/shm/f mine -- processes")},
		ctr{Name: "b", DependsOn: []on{{"a", "SUCCESS"}}, Command: words("cannot exists /dev/shm/f -- processes")}))
	b.wantLines(b.family, "a", "processes 1")
	b.wantLines(b.family, "b", "cannot exists", "processes 1")
}

func TestPIDModeHostShowsTheUsersProcesses(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.want(0, "run", "--quiet", "--name", b.family, b.write(def{More: obj{"pidMode": "host"}, Containers: []ctr{{Name: "app", Command: words("status NSpid -- processes")}}}))
	if got := b.lines(b.family, "app"); strings.Contains(got, "NSpid=1\n") {
		t.Errorf("it printed %s", got)
	}
}

func TestIPCModeNoneSharesNothing(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.want(0, "run", "--quiet", b.write(def{More: obj{"ipcMode": "none"}, Containers: []ctr{
		{Name: "a", Essential: optional, Command: words("write /dev/shm/f mine")},
		{Name: "b", DependsOn: []on{{"a", "SUCCESS"}}, Command: words("cannot exists /dev/shm/f")},
	}}))
}
