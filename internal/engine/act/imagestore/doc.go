// Package imagestore pulls images into local storage and removes them again. It resolves
// references, reports progress, records what podtask has pulled, and prunes images that are
// no longer used. It never removes an image that podtask did not pull.
package imagestore
