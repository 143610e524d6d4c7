// Package nonsense feeds ten megabytes of hostile text to parsers, for tests, and
// fails if a parser needs too much memory. It does not check what the parser returns.
package nonsense
