// Package secretsource reads secrets from where users keep them: a file, a tree
// of files, a systemd credential, an environment variable, a program or Podman. internal/engine
// reads a secret right before it is used.
//
// A Source says where a secret is kept and is safe to show and to store. A Value is the
// secret itself: it does not print, and Clear overwrites it. The package caches nothing
// and never puts a value into an error.
package secretsource
