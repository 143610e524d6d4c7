// Package stack has the commands of `podtask stack`: several services and jobs that are changed as one.
package stack
