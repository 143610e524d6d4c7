// Package serve answers requests of the API for all tasks and services of one user, in an agent.
//
// An AgentBackend checks a request, sends it to the owner of the task, and shows what changes. If
// another process owns the task, the agent forwards the request to it. What an owner of one task
// answers is in package ownerapi.
package serve
