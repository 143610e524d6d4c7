// Package userfile reads files that a user names: definitions, test files, environment files, configuration. Whatever a
// name leads to, a read ends: named pipes and devices are refused without waiting for them, sizes are bounded, and a
// signal ends the wait for a pipe or a slow file system.
package userfile
