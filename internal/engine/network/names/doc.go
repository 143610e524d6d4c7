// Package names lets tasks reach the services of their namespace by name.
//
// A task has an address for each name, which stays the same as long as the task exists, and a line of /etc/hosts
// that says so. The address is one of a network beside that of the task (netns.SideNetwork).
// The process that owns the task listens there and passes the connections to the forwarder of the
// service, which knows the healthy copies. A name that no service has any more keeps its address: connections to it are refused, and
// no other name gets it.
//
// # Decisions
//
//   - A name has an address of its own in each task, and a socket beside it. The agent makes a network namespace
//     beside that of the task, with a link to it, and listens there (netns.SideNetwork); a listener in the task's
//     own namespace would take its port from programs that listen on all addresses. A helper makes the link and a
//     stock of sockets there once, the agent binds them: the owner of a user namespace may. No process is in the
//     second namespace: it ends with the agent's sockets, and a route in the task then says "unreachable", so that
//     nothing of the network beyond gets what was meant for a name.
//   - The agent forwards, as for listeners. A name's forwarder has one set of healthy copies and a listener for each
//     task. When the agent is killed, open connections end and new ones fail at once; the next agent listens again
//     when it takes the task. A task costs a link, a namespace, and a descriptor for each name and one more.
//   - A task's names are a file that only grows. names/TASK.json is written before /etc/hosts has a line, and an
//     address is the place of its name in it. So no address ever leads to another name, whatever comes, goes or is
//     killed; the owner removes the file with the task.
package names
