// Package resource has what resources of all services of AWS share: tags, and the keys of their records.
package resource
