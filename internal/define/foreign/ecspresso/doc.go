// Package ecspresso reads configurations of ecspresso with the definitions that they name. It evaluates the templates in them; a value that a
// template lacks is asked for only if what it stands in is used.
package ecspresso
