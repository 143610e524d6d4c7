package uibox

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/podtask/podtask/internal/cli/webui"
	"github.com/podtask/podtask/pkg/api"
)

// tabs presses Tab until the focus leaves the page and returns what it came to.
func (b *browser) tabs() (names []string) {
	b.t.Helper()
	for range 60 {
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
	for range 60 {
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
	want := []string{
		"Skip to the content", "podtask", "Live", "shop", ":8000", "blog", "127.0.0.1:8090", "payments", "https://pay.example.com", "Search tasks by name, image, status or service",
		"Current 8", "Needs attention 2", "Waiting 2", "Running 4", "Stopped 2", "All 9", "Logs of these tasks", "Status", "Name", "CPU", "Memory", "Age",
		"web", "8080 → 80", "127.0.0.1:8443 → 443", "import", "nightly-report", "search", "customer-facing-recommendation-engine-with-a-very-long-name-that-goes-on", "cache", "127.0.0.1:6379 → 6379", "shop-1", "shop-2",
	}
	if got := b.tabs(); !slices.Equal(got, want) {
		t.Errorf("the list: %q, want %q", got, want)
	}
	b.tabTo("Skip to the content")
	b.picture("skip")
	b.press(kb.Enter)
	if b.press(kb.Tab); b.focused() != "shop" {
		t.Errorf("the first in the content is %s", b.focused())
	}
	b.tabTo("All 9")
	b.press(kb.Enter)
	b.await(`document.querySelector(".tabs [aria-current]")?.textContent.startsWith("All")`)
	b.picture("all")
	b.tabTo("web")
	b.press(kb.Enter)
	b.await(`document.querySelector("h1")?.textContent === "web"`)
	b.tabTo("Lines of the containers")
	if !value[bool](b, `document.activeElement.scrollTop + document.activeElement.clientHeight >= document.activeElement.scrollHeight - 2`) {
		t.Error("the last lines are not shown")
	}
	b.press(kb.Home)
	b.await(`document.activeElement.id === "lines" && document.activeElement.scrollTop === 0`)
	b.tabTo("As text")
	b.press(kb.Enter)
	b.await(`document.querySelector("details")?.open`)
	b.picture("task")
}

// A screen reader is told what the parts of a page are, and what each cell is about.
func TestScreenReaderIsToldTheParts(t *testing.T) {
	t.Parallel()
	b := start(t, 1280, 900)
	b.open(serve(t, newHost(), true))
	for path, wants := range map[string][]node{
		"/": {
			{"RootWebArea", "Overview on atlas – podtask"}, {"navigation", "Pages"}, {"main", ""}, {"heading", "Overview"}, {"heading", "Tasks"}, {"heading", "Services"}, {"switch", "Live"}, {"status", ""},
			{"table", "Tasks"}, {"columnheader", "Memory"}, {"rowheader", "web"}, {"link", "nightly-report"}, {"cell", "queued (port 8080)"}, {"contentinfo", ""}, {"search", ""}, {"navigation", "Which tasks"},
			{"image", "2 of 4 healthy, 1 starting, 1 to come"},
		},
		"/task/" + id("a"): {
			{"heading", "web"}, {"button", "Stop"}, {"button", "Restart"}, {"table", "Containers"}, {"table", "Events"}, {"rowheader", "server"}, {"cell", "running unhealthy"}, {"cell", "running healthy"},
			{"image", "Timeline; the same as text follows"}, {"log", "Lines of the containers"}, {"combobox", "Container"}, {"searchbox", "Search the lines"}, {"checkbox", "Follow"},
		},
		"/service/shop": {{"heading", "Deployment"}, {"list", "Steps of the deployment"}, {"table", "Copies"}, {"table", "History"}, {"list", "Events"}, {"link", "shop-1"}, {"heading", "shop:3 new"}},
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

// A screen reader is told what a stack, a schedule and a fold are, and one finds the way to the logs of several tasks.
func TestScreenReaderOnABusyHost(t *testing.T) {
	t.Parallel()
	h := newHost()
	h.busy.Store(true)
	b := start(t, 1280, 900)
	b.open(serve(t, h, false))
	root := value[string](b, `location.origin`)
	for path, wants := range map[string][]node{
		"/": {
			{"region", "Services"}, {"region", "Stack market"}, {"heading", "Stack market"}, {"link", "Logs of the stack market"}, {"heading", "Other services"}, {"table", "Schedules"}, {"rowheader", "nightly-report"},
			{"link", "2 minutes ago, the task of nightly-report"}, {"cell", "no timer"}, {"link", "Logs of these tasks"},
		},
		"/service/front":     {{"heading", "front"}, {"cell", "failed"}, {"cell", "done present"}, {"cell", "podtask service rollback front"}, {"cell", "podtask service update front front:2"}, {"list", "Events"}, {"link", "Logs of all copies"}, {"DisclosureTriangle", "37 earlier events"}},
		"/logs?stack=market": {{"heading", "Logs of market"}, {"log", "Lines of the tasks"}, {"combobox", "Task"}, {"link", "market-web-0"}, {"main", ""}},
	} {
		do(b, chromedp.Navigate(root+path))
		b.await(`!document.querySelector(".live").hidden`)
		all := b.heard()
		for _, want := range wants {
			if !says(all, want.role, want.name) {
				t.Errorf("%s has no %s, only %s", path, want, ofRole(all, want.role))
			}
		}
	}
}

// The lines of several tasks are on one page by the time at which they were written, and can be those of one of them.
func TestLogsOfSeveralTasksAreOnOnePage(t *testing.T) {
	t.Parallel()
	h := newHost()
	h.busy.Store(true)
	b := start(t, 1280, 900)
	b.open(serve(t, h, false))
	do(b, chromedp.Navigate(value[string](b, `location.origin`)+"/logs?stack=market"))
	b.await(`document.getElementById("logstate").textContent === "960 lines"`)
	if !value[bool](b, `(() => { const times = [...document.querySelectorAll("#lines time")].map(t => Date.parse(t.dateTime)); return times.every((t, i) => !i || times[i - 1] <= t) })()`) {
		t.Error("the lines are not in the order of time")
	}
	h.write(webui.Line{Container: "server", Time: at(61), Text: "the new one"})
	b.await(`document.querySelector("#lines .l:last-child span").textContent === "the new one" && document.getElementById("logstate").textContent === "976 lines"`)
	value[bool](b, `(() => { const s = document.getElementById("of"); s.value = "market-worker-1"; s.dispatchEvent(new Event("change")); return true })()`)
	b.await(`document.getElementById("logstate").textContent === "61 of 976 lines fit" && ![...document.querySelectorAll("#lines b")].some(e => e.textContent !== "market-worker-1")`)
	if got := value[int](b, `document.querySelectorAll("#of option").length`); got != 17 {
		t.Errorf("%d tasks can be chosen", got-1)
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
			if got := value[int](b, `document.querySelectorAll("main button, form[method=post]").length`); got > 0 != write {
				t.Fatalf("there are %d elements of forms", got)
			}
			if !write {
				return
			}
			b.picture("write")
			b.tabTo("Stop")
			b.press(kb.Enter)
			b.await(`document.querySelector("#ask-stop:popover-open")`)
			if b.focused() != "Cancel" {
				t.Errorf("the question begins at %s", b.focused())
			}
			b.picture("ask")
			b.press(kb.Escape)
			b.await(`!document.querySelector(":popover-open")`)
			if b.focused() != "Stop" || len(h.done) != 0 {
				t.Errorf("after Escape the keyboard is on %s, done %q", b.focused(), h.done)
			}
			b.press(kb.Enter)
			b.await(`document.querySelector("#ask-stop:popover-open")`)
			b.tabTo("Stop now")
			b.press(kb.Enter)
			b.await(`document.querySelector("h1")?.textContent === "Overview"`)
			if value[bool](b, `!!document.querySelector("[data-name=web]")`) || strings.Join(h.done, ",") != "stop "+id("a") {
				t.Errorf("done %q, the list has %s", h.done, value[string](b, `document.querySelector("main").innerText`))
			}
		})
	}
}

// New lines of the log come by themselves; a search shows the lines that fit and marks the words.
func TestLogIsFollowedAndSearched(t *testing.T) {
	t.Parallel()
	h, b := newHost(), start(t, 1280, 900)
	b.open(serve(t, h, false))
	do(b, chromedp.Navigate(value[string](b, `location.origin`)+"/task/"+id("a")))
	b.await(`document.getElementById("logstate").textContent === "60 lines"`)
	h.write(webui.Line{Container: "server", Time: at(61), Text: "<b>the new one</b>"})
	b.await(`document.querySelector("#lines .l:last-child span").textContent === "<b>the new one</b>"`)
	b.tabTo("Search the lines")
	b.press("REFUSED")
	b.await(`document.getElementById("logstate").textContent === "3 of 61 lines fit" && document.querySelectorAll("#lines mark").length === 3`)
	b.picture("search")
	value[bool](b, `(() => { const f = document.getElementById("find"); f.value = "/^<b>|REFUS[a-z]+/"; f.dispatchEvent(new Event("input", { bubbles: true })); return true })()`)
	b.await(`document.getElementById("logstate").textContent === "4 of 61 lines fit" && [...document.querySelectorAll("#lines mark")].some(m => m.textContent === "<b>")`)
	value[bool](b, `(() => { const f = document.getElementById("find"); f.value = ""; f.dispatchEvent(new Event("input", { bubbles: true })); const s = document.getElementById("of"); s.value = "db"; s.dispatchEvent(new Event("change")); return true })()`)
	b.await(`document.getElementById("logstate").textContent === "30 of 61 lines fit" && ![...document.querySelectorAll("#lines b")].some(e => e.textContent !== "db")`)
	if got := value[int](b, `document.querySelectorAll("#lines time").length`); got != 30 {
		t.Errorf("%d lines have a time", got)
	}
}

// The list is searched while a word is typed, and says so when nothing fits.
func TestListIsSearched(t *testing.T) {
	t.Parallel()
	b := start(t, 1280, 900)
	b.open(serve(t, newHost(), false))
	b.press("/")
	value[bool](b, `(document.activeElement.value = "") === ""`) // the protocol types the key although the page has taken it
	b.press("valkey")
	b.await(`document.querySelectorAll("tbody").length === 1 && document.querySelector("tbody").dataset.name === "cache" && location.search === "?q=valkey"`)
	if b.focused() != "Search tasks by name, image, status or service" {
		t.Errorf("the keyboard is on %s", b.focused())
	}
	b.press("x")
	b.await(`document.querySelector(".blank")?.textContent.includes("No task matches")`)
}

// When podtask ui does not answer, the page says since when, and when it is back, that it is.
func TestPageSaysWhenItIsOld(t *testing.T) {
	t.Parallel()
	h, b := newHost(), start(t, 1280, 900)
	b.open(serve(t, h, false))
	h.gone.Store(true)
	b.await(`!document.getElementById("banner").hidden && document.getElementById("banner").textContent.includes("does not answer since") && document.querySelector("[data-name=web]")`)
	b.picture("gone")
	h.gone.Store(false)
	b.await(`document.getElementById("banner").hidden && document.getElementById("news").textContent === "podtask answers again."`)
	h.mu.Lock()
	h.agent = ""
	h.mu.Unlock()
	b.await(`document.getElementById("agent-lost")`)
	b.forget("ERR_EMPTY_RESPONSE")
	b.forget("ERR_CONNECTION")
}

// A page follows what happens, also while the keyboard is in it, and does not lose the place.
func TestPageFollowsTheHost(t *testing.T) {
	t.Parallel()
	h, b := newHost(), start(t, 1280, 900)
	b.open(serve(t, h, false))
	b.tabTo("nightly-report")
	h.change(func(t *api.Task) { t.Health = "HEALTHY" })
	b.await(`document.querySelector("[data-name=web]").dataset.state === "running, healthy" && document.getElementById("news").textContent === "web is running, healthy."`)
	h.change(func(t *api.Task) { t.Status = "STOPPED" })
	b.await(`!document.querySelector("[data-name=web]")`)
	if b.focused() != "nightly-report" {
		t.Errorf("the keyboard is on %q now", b.focused())
	}
	h.change(func(t *api.Task) { t.Status = "RUNNING" })
	b.await(`document.querySelector("[data-name=web]")`)
	if b.focused() != "nightly-report" {
		t.Errorf("the keyboard is on %q now", b.focused())
	}
	value[bool](b, `document.getElementById("live").click() || true`)
	h.change(func(t *api.Task) { t.Health = "UNHEALTHY" })
	value[bool](b, `document.getElementById("live").click() || true`)
	b.await(`document.querySelector("[data-name=web]").dataset.state === "running, unhealthy"`)
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
			h := newHost()
			b.open(serve(t, h, true))
			root := value[string](b, `location.origin`)
			for name, path := range map[string]string{"list": "/", "task": "/task/" + id("a"), "stopped": "/task/" + id("c"), "service": "/service/shop", "paused": "/service/payments", "hosts": "/?hosts"} {
				h.several.Store(name == "hosts")
				do(b, chromedp.Navigate(root+path))
				if width := value[int](b, `document.scrollingElement.scrollWidth`); width > 360 {
					t.Errorf("%s is %d wide", path, width)
				}
				b.await(`[...document.images].every(i => i.complete)`)
				if over := value[int](b, `Math.max(0, ...[...document.querySelectorAll(".frame")].map(f => f.scrollWidth - f.clientWidth))`); over > 0 {
					t.Errorf("the timeline of %s is %d pixels wider than its frame", path, over)
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

// contrast lists texts whose color has less than 4.5 times the luminance of what is behind them (WCAG 2.2, 1.4.3).
const contrast = `(() => {
	const of = color => {
		const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
		probe.fillStyle = color;
		probe.fillRect(0, 0, 1, 1);
		const [r, g, b] = [...probe.getImageData(0, 0, 1, 1).data].map(c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const behind = e => {
		for (; e; e = e.parentElement) {
			const color = getComputedStyle(e).backgroundColor;
			if (color !== "rgba(0, 0, 0, 0)" && !color.includes("/")) return color;
		}
		return "#fff";
	};
	const low = [];
	for (const e of document.querySelectorAll("body *")) {
		const own = [...e.childNodes].some(n => n.nodeType === Node.TEXT_NODE && n.data.trim());
		if (!own || !e.checkVisibility() || e.closest(".heard")) continue;
		const a = of(getComputedStyle(e).color), page = of(behind(e));
		const ratio = (Math.max(a, page) + 0.05) / (Math.min(a, page) + 0.05);
		if (ratio < 4.5) low.push(e.textContent.slice(0, 40) + " " + ratio.toFixed(1));
	}
	return low;
})()`
