package netns

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestInterfacesThatLeadOut(t *testing.T) {
	t.Parallel()
	link := "\n" + nearName + ": 4 1 0 0 0 0 0 0 6 1 0 0 0 0 0 0\n"
	if got := parseInterfaces([]byte(netDev + link)); !slices.Equal(got, []string{"tap0", "eth1"}) {
		t.Errorf("%q", got)
	}
}

func TestLookAndRun(t *testing.T) {
	t.Parallel()
	pid, host := namespace(t), Networks{}
	n, err := host.Look(pid)
	if own, ownErr := host.Look(os.Getpid()); err != nil || ownErr != nil || n.ID == own.ID || !strings.HasPrefix(n.ID, "net:[") || len(n.Interfaces) > 0 {
		t.Errorf("%+v %v beside %+v %v", n, err, own, ownErr)
	}
	if out, err := host.Run(t.Context(), pid, "input", "sh", "-c", `readlink /proc/self/ns/net; cat`); err != nil || out != n.ID+"\ninput" {
		t.Errorf("%q %v, want %s", out, err, n.ID)
	}
	_, err = host.Run(t.Context(), pid, "", "sh", "-c", "echo reasons; exit 3")
	if failed := new(ProgramError); !errors.As(err, &failed) || failed.Said != "reasons" || err.Error() != "sh: reasons" {
		t.Errorf("%v", err)
	}
	_, err = host.Run(t.Context(), pid, "", "no-such-program")
	if missing := new(MissingError); !errors.As(err, &missing) || missing.Program != "no-such-program" {
		t.Errorf("%v", err)
	}
	if _, err := host.Look(0); err == nil {
		t.Error("there is no process 0")
	}
}

func FuzzParseInterfaces(f *testing.F) {
	f.Add([]byte(netDev))
	f.Fuzz(func(_ *testing.T, text []byte) { parseInterfaces(text) })
}
