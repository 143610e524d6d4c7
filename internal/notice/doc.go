// Package notice decides which events of this host send a notice, to whom and when. It calls nothing and reads no clock.
//
// Step takes the state, the time and what has happened since, and returns the next state. Its outbox has the messages
// to deliver, each with an ID that stays the same however often it is sent. Whoever delivers saves the state first, and
// then notes with Delivered or NotDelivered what became of a message. Next says when to call Step again without an event.
//
// A condition sends one notice: another only when it returns after it was resolved, or when it happens again hours
// later. It is resolved when it has been absent for a while. A rule with many notices in a short time sends a few of
// them, and one message with a count for the others.
//
// # Decisions
//
//   - The event log is the source, and there is no second watcher. What is no transition of a task is in it as an
//     event of another kind (record.Kind): how a deployment or an update of a unit went, and which run of a schedule
//     was missed. Three conditions are states and not events (certificates, disks, a Podman that does not answer);
//     the agent looks at them each minute, and asks nobody for that.
//   - notice.Step is pure: state, time and events in, state out, with an outbox. internal/notice/watch saves the
//     state, which has the place in the event log and the outbox, before internal/notice/deliver sends a message,
//     and its end after that. The ID of a message follows from what it tells, so a kill anywhere sends it again
//     under the same ID, and loses none.
//   - One process of the user sends notices, the holder of a lock: the agent, or where there is none podtask notify send,
//     which services of .task units start when they have failed.
package notice
