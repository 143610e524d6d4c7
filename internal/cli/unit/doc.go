// Package unit has the commands for .task units, and the conversion of Compose files, Quadlet
// units and tasks to them.
package unit
