// Loads the page again every two seconds and replaces what has changed in it. It leaves the
// page alone while something in it is focused or selected.
"use strict";
const live = document.getElementById("live");
const state = document.getElementById("state");
let last = "";
live.parentElement.hidden = false;

function busy() {
	const main = document.getElementById("main");
	return main.contains(document.activeElement) || !getSelection().isCollapsed || main.querySelector("details[open]");
}

async function reload() {
	if (!live.checked || document.hidden || busy()) return;
	try {
		const answer = await fetch(location.href, { redirect: "error" });
		const text = await answer.text();
		if (!answer.ok) throw new Error(text);
		if (state.textContent) state.textContent = "";
		if (text === last || busy()) return;
		last = text;
		const main = new DOMParser().parseFromString(text, "text/html").getElementById("main");
		for (const image of main.querySelectorAll("img")) image.src += "?" + Date.now();
		document.getElementById("main").replaceWith(main);
	} catch {
		state.textContent = "podtask ui does not answer.";
	}
}
setInterval(reload, 2000);
