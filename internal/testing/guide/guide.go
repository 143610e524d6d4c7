package guide

import "embed"

// Files are the definitions, NAME.json each.
//
//go:embed *.json
var Files embed.FS
