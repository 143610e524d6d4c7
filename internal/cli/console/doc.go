// Package console renders tasks, pulls, logs and tables as text for people: columns,
// colors, progress lines and the status line at the bottom of a terminal. It is given what to print: it
// calls neither Podman nor an agent.
package console
