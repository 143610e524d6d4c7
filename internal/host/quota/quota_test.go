package quota_test

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/internal/host/quota"
)

func host(files map[string]string) fstest.MapFS {
	root := fstest.MapFS{}
	for name, text := range files {
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return root
}

func TestKeysAreThoseOfTheUser(t *testing.T) {
	t.Parallel()
	root := host(map[string]string{
		"proc/sys/kernel/keys/maxkeys": "200\n", "proc/sys/kernel/keys/maxbytes": "20000\n",
		"proc/sys/kernel/keys/root_maxkeys": "1000000\n", "proc/sys/kernel/keys/root_maxbytes": "25000000\n",
		"proc/key-users": "    0:    12 11/11 9/1000000 180/25000000\n 1000:     5 5/5 4/200 62/20000\n10000: 1 1/1 1/200 9/20000\n",
	})
	for uid, want := range map[int][]quota.Quota{
		1000: {{Name: "kernel.keys.maxkeys", Most: 200, Used: 4}, {Name: "kernel.keys.maxbytes", Most: 20000, Used: 62}},
		1001: {{Name: "kernel.keys.maxkeys", Most: 200, Used: 0}, {Name: "kernel.keys.maxbytes", Most: 20000, Used: 0}},
		0:    {{Name: "kernel.keys.root_maxkeys", Most: 1000000, Used: 9}, {Name: "kernel.keys.root_maxbytes", Most: 25000000, Used: 180}},
	} {
		if diff := cmp.Diff(want, quota.Keys(root, uid)); diff != "" {
			t.Errorf("user %d: %s", uid, diff)
		}
	}
	if got := quota.Keys(host(nil), 1000); got != nil {
		t.Errorf("without the kernel's files: %v", got)
	}
	delete(root, "proc/key-users")
	if got := quota.Keys(root, 1000); len(got) != 2 || got[0].Used != quota.Unknown || got[0].Free() != 200 {
		t.Errorf("without the use: %v", got)
	}
}

func TestProcessesOfTheSliceAndTheManager(t *testing.T) {
	t.Parallel()
	root := host(map[string]string{
		"sys/fs/cgroup/user.slice/user-7.slice/pids.max":                    "100\n",
		"sys/fs/cgroup/user.slice/user-7.slice/pids.current":                "90\n",
		"sys/fs/cgroup/user.slice/user-7.slice/user@7.service/pids.max":     "max\n",
		"sys/fs/cgroup/user.slice/user-7.slice/user@7.service/pids.current": "80\n",
		"sys/fs/cgroup/user.slice/user-8.slice/user@8.service/pids.max":     "50\n",
	})
	if diff := cmp.Diff([]quota.Quota{{Name: "TasksMax of user-7.slice", Most: 100, Used: 90}}, quota.Processes(root, 7)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]quota.Quota{{Name: "TasksMax of user@8.service", Most: 50, Used: quota.Unknown}}, quota.Processes(root, 8)); diff != "" {
		t.Error(diff)
	}
}

func TestOpenFiles(t *testing.T) {
	t.Parallel()
	const head = "Limit                     Soft Limit           Hard Limit           Units     \n"
	limited, ok := quota.OpenFiles(host(map[string]string{"proc/self/limits": head + "Max open files            1024                 524288               files     \n"}))
	if !ok || limited.Most != 524288 || limited.Free() != 524288 {
		t.Errorf("%+v, %t", limited, ok)
	}
	for _, text := range []string{head, head + "Max open files            1024                 unlimited            files     \n", "Max open files\n"} {
		if q, ok := quota.OpenFiles(host(map[string]string{"proc/self/limits": text})); ok {
			t.Errorf("%q: %+v", text, q)
		}
	}
}

func FuzzKeys(f *testing.F) {
	f.Add("1000:  5 5/5 4/200 62/20000\n")
	f.Add("1000: a b c/d /\n")
	f.Fuzz(func(t *testing.T, text string) {
		root := host(map[string]string{"proc/sys/kernel/keys/maxkeys": "200", "proc/sys/kernel/keys/maxbytes": "20000", "proc/key-users": text})
		for _, q := range quota.Keys(root, 1000) {
			if q.Used < quota.Unknown || q.Free() < 0 || q.Free() > q.Most {
				t.Errorf("%+v", q)
			}
		}
	})
}
