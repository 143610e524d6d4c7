// Package define turns a document into a task: the one way for every door. A document is a task
// definition of ECS, a Kubernetes manifest, or a registered revision. What a command line, a unit, a
// request of the API or of an AWS client changes in it is a value of Changes.
//
// Read parses the document once, applies the changes and returns a Definition: the task, the
// options of its run, and a report of what is wrong, lost, or needed from this host. Prepare does what
// is left before a task can be created: it hands over the content of Secrets, checks paths of
// the host and reads environment files.
//
// # Starting a task
//
//   - References are resolved to sources when a definition is read, to values when a task starts. The first step is
//     pure: a table of patterns turns an ARN into a source, and the task records the source. The second step reads
//     each source once for a start; no value outlives it outside of Podman.
//   - A registered manifest has no Secrets; Podman keeps their content. An ID is reserved in the catalog before
//     Podman gets the content under it, so whatever process is killed, content that no active revision, service or
//     task names is found and removed.
//   - A lock pins references, not pulls. With --locked each image of the task becomes NAME:TAG@DIGEST when the
//     definition is read, so that everything after that, owners and services included, works as for an image that
//     its author pinned. Images of localhost/ are compared by their IDs before the task is created.
//
// # Decisions
//
//   - One function turns a request into a task. run, units, the API, services, AWS clients and Pods give
//     internal/define a document or a registered revision and the changes that they make to it. They get the same
//     task, options and report.
package define
