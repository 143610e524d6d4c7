// Package webui serves a page about the tasks and services of this user to a browser on the
// same host. The command `podtask ui` gives it what to show and what to do.
//
// A page is plain HTML that works without its script, which only loads it again. Who has the
// one-time link, and nobody else, gets a session: the link is used up, and the browser keeps a
// cookie. Requests for another host name are refused, so that no page of the Internet reaches
// the server through DNS. Changes need a session, its token in the form, and a server that
// has actions. The package never listens on an address and never reads records.
package webui
