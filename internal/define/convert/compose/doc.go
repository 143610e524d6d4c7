// Package compose converts Compose files: the common part of a file to one task, or a whole project to the members of a stack.
//
// It reads the files that a Compose file includes or extends, and nothing else: text in, text out.
package compose
