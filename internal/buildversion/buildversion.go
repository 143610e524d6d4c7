// Package buildversion finds the version of a program.
package buildversion

import (
	"cmp"
	"runtime/debug"
)

// Of returns the version that the linker set, else that of the main module, else "unknown".
func Of(linked string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		linked = cmp.Or(linked, info.Main.Version)
	}
	return cmp.Or(linked, "unknown")
}
