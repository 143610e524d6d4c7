// Package helptext lays the help of a command out for the width of a terminal: a summary,
// the usage line, paragraphs, and groups of names with what each means.
//
// The command line fills a Page and writes it. The package knows neither commands nor
// flags, reads no terminal, and never shortens what it is given.
package helptext
