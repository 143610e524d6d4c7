package archtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// partOnly are packages that only parts use, besides those that internal/parts lists. A core build links none of them.
var partOnly = []string{
	"internal/aws/adapter", "internal/aws/awsapi", "internal/aws/awsapi/autoscaling", "internal/aws/awsapi/logstreams",
	"internal/aws/awsapi/protocol", "internal/aws/awsapi/resource", "internal/aws/awskey", "internal/aws/datachannel", "internal/aws/ecsexec", "internal/aws/portforward", "internal/aws/sigv4",
	"internal/cli/hostview", "internal/cli/timeline", "internal/cli/top", "internal/cli/webui",
	"internal/define/composecall", "internal/define/convert/compose", "internal/define/convert/quadlet", "internal/define/export", "internal/define/foreign", "internal/define/foreign/toolfile", "internal/define/foreign/cloudformation", "internal/define/foreign/copilot", "internal/define/foreign/ecspresso", "internal/define/foreign/kubernetes", "internal/define/foreign/terraform", "internal/define/foreignfile", "internal/define/stackfile", "internal/define/testfile", "internal/ecsstatus", "pkg/promtext", "pkg/scaling", "internal/engine/decide/stack", "internal/engine/run/scaling", "internal/engine/run/schedule", "internal/engine/run/stacks",
	"internal/notice", "internal/notice/deliver", "internal/notice/settings", "internal/notice/watch", "internal/serve/metrics/noticemetrics", "internal/serve/metrics/scalingmetrics", "internal/serve/metrics/imagemetrics", "internal/serve/metrics/stackmetrics",
}

// linkedBy returns the packages that cmd/podtask links with a build tag more.
func linkedBy(t *testing.T, tags string) []string {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-tags", buildTags+" "+tags, "./cmd/podtask")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return strings.Fields(string(out))
}

// linkedParts returns the packages that internal/parts/whole.go imports: one for each part.
func linkedParts(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), "internal", "parts", "whole.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`"`+module+`/([^"]+)"`).FindAllStringSubmatch(string(text), -1) {
		if m[1] != "internal/cli/part" {
			all = append(all, m[1])
		}
	}
	return all
}

// TestTheCoreLinksNoPart: a core build has no package of a part, and the whole one has all of them.
func TestTheCoreLinksNoPart(t *testing.T) {
	t.Parallel()
	parts := slices.Concat(linkedParts(t), partOnly)
	core, whole := linkedBy(t, "podtask_core"), linkedBy(t, "")
	for _, p := range parts {
		if slices.Contains(core, module+"/"+p) {
			t.Errorf("a core build links %s, which is of a part", p)
		}
		if !slices.Contains(whole, module+"/"+p) {
			t.Errorf("the whole build does not link %s, so it is of no part", p)
		}
	}
	if len(linkedParts(t)) < 2 {
		t.Error("internal/parts/whole.go lists no parts")
	}
}

// TestOnlyTheListImportsParts: nothing in the product imports a part but internal/parts and other packages of parts.
func TestOnlyTheListImportsParts(t *testing.T) {
	t.Parallel()
	parts := linkedParts(t)
	for _, p := range packages(t) {
		if p.name() == "internal/parts" {
			continue
		}
		for _, imp := range p.Imports {
			if slices.Contains(parts, within(imp)) {
				t.Errorf("%s imports %s, which is a part: the core knows parts by internal/cli/part alone", p.name(), within(imp))
			}
		}
	}
}
