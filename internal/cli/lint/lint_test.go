package lint

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var findings = []Finding{
	{Level: Error, File: "a,b.json", Line: 3, Rule: "definition", Message: "100% wrong\nreally"},
	{Level: Note, File: "c.yaml", Message: "needs more"},
}

func TestGitHub(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := WriteGitHub(&out, findings); err != nil {
		t.Fatal(err)
	}
	const want = "::error file=a%2Cb.json,line=3,col=1,title=podtask::100%25 wrong%0Areally\n::notice file=c.yaml,title=podtask::needs more\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestSARIF(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := WriteSARIF(&out, "1.0", findings); err != nil {
		t.Fatal(err)
	}
	var log sarifLog
	if err := json.Unmarshal(out.Bytes(), &log); err != nil {
		t.Fatal(err)
	}
	first, second := log.Runs[0].Results[0], log.Runs[0].Results[1]
	if first.Locations[0].Physical.Region.Line != 3 || first.Level != Error || second.Locations[0].Physical.Region != nil || second.RuleID != "definition" {
		t.Errorf("%+v", log.Runs)
	}
	out.Reset()
	if err := WriteSARIF(&out, "1.0", nil); err != nil || !bytes.Contains(out.Bytes(), []byte(`"results": []`)) {
		t.Errorf("%v %s", err, out.String())
	}
}
