// Package teamfiles has files in which teams keep what runs on ECS, for tests: reduced and rewritten from what is
// public, and from what CDK 2.276 synthesizes. Plans of Terraform are written by the documented format.
//
// files/KIND/CASE has the files of a case, args (the file to import, then a line for each flag without its dashes)
// and want (what internal/define/foreign makes of it).
package teamfiles

import "embed"

// Files are the files, below the directory files.
//
//go:embed all:files
var Files embed.FS
