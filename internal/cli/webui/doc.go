// Package webui serves a page about the tasks and services of this user to a browser on the
// same host. Data comes from a Source, and changes are made by Actions.
//
// A page is plain HTML that works without its script, which only reloads it. The one-time link opens a
// session: the link is then invalid, and the browser has a cookie. Requests for another host name are
// refused, so that no page of the Internet reaches the server through DNS. Changes need a session, its token
// in the form, and a server with actions.
package webui
