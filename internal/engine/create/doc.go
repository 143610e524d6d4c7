// Package create makes the durable record of a new task: it completes the options, reserves
// the name, and keeps secrets that only this process can read. It starts nothing.
package create
