// Package guide holds task definitions for tests: one for each kind of example in
// the ECS developer guide, in words and values of our own.
package guide

import "embed"

// Files are the definitions, NAME.json each.
//
//go:embed *.json
var Files embed.FS
