// Package service is the service scheduler of ECS for one host: it keeps a set number of
// copies of a task running and replaces them when their definition changes. It is pure, as
// pkg/lifecycle is: Step takes a State, the time and an Event and returns the next State
// and the Effects to start. It reads no clock and calls nothing. The agent drives it.
//
// # Duties of the caller
//
//   - Save the state before any effect of its step begins. A task is in the state before
//     it is started, with an id derived from the service's, so that an effect that runs
//     twice creates one task, and none is lost.
//   - Answer each effect with one Done. StartTask of a task that already has a record
//     succeeds.
//   - Report with Seen how each task changes whose phase is Live or Stopping, and with
//     Vanished that its record is gone.
//   - Answer CallHook with HookAnswered and CheckAlarms with AlarmsChecked.
//   - Send TimerFired at Wake, and ClockChanged when the clock of the host was set.
//   - Forward connections to the listeners' addresses to the copies in Groups of the saved
//     state, before an effect of its step begins: a copy leaves the rotation, finishes its
//     connections (DrainTask), and only then is told to stop.
//
// What is in flight is not saved: after a load, Step returns those effects again.
//
// # Words
//
// They are those of the ECS API: a deployment is PRIMARY or ACTIVE, its rollout
// IN_PROGRESS, COMPLETED or FAILED. A task is healthy when its health check says so, or without
// a health check has been RUNNING for five seconds. It has failed when it stopped without being asked to, or was
// UNHEALTHY after the grace period.
//
// # Stages
//
// An attempt that is not Rolling, or has hooks, a bake time or alarms, goes through the lifecycle stages of
// ECS: the tables in stages.go say what each does and waits for. Two sets of copies run beside each other,
// blue and green. Connections are shared between them by weights, blue stops last, and the way back is the
// same with the weights reversed.
//
// Values of this package are not safe for concurrent change.
//
// # Checks and hooks
//
//   - A hook of a deployment is a call with an id that follows from its stage. A program is ended with its process
//     group when the call is not open any more, so one hook never runs twice at a time. A call that was not answered
//     is made again by the next agent, with the same executionId; a task that is a hook has an id of the call's and
//     is found again.
//   - Weights are per connection. A smooth weighted round robin among the sets of copies keeps each within one
//     connection of its weight in any hundred. A change of weights moves no connection.
//
// # Services
//
//   - A copy of a service leaves the rotation before it is told to stop. The saved state of the service says which
//     copies connections are forwarded to. DrainTask waits for the connections of a copy that is to stop, and
//     StopTask comes after it.
//   - A deployment in stages is one table. An attempt that is not ROLLING has a Progress: the stage and since when,
//     the part of the connections that green has, and the calls of hooks. A row of the table says what a stage does
//     when it begins and what its own work waits for; every stage also waits for its hooks. Step moves through the
//     rows and saves each of them before anything follows, so a kill in a stage repeats calls at most. The way back
//     is the same table from the shifts on, with the parts reversed.
//   - A deployment keeps the method that it began with, and its timers are times of the wall clock in the record.
//   - A hook is an effect with an answer. CallHook names a call in the state, HookAnswered the same call and its
//     number, so an answer that comes too late changes nothing.
//   - A protected task is spared by the task, not only by its service. The service may learn of the protection too
//     late, so its request to stop says that the task may spare itself.
//   - Sleep is a fact in, a count out. Whoever forwards connections says of a service that it is in use, that it has
//     been without use for the time after which it sleeps, or that a connection waits (forward.Use, and uses in the
//     status of the ingress proxy); nobody looks at each connection. pkg/service decides by that, and its record
//     says whether the service sleeps: then no copy is wanted, one while a deployment is tried, and one until a wake
//     has a healthy copy. Addresses, names and certificates do not depend on it. The connection that wakes a service
//     is held by the process that accepted it, and an agent that starts asks the proxy who waits, so that a kill
//     loses no wake. An agent that knows nothing of use does not take that for none.
package service
