// Package refs finds the source on this host of what a definition names on AWS: secrets,
// objects of S3 and volumes. A Table is an ordered list of patterns, each with a source; the
// first that matches answers. package config reads a Table from podtask.toml, the command
// line and the API put entries in front of it, and package taskdef asks it.
//
// The package is pure: it handles texts. It opens no source and never holds a value.
package refs
