package console

import "github.com/podtask/podtask/internal/term"

// OneLine makes text from elsewhere safe to print in a line.
func OneLine(s string) string { return term.Line(s) }
