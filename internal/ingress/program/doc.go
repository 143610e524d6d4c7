// Package program is podtask-ingress, the proxy between the network and the services of a user: a
// process of its own, without access to Podman. It listens, follows the file of routes, has the
// certificates, answers the agent on a socket, and hands its listeners to its successor.
//
// # Decisions
//
//   - What the network can attack is a process without Podman. podtask-ingress reads ingress/routes.json, which the
//     agent replaces durably before a copy starts to drain or to stop, and answers on a socket of its own. The agent
//     is its client, never the other way round: it asks for drained copies (/v1/drain) and follows its status
//     (/v1/watch). So the proxy starts and serves without the agent, and an agent that ends cuts nothing.
//   - A proxy hands its listeners to its successor (SIGHUP) and finishes what it has, answering on ingress.sock.PID
//     so that the agent waits for it too.
//   - The proxy has the TCP listeners of services too; the agent has those that the proxy has not. A host without
//     public addresses therefore needs no second service. Both open them with SO_REUSEPORT, so that an address moves
//     between them without a gap. When the proxy's status has it, the agent passes its socket over the proxy's
//     control socket and then closes its own descriptor: a connection that waits to be accepted would be reset with
//     the socket. The agent checks first that no other program has the port. Connections stay where they were
//     accepted. A proxy that ends without a successor says so in its status, and the agent takes the sockets back
//     the same way. A proxy that finds an address taken first waits for the agent's socket, so that there is one for
//     each address, however often the proxy is restarted.
//   - A certificate that is a secret becomes a file, because the proxy starts without the agent and without Podman.
//     The agent checks it against the host and writes it before the routes have it; until then the address keeps
//     what it had.
//   - An Ingress of a manifest becomes x-podtask.ingress of the task, so that services, plan and the API need to
//     know nothing of it. What would be left out is a warning; what would be served in another way than the document
//     says, and paths or users beyond it, is a problem.
package program
