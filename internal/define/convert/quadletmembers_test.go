package convert

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/define/members"
	"github.com/podtask/podtask/internal/unitfile/taskunit"
)

// TestEveryKeyOfQuadletHasARow enumerates the key tables in Podman's module.
func TestEveryKeyOfQuadletHasARow(t *testing.T) {
	t.Parallel()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/containers/podman/v5").Output()
	if err != nil {
		t.Skip(err)
	}
	src, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "pkg/systemd/quadlet/quadlet.go"))
	if err != nil {
		t.Fatal(err)
	}
	name := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\s+(Key\w+)\s+= "(\w+)"`).FindAllStringSubmatch(string(src), -1) {
		name[m[1]] = m[2]
	}
	name["KeyDecryptionKey"] = "DecryptionKey"
	keys := []string{"Volume.GID", "Volume.UID"} // of v6.0.2, which is another module
	section := ""
	for _, m := range regexp.MustCompile(`(?m)^\s+(?:GroupName:\s+(\w+)Group,|(Key\w+):\s+true,|(supportedQuadletKeys) = )`).FindAllStringSubmatch(string(src), -1) {
		switch {
		case m[1] != "":
			section = m[1]
		case m[3] != "":
			section = "Quadlet"
		case name[m[2]] == "":
			t.Errorf("%s has no text", m[2])
		default:
			keys = append(keys, section+"."+name[m[2]])
		}
	}
	var rows []members.Row
	for _, r := range QuadletFormat().Rows {
		if !strings.HasPrefix(r.Member, "Service.") && !strings.HasPrefix(r.Member, "Install.") {
			rows = append(rows, r)
		}
	}
	if len(keys) < 200 {
		t.Errorf("only %d keys found: has the file changed?", len(keys))
	}
	for _, p := range members.Problems(rows, keys) {
		t.Error(p)
	}
}

// What [Pod] says of the stop is of all containers that say nothing themselves, as StopTimeout= of [Task] is.
func TestStopTimeoutOfAPod(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ value, unit, lost string }{
		{"25", "\nStopTimeout=25\n", ""},
		{"0", "", "x.pod:2: [Pod] StopTimeout=0: "},
		{"1m", "", "x.pod:2: StopTimeout=1m is not a number"},
	} {
		r, err := Quadlet("x", []taskunit.File{
			taskunit.Read("/srv/q/x.container", "[Container]\nImage=a\nPod=x.pod\n"),
			taskunit.Read("/srv/q/x.pod", "[Pod]\nStopTimeout="+tt.value+"\n"),
		}, someUser)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(r.Unit, tt.unit) || tt.unit == "" && strings.Contains(r.Unit, "StopTimeout") {
			t.Errorf("%s: unit\n%s", tt.value, r.Unit)
		}
		if lost := strings.Join(r.Lost, "\n"); !strings.HasPrefix(lost, tt.lost) || tt.lost == "" && lost != "" {
			t.Errorf("%s: lost %q", tt.value, lost)
		}
	}
}

func TestQuotesOfAValue(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`"a b"`: "a b", `a "b"`: `a "b"`, `"a" b`: `"a" b`, `"a" "b"`: `"a" "b"`, `"`: `"`, `sh -c "test \"$(cat /tmp/f)\" = ok"`: `sh -c "test \"$(cat /tmp/f)\" = ok"`, `"a\"`: `"a\"`,
	} {
		if got := unquoted(value); got != want {
			t.Errorf("%s: %s", value, got)
		}
	}
	_, r := importQuadlet(t, "x.container", "[Container]\nImage=a\n[Install]\nWantedBy=multi-user.target\n")
	if len(r.Lost) != 1 || !strings.Contains(r.Unit, "WantedBy=default.target") {
		t.Errorf("%q\n%s", r.Lost, r.Unit)
	}
	_, r = importQuadlet(t, "x.container", "[Container]\nImage=a\n[Install]\nWantedBy=multi-user.target default.target\n")
	if len(r.Lost) != 0 || !strings.Contains(r.Unit, "multi-user.target default.target") {
		t.Errorf("%q\n%s", r.Lost, r.Unit)
	}
}
