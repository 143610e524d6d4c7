// Package metadata is the ECS task metadata endpoint, version 4 (and 3, with the
// same answers), of one task: what software in a container finds at
// ECS_CONTAINER_METADATA_URI_V4.
//
// It builds the JSON documents from a task's state and serves them on whatever
// listener it is given. How that comes to be inside the task's network is the
// business of its user.
package metadata
