// Package updates is the part that looks daily at the images to which units and services may be updated: what the agent
// does for it, its metrics, and the sentence of `why` about an update that waits.
package updates
