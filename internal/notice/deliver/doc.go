// Package deliver sends a notice where a rule says: to a webhook, by mail, or to a program. It sends once and says what
// became of it; whoever calls it decides when to try again. A secret is read from its source for each message, and is
// in no error.
package deliver
