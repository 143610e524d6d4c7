package notify

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/podtask/podtask/internal/notice"
	"go.yaml.in/yaml/v3"
)

// document is a file of alert rules.
type document struct {
	Groups []struct {
		Rules []alertRule `yaml:"rules"`
	} `yaml:"groups"`
}

// TestRulesAreThoseOfContrib: an alert that contrib/prometheus has as well is the same one.
func TestRulesAreThoseOfContrib(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := printRules(&out); err != nil {
		t.Fatal(err)
	}
	var ours, theirs document
	if err := yaml.Unmarshal(out.Bytes(), &ours); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "contrib", "prometheus", "podtask.rules.yml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &theirs); err != nil {
		t.Fatal(err)
	}
	known := map[string]alertRule{}
	for _, r := range theirs.Groups[0].Rules {
		known[r.Alert] = r
	}
	if n := len(ours.Groups[0].Rules); n != len(notice.Facts) {
		t.Errorf("%d rules for %d conditions", n, len(notice.Facts))
	}
	same := 0
	for _, r := range ours.Groups[0].Rules {
		other, both := known[r.Alert]
		if !both {
			continue
		}
		same++
		if r.Expr != other.Expr || r.For != other.For || !maps.Equal(r.Annotations, other.Annotations) || r.Labels["severity"] != other.Labels["severity"] {
			t.Errorf("%s is\n%+v, in contrib it is\n%+v", r.Alert, r, other)
		}
	}
	if same < 4 {
		t.Errorf("only %d alerts are the same", same)
	}
}
