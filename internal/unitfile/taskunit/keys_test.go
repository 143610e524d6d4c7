package taskunit

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The page for users has all keys, each with the flag of podtask run that it becomes,
// and no other; + stands behind those that may be repeated.
func TestThePageHasAllKeys(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/units.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `(\\w+)=`( \\+)? \\|([^|]*)\\|")
	var documented []string
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		name, many, flag := m[1], m[2] != "", strings.TrimSpace(m[3])
		documented = append(documented, name)
		i := slices.IndexFunc(keys, func(k key) bool { return k.name == name })
		if i < 0 {
			t.Errorf("there is no key %s", name)
			continue
		}
		if k := keys[i]; k.many != many || k.flag != "" && flag != "`--"+k.flag+"`" {
			t.Errorf("%s: the page says %q, may be repeated: %v; it becomes --%s, %v", name, flag, many, k.flag, k.many)
		}
	}
	for _, k := range keys {
		if !slices.Contains(documented, k.name) {
			t.Errorf("the page has no %s", k.name)
		}
	}
}

// Where this host has what a definition names: paths start in the directory of the unit.
func TestMappings(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ key, value, want string }{
		{"MapVolume", "files=data", "files=file:/units/data"},
		{"MapVolume", "files=%h/data", "files=file:%h/data"},
		{"MapVolume", "files=podman:files", "files=podman:files"},
		{"MapEnvironmentFile", "arn:aws:s3:::b/a.env=./a.env", "arn:aws:s3:::b/a.env=file:/units/a.env"},
		{"MapSecret", "/web/token=file:token", "/web/token=file:/units/token"},
		{"MapSecret", "arn:aws:ssm:*=command:/bin/pass show x", "arn:aws:ssm:*=command:/bin/pass show x"},
		{"MapSecret", "/web/token=token", ""},
		{"MapSecret", "/web/token", ""},
		{"CPUQuotaPeriodSec", "20ms", "20ms"},
		{"CPUQuotaPeriodSec", "0.5s", "0.5s"},
		{"CPUQuotaPeriodSec", "soon", ""},
	} {
		i := slices.IndexFunc(keys, func(k key) bool { return k.name == tt.key })
		e := entry{key: tt.key, value: tt.value}
		e.path = "/units/web.task"
		got, err := keys[i].read(e)
		if strings.Join(got, "|") != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s=%s: %q, %v", tt.key, tt.value, got, err)
		}
	}
}
