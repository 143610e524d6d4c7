package archtest

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// madePages end with tables that are made from the code or by a benchmark.
var madePages = []string{"configuration.md", "metrics.md", "pod-members.md", "speed.md", "task-definition-members.md"}

var (
	pageLink    = regexp.MustCompile(`\]\(([^)#:]*)(#[^)]*)?\)`)
	pageHeading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInAnchor = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// linksOf returns the pages that a page leads to, relative to the root.
func linksOf(t *testing.T, page string) (to []string) {
	t.Helper()
	for _, m := range pageLink.FindAllStringSubmatch(pageText(t, page), -1) {
		to = append(to, path.Join(path.Dir(page), m[1]))
	}
	return to
}

func pageText(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../..", page))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// anchorsOf returns the anchors of the headings of a page, each with its number sign.
func anchorsOf(t *testing.T, page string) (anchors []string) {
	t.Helper()
	for _, h := range pageHeading.FindAllStringSubmatch(pageText(t, page), -1) {
		anchors = append(anchors, "#"+strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-"))
	}
	return anchors
}

// A page says for whom it is and which one comes next, and is two links from the front page.
func TestPagesLeadOn(t *testing.T) {
	t.Parallel()
	near := append([]string{"docs/README.md"}, linksOf(t, "README.md")...)
	near = append(near, linksOf(t, "docs/README.md")...)
	all, err := filepath.Glob("../../../docs/*.md")
	if err != nil || len(all) < 40 {
		t.Fatal(len(all), err)
	}
	for _, file := range all {
		name := filepath.Base(file)
		if name == "README.md" {
			continue
		}
		if !slices.Contains(near, "docs/"+name) {
			t.Errorf("docs/%s is more than two links from README.md", name)
		}
		if slices.Contains(madePages, name) {
			continue
		}
		text := pageText(t, "docs/"+name)
		_, body, _ := strings.Cut(text, "\n# ")
		if strings.HasPrefix(text, "# ") {
			body = text
		}
		_, first, _ := strings.Cut(body, "\n\n")
		if !strings.HasPrefix(first, "For ") {
			t.Errorf("docs/%s does not say first for whom it is: %.60q", name, first)
		}
		if end := text[max(0, len(text)-400):]; !strings.Contains(end, "Next: ") && !strings.Contains(end, "## Next") {
			t.Errorf("docs/%s does not end with the page that comes next", name)
		}
	}
}

// The answers to the questions of the page are two links from the front page, and their headings exist.
func TestQuestionsHaveAnswers(t *testing.T) {
	t.Parallel()
	near := append(linksOf(t, "README.md"), linksOf(t, "docs/README.md")...)
	n := 0
	for line := range strings.Lines(pageText(t, "docs/dev/questions.md")) {
		m := pageLink.FindStringSubmatch(line)
		if !strings.HasPrefix(line, "| ") || m == nil {
			continue
		}
		n++
		page := path.Join("docs/dev", m[1])
		if !slices.Contains(near, page) {
			t.Errorf("%s is more than two links from README.md", page)
		}
		anchors := anchorsOf(t, page)
		if m[2] != "" && !slices.Contains(anchors, m[2]) {
			t.Errorf("%s has no heading %s: %q", page, m[2], anchors)
		}
	}
	if n != 10 {
		t.Errorf("%d questions", n)
	}
}

// The reports for Podman that comments name, and that the page itself links to, exist.
func TestReportsForPodmanExist(t *testing.T) {
	t.Parallel()
	anchors := anchorsOf(t, "docs/upstream/README.md")
	report := regexp.MustCompile(`(?:docs/upstream|\]\()(#[a-z0-9-]+)`)
	n := 0
	look := func(file, text string) {
		for _, m := range report.FindAllStringSubmatch(text, -1) {
			n++
			if !slices.Contains(anchors, m[1]) {
				t.Errorf("%s names the report %s, which docs/upstream/README.md does not have", file, m[1])
			}
		}
	}
	look("docs/upstream/README.md", pageText(t, "docs/upstream/README.md"))
	fromPage := n
	for _, file := range trackedFiles(t) {
		if strings.HasSuffix(file, ".go") {
			look(file, pageText(t, file))
		}
	}
	if fromPage == 0 || n == fromPage {
		t.Errorf("found %d reports in the page and %d in comments", fromPage, n-fromPage)
	}
}
