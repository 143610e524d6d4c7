// Package schemafile tests that the JSON Schemas of the documentation are those of the code.
package schemafile
