// Package image has the commands for images: digests, the images that podtask pulled, and their
// removal.
package image
