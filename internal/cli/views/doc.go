// Package views is the part that shows tasks: top in the terminal, ui in a browser, for this host and for others, and
// the timeline of a task as a picture or a trace.
package views
