package uibox

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
)

// axeScript is axe-core, a checker of accessibility; testdata/axe/README.md says where it is from.
//
//go:embed testdata/axe/axe.min.js
var axeScript string

// axeSum is the SHA-256 of axeScript.
const axeSum = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"

// axeRun checks the page against WCAG 2.2, A and AA, and against what axe-core calls best practice.
const axeRun = `window.axeFound = null; axe.run(document, { runOnly: { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa", "best-practice"] } }).then(
	r => { window.axeFound = { passes: r.passes.length, unsure: r.incomplete.filter(rule => rule.id !== "color-contrast").flatMap(tell), violations: r.violations.flatMap(tell) } },
	e => { window.axeFound = { passes: 0, unsure: [], violations: [String(e)] } });
function tell(rule) { return rule.nodes.map(n => rule.id + ": " + n.target.join(" ") + ": " + n.failureSummary.replaceAll("\n", " ")) }
true`

// found is the verdict of axe-core on a page: rules that hold, places of which it is not sure, and violations. It is not sure of the
// colors of lines that are scrolled out of sight, so the test computes them itself.
type found struct {
	Passes     int      `json:"passes"`
	Unsure     []string `json:"unsure"`
	Violations []string `json:"violations"`
}

// axe checks the page.
func (b *browser) axe() found {
	b.t.Helper()
	if !value[bool](b, `!!window.axe`) {
		value[bool](b, axeScript+"\n; !!window.axe")
	}
	value[bool](b, axeRun)
	b.await("window.axeFound")
	return value[found](b, "window.axeFound")
}

func TestAxeIsTheOneThatWasChosen(t *testing.T) {
	t.Parallel()
	if sum := sha256.Sum256([]byte(axeScript)); hex.EncodeToString(sum[:]) != axeSum {
		t.Errorf("testdata/axe/axe.min.js has the sum %x", sum)
	}
}

// No page violates WCAG 2.2 AA, light or dark, wide or narrow, on a quiet or a busy host.
func TestPagesFollowWCAG(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1280, 390} {
			t.Run(fmt.Sprint(scheme, width), func(t *testing.T) {
				t.Parallel()
				b, h := start(t, width, 900), newHost()
				if scheme == "dark" {
					b.dark()
				}
				b.open(serve(t, h, true))
				root := value[string](b, `location.origin`)
				for _, p := range []struct {
					name, path string
					busy       bool
				}{
					{"overview", "/", false}, {"task", "/task/" + id("a"), false}, {"task-stopped", "/task/" + id("c"), false}, {"service", "/service/shop", false}, {"service-paused", "/service/payments", false},
					{"logs", "/logs", false}, {"nothing", "/?q=nothing", false}, {"missing", "/task/x", false},
					{"busy", "/", true}, {"busy-attention", "/?show=problems", true}, {"busy-service", "/service/front", true}, {"busy-logs", "/logs?stack=market", true},
				} {
					if h.busy.Swap(p.busy) != p.busy {
						do(b, chromedp.Navigate(root+"/"))
						b.await(`document.querySelector("#stack-market")`)
					}
					do(b, chromedp.Navigate(root+p.path))
					b.await(`document.querySelector("h1") && !document.querySelector(".live").hidden && [...document.images].every(i => i.complete)`)
					if p.name == "logs" || p.name == "busy-logs" || p.name == "task" {
						b.await(`document.querySelectorAll("#lines .l").length > 10`)
					}
					b.picture(fmt.Sprintf("axe-%s-%s-%d", p.name, scheme, width))
					f := b.axe()
					for _, v := range f.Violations {
						t.Errorf("%s: %s", p.name, v)
					}
					for _, v := range append(f.Unsure, value[[]string](b, contrast)...) {
						t.Errorf("%s: not sure: %s", p.name, v)
					}
					if f.Passes < 10 {
						t.Errorf("%s: only %d rules hold", p.name, f.Passes)
					}
					if over := value[int64](b, `document.scrollingElement.scrollWidth`); over > width {
						t.Errorf("%s is %d wide", p.name, over)
					}
				}
				b.forget("status of 404")
			})
		}
	}
}
