// Package imagelook looks daily at the tags that units and services with a minimum age follow, and says which updates
// wait. One HEAD is sent for each tag and login; the sights are in the book of package imagestore. It updates nothing.
package imagelook
