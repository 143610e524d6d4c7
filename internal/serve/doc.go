// Package serve answers requests of the API for the tasks and services of one user: an
// OwnerBackend for the one task of an owner, an AgentBackend for all tasks and services of an agent.
//
// A backend checks a request, sends it to the owner of the task, and shows what changes. If another
// process owns the task, the agent forwards the request to it.
package serve
