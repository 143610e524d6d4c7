// Package suggest finds the word that a misspelled one was probably meant to be, for
// "did you mean". Parsers of files and of the command line call it. It never decides what
// to do: a suggestion is only printed.
package suggest
