// Package doctor checks what prevents tasks from running on a host and reports how to
// fix it. internal/cli prints the findings; internal/engine refuses tasks because of
// single findings and adds them to errors.
//
// Each check is a small function of a [Host], which is all that a check sees: files,
// the environment, programs, and the answers of Podman and systemd. Therefore a test
// can describe a broken host as a value. A check never changes anything.
package doctor
