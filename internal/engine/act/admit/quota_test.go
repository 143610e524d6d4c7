package admit

import (
	"testing"
	"testing/fstest"

	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/pkg/admission"
)

func TestQuotasOfTheHost(t *testing.T) {
	t.Parallel()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	root := fstest.MapFS{
		"proc/sys/kernel/keys/maxkeys":                                        file("200\n"),
		"proc/sys/kernel/keys/maxbytes":                                       file("20000\n"),
		"proc/key-users":                                                      file("1000: 5 5/5 7/200 62/20000\n"),
		"proc/self/limits":                                                    file("Max open files            1024                 1064               files     \n"),
		"sys/fs/cgroup/user.slice/user-1000.slice/pids.max":                   file("300\n"),
		"sys/fs/cgroup/user.slice/user-1000.slice/pids.current":               file("40\n"),
		"sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/pids.max": file("max\n"),
	}
	settings, err := config.FromEnvironment(func(name string) string {
		return map[string]string{"PODTASK_BUDGET_CONTAINERS": "9"}[name]
	})
	if err != nil {
		t.Fatal(err)
	}
	b := admission.Budget{CPU: admission.Unlimited, Memory: admission.Unlimited, Quotas: quotasOf(settings, root, 1000)}
	for name, most := range map[string]int64{
		"PODTASK_BUDGET_CONTAINERS": 9, "kernel.keys.maxkeys": 200, "kernel.keys.maxbytes": 20000,
		"TasksMax of user-1000.slice": 300, "the hard limit on open files (ulimit -Hn), 1064, less 64 for podtask itself": 1000,
	} {
		found := false
		for _, q := range b.Quotas {
			found = found || q.Name == name && q.Most == most && q.Fix != ""
		}
		if !found {
			t.Errorf("no quota %s of %d in %+v", name, most, b.Quotas)
		}
	}
	if err := b.Refuse(admission.Need{Containers: 9}); err != nil {
		t.Errorf("what fits is refused: %v", err)
	}
	if err := b.Refuse(admission.Need{Containers: 250}); err == nil {
		t.Error("what fits in no quota is admitted")
	}
}
