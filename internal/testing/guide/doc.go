// Package guide contains task definitions for tests: one for each kind of example in
// the ECS developer guide, with its own names and values.
package guide
