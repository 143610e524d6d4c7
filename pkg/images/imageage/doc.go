// Package imageage decides when a host may follow a tag to another image. It calls nothing and reads no clock.
//
// A Book has the digests that this host has seen for each tag, with the time of the first sight, and for each taker (a
// unit or a service) the digest that it runs. See notes a sight, Decide says which digest a taker gets, and Take lets a
// taker have a digest.
//
// # Decisions
//
//   - The gate is in the one function that turns a tag into a digest, so that a restart, a new copy and a deployment wait
//     as auto-update does. A taker keeps its digest until the digest that the tag has now is allowed. One that the tag
//     had in between, and has no more, is never taken.
//   - The age of a digest is the time for which this host has known it, by a clock of the book. That runs as the host's
//     CLOCK_BOOTTIME, and over a restart of the host as the wall clock, but never backwards. So setting the clock changes no
//     age. A wall clock that goes on by more than 30 days over a restart is not believed. Previews of stacks end by such a clock too.
//   - A digest keeps its first sight when the tag leaves it and returns. The book is bounded: what is forgotten is new
//     when it is seen again, and so younger, not older.
//   - A taker without an entry, as the first time or after the book was damaged, starts with the copy that the host has
//     of the tag. Only where there is none does it take what the tag has.
package imageage
