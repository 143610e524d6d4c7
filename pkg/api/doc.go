// Package api is the API between podtask processes: wire types, a server and a client,
// HTTP with JSON on a Unix socket, all paths under /v1/.
//
//	GET    /v1/version
//	GET    /v1/openapi.json        this list as an OpenAPI 3.1 document
//	GET    /v1/events              JSON Lines; query after=, task=, follow=true
//	PUT    /v1/nodes/N/names       by which names the Pods of a node of Kubernetes reach each other; agents only
//	GET    /v1/budget              what all tasks together may take; agents only
//	GET    /v1/tasks
//	POST   /v1/tasks               body NewTask; an agent runs it
//	GET    /v1/tasks/TASK          TASK is a full id, a unique prefix or a name
//	GET    /v1/tasks/TASK/watch    JSON Lines: the task now and after each change
//	GET    /v1/tasks/TASK/logs     JSON Lines; query container=, since=, tail=, follow=true
//	GET    /v1/tasks/TASK/podstatus the task as a Kubernetes Pod, with its status
//	POST   /v1/tasks/TASK/adopt    an agent becomes the owner of a recorded task
//	POST   /v1/tasks/TASK/stop     body {"by": "...", "force": false}
//	DELETE /v1/tasks/TASK          query by=, force=
//	GET    /v1/services            and POST, body NewService; agents only
//	GET    /v1/services/NAME       and PATCH, body ServiceUpdate; DELETE, query force=
//	GET    /v1/services/NAME/watch JSON Lines: the service now and after each change
//	POST   /v1/services/NAME/rollback
//	POST   /v1/services/NAME/continue
//	POST   /v1/services/NAME/wake  query by=
//
// A failure is answered with {"error": {"code": "...", "message": "..."}}; see
// Code. Stop and removal are requests: the reply confirms that they were accepted, the
// watch shows when they are done.
//
// The owner of a task serves this for its one task and an agent for many: the
// server asks a Backend and does not know which it is.
//
// Only the user who created the socket can use it: its directory has mode 0700, the
// socket has mode 0600, and the server checks the user of each connection
// (SO_PEERCRED).
//
// The JSON keys are lowerCamelCase and stable: keys may be added, none is
// renamed. Types and functions are safe for concurrent use where they say so.
package api
