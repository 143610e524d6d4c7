// Package stack decides what is done to a stack: several services and jobs that are changed as one. It calls nothing. Next says what
// the next step is, Begin what the record says before it, End what the record says after it. All that a change needs is in the record,
// so a process that was killed is continued by the next one at that step.
//
// A change applies only what differs, each member after those that it waits for. While it goes forward it removes nothing but what holds
// an address that a member needs. If a step fails, the change is put back: what it made is removed, what it changed gets what it had.
// When all members are as wanted there is no way back, and what is left over is removed.
//
// A step may be repeated: to apply a member makes it what its Print stands for, whatever was there.
package stack
