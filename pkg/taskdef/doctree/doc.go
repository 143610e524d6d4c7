// Package doctree reads JSON and YAML into a tree of values in which every value
// and every key knows its line and column. pkg/taskdef and
// internal/define/pod parse with it. It knows nothing of what a document means, it never expands more values than
// its bounds allow, and it does no I/O.
package doctree
