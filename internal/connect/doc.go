// Package connect is the client's side of a task: it finds the process that owns the task, the agent
// or an owner of its own, and sends it requests. If no process owns the task, this process becomes its
// owner.
//
// # Decisions
//
//   - Every task starts with a launch. owner.Launch is the task with its name and options; Creator.Launch checks the
//     host and records the task. Services, hooks, schedules, tests, the API and AWS clients call it; a command calls
//     connect.Start, which also removes what the task replaces. In the background (StartDetached) the owner's
//     process starts meanwhile.
//   - A new task is handed over with its lock. Whoever creates the record holds the lock of the task until its owner
//     runs, so that no other command can become its owner in between. Within a process, the fleet takes the owner as
//     it is. Between processes, the descriptor of the lock's file goes over a socket: an flock belongs to the open
//     file, and internal/state settles which of the two has it. podtask run creates the record also if an agent will
//     own the task, because the definition is read with the files, environment and configuration of that command.
//   - A request that may come twice has the ID of its task. Whoever asks for a task and may be killed before he
//     notes the answer gives a token, from which the ID follows. Creator.Record refuses an ID that has a record,
//     under the lock of that ID; when such a task has run and is removed, its ID stays in removed/DAY for a week
//     (Options.Once). [docs/dev/once.md](docs/dev/once.md) says for each door what the token is.
//   - A process that runs one task has no fleet. It runs the same owner.Owner as an agent does, and serves it with
//     ownerapi.Host.Drive. A fleet tries again after a failure and adopts what others record; a single owner ends
//     with the error, which systemd or the user acts on.
package connect
