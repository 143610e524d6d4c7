// Package stack decides what is done to a stack: several services and jobs that are changed as one. It calls nothing. Next says what
// the next step is, Begin what the record says before it, End what the record says after it. All that a change needs is in the record,
// so a process that was killed is continued by the next one at that step.
//
// A change applies only what differs, each member after those that it waits for. While it goes forward it removes nothing but what holds
// an address that a member needs. If a step fails, the change is put back: what it made is removed, what it changed gets what it had.
// When all members are as wanted there is no way back, and what is left over is removed.
//
// A step may be repeated: to apply a member makes it what its Print stands for, whatever was there.
//
// # Decisions
//
//   - A stack is a record, and the agent knows nothing of it. podtask stack reads a project to members: requests for
//     services and tasks. The process of the command holds the stack's lock and asks the agent for one after the
//     other, as any client does.
//   - decide/stack is pure and level-based. The record says what each member has on the host, as far as is known,
//     and what the change goes to: its target, or, on the way back, the revision before. Next compares the two;
//     there is no list of steps. Begin is saved before a step and says that a member's state is unknown until End is
//     saved. So a kill at any step, another target meanwhile, and a rollback are the same comparison again, and a
//     step may be repeated.
//   - There is one point without a way back: all members are as wanted, and only what is left over remains. What
//     holds an address that a new member needs goes before it; it is made again if the change is put back.
//   - Each service puts itself back. A deployment that is under way is rolled back by pkg/service, by its own
//     strategy; then the service gets the request that it had.
//   - Podman keeps what is a secret, and labels tell what was made for a stack. Volumes and secrets have an owner
//     stack.NAME in the place of a task, so nothing that podtask did not make is removed.
package stack
