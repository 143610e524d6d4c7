// Package catalog stores task definitions by family and revision, as ECS does, in the
// state directory of one user. internal/cli and internal/engine use it.
//
// A family is one record, and so is each document, which is named by its digest.
// Registering writes the document first and the family last, so that a crash leaves at
// most a document that no family refers to. Registering a document that an active
// revision already has returns that revision. A revision number is never reused.
//
// Documents are stored unchanged. The catalog knows nothing of running tasks. A Catalog
// is safe for concurrent use, also by several processes.
package catalog
