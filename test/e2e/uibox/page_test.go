package uibox

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/podtask/podtask/pkg/api"
)

// tabs presses Tab until the focus leaves the page and returns what it came to.
func (b *browser) tabs() (names []string) {
	b.t.Helper()
	for range 40 {
		b.press(kb.Tab)
		if value[bool](b, `document.activeElement === document.body`) {
			return names
		}
		if !value[bool](b, `(() => { const r = document.activeElement.getBoundingClientRect(); return r.width > 0 && r.left >= 0 && r.right <= innerWidth + 1 })()`) {
			b.t.Errorf("what the keyboard came to cannot be seen: %s", b.focused())
		}
		if !value[bool](b, `getComputedStyle(document.activeElement).outlineStyle !== "none"`) {
			b.t.Errorf("nothing shows that the keyboard came to %s", b.focused())
		}
		names = append(names, b.focused())
	}
	b.t.Fatalf("the focus does not leave the page: %q", names)
	return nil
}

// tabTo presses Tab until the focus is on what has a name.
func (b *browser) tabTo(name string) {
	b.t.Helper()
	for range 40 {
		if b.press(kb.Tab); b.focused() == name {
			return
		}
	}
	b.t.Fatalf("the keyboard does not come to %s", name)
}

// The keyboard alone comes to everything, in the order of the page, and each place is seen.
func TestKeyboardComesToEverything(t *testing.T) {
	t.Parallel()
	b := start(t, 1280, 900)
	b.open(serve(t, newHost(), false))
	want := []string{"Skip to the content", "podtask", "Update every 2 seconds", "show all", "web", "nightly-report", "shop"}
	if got := b.tabs(); !slices.Equal(got, want) {
		t.Errorf("the list: %q, want %q", got, want)
	}
	b.tabTo("Skip to the content")
	b.picture("skip")
	b.press(kb.Enter)
	if b.press(kb.Tab); b.focused() != "show all" {
		t.Errorf("the first in the content is %s", b.focused())
	}
	b.press(kb.Enter)
	b.await(`document.querySelector("caption")?.textContent.startsWith("All tasks")`)
	b.picture("all")
	b.tabTo("web")
	b.press(kb.Enter)
	b.await(`document.querySelector("h1")?.textContent === "web"`)
	b.tabTo("As text")
	b.press(kb.Enter)
	b.await(`document.querySelector("details")?.open`)
	b.picture("task")
	b.tabTo("Last lines of the containers")
	if !value[bool](b, `document.activeElement.scrollTop + document.activeElement.clientHeight >= document.activeElement.scrollHeight - 2`) {
		t.Error("the last lines are not shown")
	}
	b.press(kb.Home)
	b.await(`document.activeElement.id === "lines" && document.activeElement.scrollTop === 0`)
}

// A screen reader is told what the parts of a page are, and what each cell is about.
func TestScreenReaderIsToldTheParts(t *testing.T) {
	t.Parallel()
	b := start(t, 1280, 900)
	b.open(serve(t, newHost(), true))
	for path, wants := range map[string][]node{
		"/": {
			{"RootWebArea", "Tasks – podtask"}, {"navigation", "Pages"}, {"main", ""}, {"heading", "Tasks"}, {"heading", "Services"}, {"checkbox", "Update every 2 seconds"}, {"status", ""},
			{"table", "Tasks that have not stopped; show all"}, {"table", "Services"}, {"columnheader", "Health"}, {"rowheader", "web"}, {"link", "nightly-report"}, {"cell", "RUNNING"}, {"contentinfo", ""},
		},
		"/task/" + id("a"): {
			{"heading", "web"}, {"button", "Stop"}, {"button", "Restart"}, {"table", "Containers"}, {"table", "Events"}, {"rowheader", "server"}, {"cell", "UNHEALTHY"}, {"cell", "HEALTHY"},
			{"image", "Timeline; the same as text follows"}, {"region", "Last lines of the containers"},
		},
		"/service/shop": {{"heading", "Deployments"}, {"table", "Deployments"}, {"table", "Tasks"}, {"list", "Events"}, {"link", "shop-1"}},
	} {
		root := value[string](b, `location.origin`)
		do(b, chromedp.Navigate(root+path))
		all := b.heard()
		for _, want := range wants {
			if !says(all, want.role, want.name) {
				t.Errorf("%s has no %s, only %s", path, want, ofRole(all, want.role))
			}
		}
		for _, n := range all {
			if named := []string{"link", "button", "checkbox", "image", "table", "heading", "region"}; n.name == "" && slices.Contains(named, n.role) {
				t.Errorf("%s has a %s without a name", path, n.role)
			}
		}
	}
}

func ofRole(all []node, role string) string {
	return fmt.Sprint(slices.DeleteFunc(slices.Clone(all), func(n node) bool { return n.role != role }))
}

// A page has no buttons unless it may change something; then the keyboard presses them.
func TestOnlyWriteStopsATask(t *testing.T) {
	t.Parallel()
	for _, write := range []bool{false, true} {
		t.Run(fmt.Sprint(write), func(t *testing.T) {
			t.Parallel()
			h, b := newHost(), start(t, 1280, 900)
			b.open(serve(t, h, write))
			b.tabTo("web")
			b.press(kb.Enter)
			b.await(`document.querySelector("h1")?.textContent === "web"`)
			if got := value[int](b, `document.querySelectorAll("button, form, input:not(#live)").length`); got > 0 != write {
				t.Fatalf("there are %d elements of forms", got)
			}
			if !write {
				return
			}
			b.picture("write")
			b.tabTo("Stop")
			b.press(kb.Enter)
			b.await(`document.querySelector("h1")?.textContent === "Tasks"`)
			if text := value[string](b, `document.querySelector("main").innerText`); strings.Contains(text, "web\t") || strings.Join(h.done, ",") != "stop "+id("a") {
				t.Errorf("done %q, the list is %s", h.done, text)
			}
		})
	}
}

// A page follows what happens, also while the keyboard is in it, and does not lose the place.
func TestPageFollowsTheHost(t *testing.T) {
	t.Parallel()
	h, b := newHost(), start(t, 1280, 900)
	b.open(serve(t, h, false))
	b.tabTo("nightly-report")
	h.change(func(t *api.Task) { t.Health = "HEALTHY" })
	b.await(`document.querySelector("td.HEALTHY")`)
	h.change(func(t *api.Task) { t.Status = "STOPPED" })
	b.await(`!document.body.textContent.includes("web")`)
	if b.focused() != "nightly-report" {
		t.Errorf("the keyboard is on %q now", b.focused())
	}
	h.change(func(t *api.Task) { t.Status = "RUNNING" })
	b.await(`document.querySelector("td.RUNNING")`)
	if b.focused() != "nightly-report" {
		t.Errorf("the keyboard is on %q now", b.focused())
	}
	value[bool](b, `document.getElementById("live").click() || true`)
	h.change(func(t *api.Task) { t.Health = "UNHEALTHY" })
	value[bool](b, `document.getElementById("live").click() || true`)
	b.await(`document.querySelector("td.UNHEALTHY")`)
}

// Nothing is wider than a telephone, but for tables, which scroll, and colors can be read in both schemes.
func TestPagesFitNarrowScreensAndBothSchemes(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"light", "dark"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			b := start(t, 360, 740)
			if scheme == "dark" {
				b.dark()
			}
			b.open(serve(t, newHost(), true))
			root := value[string](b, `location.origin`)
			for name, path := range map[string]string{"list": "/", "task": "/task/" + id("a"), "service": "/service/shop"} {
				do(b, chromedp.Navigate(root+path))
				if width := value[int](b, `document.scrollingElement.scrollWidth`); width > 360 {
					t.Errorf("%s is %d wide", path, width)
				}
				b.picture(name + "-narrow-" + scheme)
				do(b, chromedp.EmulateViewport(1280, 900))
				b.picture(name + "-wide-" + scheme)
				if low := value[[]string](b, contrast); len(low) > 0 {
					t.Errorf("%s: %q can hardly be read", path, low)
				}
				do(b, chromedp.EmulateViewport(360, 740))
			}
		})
	}
}

// contrast lists texts whose color has less than 4.5 times the luminance of the page (WCAG 2.2, 1.4.3).
const contrast = `(() => {
	const of = color => {
		const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
		probe.fillStyle = color;
		probe.fillRect(0, 0, 1, 1);
		const [r, g, b] = [...probe.getImageData(0, 0, 1, 1).data].map(c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const dark = matchMedia("(prefers-color-scheme: dark)").matches;
	const low = [];
	for (const e of document.querySelectorAll("body *")) {
		if (!e.innerText || e.children.length || e.closest("button")) continue;
		const a = of(getComputedStyle(e).color), page = of(dark ? "#121212" : "#ffffff");
		const ratio = (Math.max(a, page) + 0.05) / (Math.min(a, page) + 0.05);
		if (ratio < 4.5) low.push(e.innerText.slice(0, 40) + " " + ratio.toFixed(1));
	}
	return low;
})()`
