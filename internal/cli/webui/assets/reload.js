// Loads the page again every two seconds and changes only what differs, so that focus, open
// details and scrolled places stay. It leaves the page alone while something in it is selected.
"use strict";
const live = document.getElementById("live");
const state = document.getElementById("state");
let last = "";
live.parentElement.hidden = false;

// follow makes a node what it is in the new page. Children with an id stay the same element.
function follow(old, now) {
	if (old.nodeName !== now.nodeName) {
		old.replaceWith(now);
		return;
	}
	if (old.nodeType !== Node.ELEMENT_NODE) {
		if (old.data !== now.data) old.data = now.data;
		return;
	}
	for (const { name, value } of now.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
	for (const { name } of [...old.attributes]) if (name !== "open" && !now.hasAttribute(name)) old.removeAttribute(name);
	let at = old.firstChild;
	const removeUntil = end => {
		while (at !== end) {
			const next = at.nextSibling;
			at.remove();
			at = next;
		}
	};
	for (const child of [...now.childNodes]) {
		let same = at;
		while (child.id && same && same.id !== child.id) same = same.nextSibling;
		if (same && (child.id || !same.id)) {
			removeUntil(same);
			at = same.nextSibling;
			follow(same, child);
		} else {
			old.insertBefore(child, at);
		}
	}
	removeUntil(null);
}

// toEnd shows the last lines, unless the reader has scrolled away from them.
function toEnd(was) {
	const lines = document.getElementById("lines");
	if (lines && was) lines.scrollTop = lines.scrollHeight;
}

function atEnd() {
	const lines = document.getElementById("lines");
	return lines && lines.scrollTop + lines.clientHeight >= lines.scrollHeight - 2;
}

async function reload() {
	if (!live.checked || document.hidden || !getSelection().isCollapsed) return;
	try {
		const answer = await fetch(location.href, { redirect: "error" });
		const text = await answer.text();
		if (!answer.ok) throw new Error(text);
		if (state.textContent) state.textContent = "";
		if (text === last || !getSelection().isCollapsed) return;
		last = text;
		const main = new DOMParser().parseFromString(text, "text/html").getElementById("main");
		for (const image of main.querySelectorAll("img")) image.src += "?" + Date.now();
		const end = atEnd();
		follow(document.getElementById("main"), main);
		toEnd(end);
	} catch {
		state.textContent = "podtask ui does not answer.";
	}
}
toEnd(true);
setInterval(reload, 2000);
