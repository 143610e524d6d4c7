package uibox

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience limits the time that the browser may take for one step on a busy machine.
const patience = time.Minute

// browser is a window of a real browser.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string // errors of scripts, and what the policy of the page has refused
}

// start opens a browser with a window of a size. Without one on this machine the test is skipped.
func start(t *testing.T, width, height int64) *browser {
	t.Helper()
	var program string
	for _, name := range []string{os.Getenv("PODTASK_BROWSER"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Skip("there is no Chromium here (hack/install.sh browser)")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.WSURLReadTimeout(patience), chromedp.UserDataDir(t.TempDir()))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	ctx, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, end := chromedp.NewContext(ctx)
	t.Cleanup(end)
	b := &browser{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, b.listen); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, p := range b.problems {
			t.Errorf("the browser reports: %s", p)
		}
	})
	call(b, log.Enable, cdp.Empty{})
	call(b, accessibility.Enable, cdp.Empty{})
	do(b, chromedp.EmulateViewport(width, height))
	return b
}

// listen keeps problems.
func (b *browser) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.problems = append(b.problems, fmt.Sprintf("%+v", e.ExceptionDetails))
	case *log.EventEntryAdded:
		if e.Entry.Level == "error" && !strings.Contains(e.Entry.URL, "favicon") {
			b.problems = append(b.problems, e.Entry.Text+" "+e.Entry.URL)
		}
	}
}

// forget drops problems that a test expects.
func (b *browser) forget(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = slices.DeleteFunc(b.problems, func(p string) bool { return strings.Contains(p, text) })
}

// do does an action.
func do[T any](b *browser, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, stop := context.WithTimeout(b.ctx, patience)
	defer stop()
	v, err := chromedp.Run(ctx, action)
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

// call sends a command of the protocol.
func call[P, R any](b *browser, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	return do(b, func(ctx context.Context, t *chromedp.Target) (R, error) { return cdp.Call(ctx, t, command, params) })
}

// open follows the one-time link and waits for the list and its script.
func (b *browser) open(link string) {
	b.t.Helper()
	do(b, chromedp.Navigate(link))
	b.await(`document.querySelector("h1")?.textContent === "Overview" && !document.querySelector(".live").hidden`)
}

// await waits until an expression is true in the page, or in the one that comes after it.
func (b *browser) await(expression string) {
	b.t.Helper()
	ctx, stop := context.WithTimeout(b.ctx, patience)
	defer stop()
	for {
		_, err := chromedp.Run(ctx, chromedp.Poll[bool]("!!("+expression+")", chromedp.WithPollingTimeout(patience)))
		if err == nil {
			return
		}
		if left := strings.Contains(err.Error(), "context with specified id") || strings.Contains(err.Error(), "navigated"); ctx.Err() != nil || !left {
			b.t.Fatalf("%s does not become true: %v", expression, err)
		}
	}
}

// value evaluates an expression in the page.
func value[T any](b *browser, expression string) T {
	b.t.Helper()
	return do(b, chromedp.Evaluate[T](expression))
}

// press presses keys.
func (b *browser) press(keys string) {
	b.t.Helper()
	do(b, chromedp.KeyEvent(keys))
}

// focused is what the keyboard acts on, by its text.
func (b *browser) focused() string {
	b.t.Helper()
	return value[string](b, `(() => { const e = document.activeElement; return (e.getAttribute("aria-label") || (e.labels && e.labels[0] || e).textContent).trim() })()`)
}

// picture keeps a picture of the page for people, if PODTASK_SCREENSHOTS names a directory.
func (b *browser) picture(name string) {
	b.t.Helper()
	dir := os.Getenv("PODTASK_SCREENSHOTS")
	if dir == "" {
		return
	}
	png := do(b, chromedp.FullScreenshot(100))
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *browser) dark() {
	b.t.Helper()
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}})
}

// node is one of what a screen reader is told, in the order in which it reads.
type node struct{ role, name string }

// heard is the accessibility tree, without what has no role or name.
func (b *browser) heard() (all []node) {
	b.t.Helper()
	text := func(v *accessibility.Value) string {
		if v == nil {
			return ""
		}
		var s string
		_ = json.Unmarshal(v.Value, &s) // other kinds have no text
		return s
	}
	for _, n := range call(b, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{}).Nodes {
		if role := text(n.Role); !n.Ignored && role != "InlineTextBox" && role != "none" {
			all = append(all, node{role, text(n.Name)})
		}
	}
	return all
}

// says reports whether there is such a node.
func says(all []node, role, name string) bool {
	for _, n := range all {
		if n.role == role && n.name == name {
			return true
		}
	}
	return false
}

func (n node) String() string { return fmt.Sprintf("%s %q", n.role, n.name) }
