// Package tasktest has the command podtask test, which starts the task of a definition for each test of a test
// file, checks what the test expects, and removes everything.
package tasktest
