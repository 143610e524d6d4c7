// Package importer is the part that makes task definitions and units of Compose files, Quadlet units, files of other tools,
// services of an account of AWS, and tasks.
package importer
