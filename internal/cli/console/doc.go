// Package console renders tasks, pulls, logs and tables as text for people: columns,
// colors, progress lines and the status line at the bottom of a terminal. The commands of
// podtask call it. It never asks for data and decides nothing.
package console
