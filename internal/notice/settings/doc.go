// Package settings reads the tables [[notify]] of the configuration. It reports all problems at once, each with its
// file and line.
package settings
