// Package notice decides what people are told: which events of this host are a reason for a notice, who gets it, and
// when. It calls nothing and reads no clock.
//
// Step takes the state, the time and what has happened since, and returns the next state. Its outbox has the messages
// to deliver, each with an ID that stays the same however often it is sent. Whoever delivers saves the state first, and
// then notes with Delivered or NotDelivered what became of a message. Next says when to call Step again without an event.
//
// A condition is told once: again only when it returns after it was well, or when it happens again hours later. It is
// well when it has been for a while. A rule that gets many notices in a short time sends a few of them, and one message
// with a count for the others.
package notice
