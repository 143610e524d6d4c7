// Package helptext formats the help of a command for the width of a terminal: a summary, the usage line,
// paragraphs, and groups of names with their explanations.
//
// It depends on neither commands nor flags nor a terminal, and never shortens a text.
package helptext
