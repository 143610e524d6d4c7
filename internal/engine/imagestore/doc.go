// Package imagestore brings images into local storage and removes them again: it resolves
// references, pulls with progress, records what podtask has pulled, and prunes what nothing
// uses. It never touches an image that podtask did not pull. internal/engine/effects calls it for
// tasks, the command line for users.
package imagestore
