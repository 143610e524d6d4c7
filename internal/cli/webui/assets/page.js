// Loads the page again every two seconds and changes only what differs, so that focus, open details and
// scrolled places stay; follows the log of a task; and says what has changed. The page works without it.
"use strict";
const $ = id => document.getElementById(id);
const live = $("live"), banner = $("banner"), news = $("news");
const every = 2000;
let tag = "", lostSince = 0, loading = false;
live.parentElement.hidden = false;

// become makes a node what it is in the new page. Children with an id stay the same element. What the script itself fills stays.
function become(old, now) {
	if (old.nodeName !== now.nodeName) {
		old.replaceWith(now);
		return;
	}
	if (old.nodeType !== Node.ELEMENT_NODE) {
		if (old.data !== now.data) old.data = now.data;
		return;
	}
	if (old.hasAttribute("data-keep") || old.isEqualNode(now)) return;
	for (const { name, value } of now.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
	for (const { name } of [...old.attributes]) if (name !== "open" && !now.hasAttribute(name)) old.removeAttribute(name);
	const named = new Map(), kept = new Set([...now.children].map(e => e.id));
	for (const child of [...old.children]) {
		if (!child.id) continue;
		if (kept.has(child.id)) named.set(child.id, child);
		else child.remove();
	}
	let at = old.firstChild;
	const drop = () => {
		const next = at.nextSibling;
		at.remove();
		at = next;
	};
	for (const child of [...now.childNodes]) {
		let same = at;
		if (child.id) {
			same = named.get(child.id);
			while (same && at && at !== same && !at.id) drop();
			if (same && same !== at) move(old, same, at);
			else if (same) at = at.nextSibling;
		} else if (at && !at.id) {
			at = at.nextSibling;
		} else {
			same = null;
		}
		if (same) become(same, child);
		else old.insertBefore(child, at);
	}
	while (at) drop();
}

// move puts an element before another one. Browsers without moveBefore forget what has the focus.
function move(parent, element, before) {
	if (parent.moveBefore) {
		parent.moveBefore(element, before);
		return;
	}
	const focused = element.contains(document.activeElement) && document.activeElement;
	parent.insertBefore(element, before);
	if (focused) focused.focus({ preventScroll: true });
}

// states has what can change of each task and service, by its name.
function states(root) {
	return new Map([...root.querySelectorAll("[data-name]")].map(e => [e.dataset.name, e.dataset.state]));
}

// tell says to a screen reader what has changed.
function tell(before, after) {
	const changes = [];
	for (const [name, state] of after) if (before.has(name) && before.get(name) !== state) changes.push(name + " is " + state);
	if (changes.length === 0) return;
	const more = changes.length - 3;
	news.textContent = changes.slice(0, 3).join(". ") + (more > 0 ? `, and ${more} more changed` : "") + ".";
}

function lost(text) {
	lostSince ||= Date.now();
	const since = new Date(lostSince).toLocaleTimeString([], { hour12: false });
	const whole = text.replaceAll("SINCE", since);
	if (banner.firstElementChild.textContent !== whole) banner.firstElementChild.textContent = whole;
	banner.hidden = false;
	document.body.classList.add("stale");
}

function found() {
	if (!lostSince) return;
	lostSince = 0;
	banner.hidden = true;
	document.body.classList.remove("stale");
	news.textContent = "podtask answers again.";
	follow();
}

async function reload(force) {
	if (loading || !force && (!live.checked || document.hidden || !getSelection().isCollapsed)) return;
	loading = true;
	const address = location.href;
	try {
		const answer = await fetch(address, { redirect: "error", headers: { "Podtask-Live": "1", ...(tag && { "If-None-Match": tag }) }, signal: AbortSignal.timeout(15000) });
		if (answer.status === 304) return found();
		const text = await answer.text();
		if (answer.status === 403 || answer.status === 421) return lost("This session has ended. Start podtask ui again and open the new link.");
		if (answer.status === 404) return lost("This is gone since SINCE: " + text.trim());
		if (!answer.ok) return lost("Since SINCE: " + text.trim() + " It is tried again every 2 seconds.");
		found();
		if (location.href !== address || !force && !getSelection().isCollapsed) return;
		tag = answer.headers.get("ETag") || "";
		const page = new DOMParser().parseFromString(text, "text/html");
		const main = page.getElementById("main");
		for (const image of main.querySelectorAll("img")) image.src += "?" + Date.now();
		for (const source of main.querySelectorAll("picture > source")) source.srcset += "?" + Date.now();
		const before = states($("main"));
		become($("main"), main);
		tell(before, states($("main")));
		document.title = page.title;
		for (const part of [".host", "footer"]) become(document.querySelector(part), page.querySelector(part));
	} catch {
		lost("podtask ui does not answer since SINCE. What you see is as it was then. It is tried again every 2 seconds.");
	} finally {
		loading = false;
	}
}
async function beat() {
	const begun = performance.now();
	await reload();
	// A long list on a slow machine is loaded less often.
	setTimeout(beat, Math.max(every, 8 * (performance.now() - begun)));
}
setTimeout(beat, every);
document.addEventListener("visibilitychange", () => {
	reload();
	follow();
});
live.addEventListener("change", () => reload());
$("again").addEventListener("click", () => reload(true));

// The search of the list acts while it is typed; tabs and orders change the list in place.
let typing;
document.addEventListener("input", event => {
	if (event.target.id !== "q") return;
	clearTimeout(typing);
	typing = setTimeout(() => {
		const address = new URL(location.href);
		if (event.target.value.trim()) address.searchParams.set("q", event.target.value.trim());
		else address.searchParams.delete("q");
		history.replaceState(null, "", address);
		reload(true);
	}, 150);
});
document.addEventListener("submit", event => {
	if (event.target.matches(".search")) {
		event.preventDefault();
		return;
	}
	const sure = event.target.querySelector(".sure");
	if (sure) {
		setTimeout(() => { sure.disabled = true; });
		sure.textContent = "Working…";
		event.target.toggleAttribute("data-keep", true);
	}
});
document.addEventListener("keydown", event => {
	const field = event.target.closest("input, select, textarea, button, [popover]");
	if (event.key !== "/" || field || event.ctrlKey || event.metaKey || event.altKey) return;
	const search = $("q") || $("find");
	if (!search) return;
	event.preventDefault();
	search.focus();
});

// The log of a task, or of several.
const most = 5000;
let stream, all = [], coming = [], drawing = 0, over = false;
// color is that of a name in front of lines. A name that is new, as of a task that came later, can be chosen from now on.
const places = new Map();
let longest = 0;
function place(name) {
	places.set(name, places.size);
	longest = Math.max(longest, name.length);
	$("lines").style.setProperty("--from", longest + "ch");
}
function color(name) {
	if (!places.size) for (const o of $("of").options) if (o.value) place(o.value);
	if (!places.has(name)) {
		place(name);
		$("of").append(new Option(name, name));
	}
	return "c" + places.get(name) % 8;
}

// wanted is what the search looks for, in letters of both cases: a text, or between slashes a regular expression. Null: all.
let patternOf = "", pattern = null;
function wanted() {
	const text = $("find").value;
	if (text === patternOf) return pattern;
	patternOf = text;
	const literal = new RegExp(text.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&"), "gi"), inner = /^\/(.+)\/$/.exec(text);
	try {
		pattern = !text ? null : inner ? new RegExp(inner[1], "gi") : literal;
	} catch {
		pattern = literal; // it is not complete yet
	}
	return pattern;
}

function fits(line) {
	const find = wanted(), of = $("of").value;
	return (!of || line.container === of) && (!find || line.text.search(find) >= 0);
}

// element draws a line, with what was searched for marked in it.
function element(line) {
	const e = document.createElement("div");
	e.className = "l" + (line.stderr ? " err" : "");
	const time = document.createElement("time"), name = document.createElement("b"), text = document.createElement("span");
	if (line.time) {
		const at = new Date(line.time);
		time.dateTime = line.time;
		time.title = at.toLocaleString();
		time.textContent = at.toLocaleTimeString([], { hour12: false });
	}
	name.className = color(line.container);
	name.textContent = line.container;
	const find = wanted();
	let at = 0;
	for (const m of find ? line.text.matchAll(find) : []) {
		const mark = document.createElement("mark");
		mark.textContent = m[0];
		text.append(line.text.slice(at, m.index), mark);
		at = m.index + m[0].length;
	}
	text.append(line.text.slice(at));
	e.append(time, name, text);
	return e;
}

function say(shown) {
	const count = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
	const filtered = $("find").value || $("of").value;
	const text = (filtered ? `${shown} of ${count(all.length, "line")} fit` : count(all.length, "line")) + (over ? ", and no more will come" : $("follow").checked ? "" : ", not following");
	if ($("logstate").textContent !== text) $("logstate").textContent = text;
}

// unsorted: a line came later than one that was written after it, as the first ones of several tasks do.
let unsorted = false;

function draw(again, asked) {
	const box = $("lines");
	if (unsorted) {
		unsorted = false;
		all.sort((a, b) => a.at - b.at);
		again = true;
	}
	if (again) box.replaceChildren(...all.filter(fits).map(element));
	else {
		if (coming.length) box.querySelector(".empty")?.remove();
		for (const line of coming.filter(fits)) box.append(element(line));
		while (box.childElementCount > most) box.firstElementChild.remove();
	}
	coming = [];
	if (box.childElementCount === 0) {
		const empty = document.createElement("p");
		empty.className = "empty";
		empty.textContent = all.length ? "No line fits the search." : over ? "Nothing was written." : "Nothing was written yet.";
		box.append(empty);
	}
	if ($("follow").checked) box.scrollTop = box.scrollHeight;
	say(box.querySelectorAll(".l").length);
	if (again && asked) news.textContent = $("logstate").textContent; // an answer to the reader; each new line is not news
}

// later draws all lines that came meanwhile in one go.
function later() {
	drawing ||= requestAnimationFrame(() => {
		drawing = 0;
		draw(false);
	});
}

// follow keeps one stream while the page is seen: a browser has few connections for a host.
async function follow() {
	const box = $("lines");
	if (!box) return;
	if (document.hidden || !live.checked) {
		stream?.abort();
		stream = null;
		return;
	}
	if (stream || over) return;
	const mine = stream = new AbortController();
	try {
		const answer = await fetch(box.dataset.source, { signal: mine.signal, redirect: "error", headers: { "Podtask-Live": "1" } });
		if (!answer.ok) throw new Error(await answer.text());
		if (!all.length) say(0);
		const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
		let rest = "", first = true, latest = 0;
		const begin = () => { // what is sent begins with the last lines, which may be there already
			if (!first) return;
			first = false;
			all = [];
			coming = [];
			box.replaceChildren();
		};
		for (;;) {
			const { value, done } = await reader.read();
			if (done) break;
			const parts = (rest + value).split("\n");
			rest = parts.pop();
			begin();
			for (const part of parts) {
				const line = JSON.parse(part);
				if (line.end) {
					over = !line.problem;
					if (line.problem) $("logstate").textContent = line.problem;
					continue;
				}
				line.at = line.time ? Date.parse(line.time) : latest;
				unsorted ||= line.at < latest;
				latest = Math.max(latest, line.at);
				all.push(line);
				coming.push(line);
			}
			for (const list of [all, coming]) if (list.length > most) list.splice(0, list.length - most);
			later();
		}
		later();
	} catch {
		// The banner says when podtask ui is gone; then the stream begins again.
	} finally {
		if (stream === mine) stream = null;
	}
}
if ($("lines")) {
	$("logtools").hidden = false;
	let timer;
	$("find").addEventListener("input", () => {
		clearTimeout(timer);
		timer = setTimeout(() => draw(true, true), 120);
	});
	$("of").addEventListener("change", () => draw(true, true));
	for (const name of ["times", "wrap"]) $(name).addEventListener("change", () => $("lines").classList.toggle(name, $(name).checked));
	$("follow").addEventListener("change", () => draw(false));
	// Who scrolls up reads; who comes back to the end follows again.
	let top = 0;
	$("lines").addEventListener("scroll", () => {
		const box = $("lines"), end = box.scrollTop + box.clientHeight >= box.scrollHeight - 4;
		if (end !== $("follow").checked && (end || box.scrollTop < top)) {
			$("follow").checked = end;
			say(box.querySelectorAll(".l").length);
		}
		top = box.scrollTop;
	});
	new ResizeObserver(() => {
		if ($("follow").checked) $("lines").scrollTop = $("lines").scrollHeight;
	}).observe($("lines"));
	live.addEventListener("change", follow);
	$("lines").scrollTop = $("lines").scrollHeight;
	follow();
}
