// Package envfile reads the environment files that a task definition names. Errors name the
// file and the line, never a value.
package envfile
