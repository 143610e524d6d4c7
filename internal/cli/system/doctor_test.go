package system

import (
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/host/doctor"
)

func TestDoctorIsShortAboutWhatIsOK(t *testing.T) {
	t.Parallel()
	all := []doctor.Finding{
		{Check: "keys", Level: doctor.OK, Text: "kernel.keys.maxkeys is 200, of which 4 are used; for more: sysctl", Fix: "raise it"},
		{Check: "bridge", Level: doctor.Warn, Text: "missing aardvark-dns", Fix: "apt-get install aardvark-dns"},
		{Check: "policy", Level: doctor.Fail, Text: "there is no policy"},
	}
	for verbose, want := range map[bool]string{
		false: "ok   keys: kernel.keys.maxkeys is 200, of which 4 are used\nwarn bridge: missing aardvark-dns; apt-get install aardvark-dns\nfail policy: there is no policy\n",
		true:  "ok   keys: kernel.keys.maxkeys is 200, of which 4 are used; for more: sysctl; raise it\nwarn bridge: missing aardvark-dns; apt-get install aardvark-dns\nfail policy: there is no policy\n",
	} {
		var out strings.Builder
		o := doctorOptions{out: &out, getenv: func(string) string { return "" }}
		if err := o.print(all, verbose); err != nil || out.String() != want {
			t.Errorf("verbose %t: %v\n%s", verbose, err, out.String())
		}
	}
	for want, some := range map[string][]doctor.Finding{
		"all 1 checks are ok":                        all[:1],
		"1 of 2 checks warn: bridge":                 all[:2],
		"1 of 1 checks fail: policy":                 all[2:],
		"1 of 3 checks fail: policy; 1 warn: bridge": all,
	} {
		if got := summary(some); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
