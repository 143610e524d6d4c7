// Package releases has state directories as released versions wrote them, and a test that this version
// reads all that is in them. A directory is added with each release.
package releases
