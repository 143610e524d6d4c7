// Package unit has the commands for .task units.
package unit
