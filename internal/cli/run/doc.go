// Package run has the commands that read a definition: run, the owner of a detached task,
// validate, plan, init and schema.
package run
