// Package uibox opens the page of `podtask ui` in a real browser, with the keyboard only, and looks at
// what a screen reader is told. It is a module of its own, so that the protocol of browsers is no
// dependency of podtask.
package uibox
