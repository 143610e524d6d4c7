// Package metadata implements the ECS task metadata endpoint, version 4 (and 3, with the
// same replies), of one task. Software in a container finds it at
// ECS_CONTAINER_METADATA_URI_V4.
//
// It builds the JSON documents from a task's state and serves them on a listener. The
// caller creates the listener inside the task's network.
package metadata
