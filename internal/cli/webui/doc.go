// Package webui serves a page about the tasks and services of this user to a browser on the
// same host. Data comes from a Source, and changes are made by Actions.
//
// A page is plain HTML that works without its script, which loads it again and follows the log of a task. A look at the host
// serves all pages that ask in the same second; what tasks used is remembered for the charts. The one-time link opens a
// session: the link is then invalid, and the browser has a cookie. Each server has a host name of its own
// below localhost, because browsers share cookies between the ports of a name. Requests for another name are
// refused, so that no page of the Internet reaches the server through DNS. Changes need a session, a token
// in the form that the cookie does not contain, and a server with actions.
//
// # Decisions
//
//   - The page of podtask ui is HTML from templates. Pictures are SVG in it. Its script, without a build, asks for
//     the same page again and changes what differs. So the page works without a script, and there is no second form
//     of the data to keep in step.
package webui
