// Package define turns a document into a task: the one way for every door. A document is a task
// definition of ECS, a Kubernetes manifest, or a registered revision. What a command line, a unit, a
// request of the API or of an AWS client changes in it is a value of Changes.
//
// Read parses the document once, applies the changes and returns a Definition: the task, the
// options of its run, and a report of what is wrong, lost, or needed from this host. Prepare does what
// is left before a task can be created: it hands over the content of Secrets, checks paths of
// the host and reads environment files.
package define
